package parley

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

func fromSchemas(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile("../../schemas/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}

// asJSON makes all numbers doubles, as encoding/json reads them.
func asJSON(t *testing.T, from any) any {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	var made any
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestEveryVectorIsReadAsItsVerdictSays(t *testing.T) {
	var vectors struct {
		Frames []struct {
			Name, Verdict, Hex string
			Value              any
		}
	}
	fromSchemas(t, "vectors/codec.json", &vectors)
	if len(vectors.Frames) < 40 {
		t.Fatalf("only %d vectors", len(vectors.Frames))
	}
	for _, vector := range vectors.Frames {
		frame, err := hex.DecodeString(vector.Hex)
		if err != nil {
			t.Fatal(err)
		}
		message, err := decode(frame)
		switch vector.Verdict {
		case "valid":
			if err != nil {
				t.Errorf("%s: %v", vector.Name, err)
			} else if got := asJSON(t, message.plain()); !reflect.DeepEqual(got, vector.Value) {
				t.Errorf("%s: %v, not %v", vector.Name, got, vector.Value)
			}
		case "invalid":
			if err == nil {
				t.Errorf("%s: taken for %v", vector.Name, message.plain())
			}
		case "acceptable":
		default:
			t.Errorf("%s: no verdict %q is known", vector.Name, vector.Verdict)
		}
	}
}

func TestEveryExampleOfTheServerIsReadWhole(t *testing.T) {
	bodies := map[string]func() any{
		"welcome":          func() any { return &WelcomeBody{} },
		"decision.request": func() any { return &DecisionRequestBody{} },
		"state.snapshot":   func() any { return &StateSnapshotBody{} },
		"session.end":      func() any { return &SessionEndBody{} },
		"error":            func() any { return &ErrorBody{} },
		"progress.ack":     func() any { return &ProgressAckBody{} },
		"pong":             func() any { return &Empty{} },
		"hello":            func() any { return &HelloBody{} },
		"ready":            func() any { return &Empty{} },
		"bye":              func() any { return &ByeBody{} },
		"progress":         func() any { return &ProgressBody{} },
		"ping":             func() any { return &Empty{} },
		"state.request":    func() any { return &Empty{} },
	}
	files, err := os.ReadDir("../../schemas/examples")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".hex") {
			continue
		}
		digits, err := os.ReadFile("../../schemas/examples/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		frame, err := hex.DecodeString(strings.Join(strings.Fields(string(digits)), ""))
		if err != nil {
			t.Fatal(err)
		}
		message, err := decode(frame)
		if err != nil {
			t.Fatalf("%s: %v", file.Name(), err)
		}
		made, ok := bodies[message.get("type").text]
		if !ok {
			continue // a reply, whose decisions are only written here
		}
		read++
		body := made()
		if err := bind(message.get("body"), body, "body"); err != nil {
			t.Errorf("%s: %v", file.Name(), err)
			continue
		}
		// What is read and written again says the same, but for fields that were nil.
		packed, err := pack(nil, body)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(packed)
		if err != nil {
			t.Fatal(err)
		}
		if want := withoutNil(message.get("body").plain()); !reflect.DeepEqual(again.plain(), want) {
			t.Errorf("%s: %v, not %v", file.Name(), again.plain(), want)
		}
	}
	if read < 20 {
		t.Errorf("only %d examples were read", read)
	}
}

func withoutNil(from any) any {
	switch from := from.(type) {
	case map[string]any:
		if from["kind"] == "power.changed" { // of a later version: only what all have is kept
			delete(from, "watts")
		}
		for key, item := range from {
			if item == nil {
				delete(from, key)
			} else if key != "attributes" {
				from[key] = withoutNil(item)
			}
		}
	case []any:
		for i := range from {
			from[i] = withoutNil(from[i])
		}
	}
	return from
}

func TestAMissingOrWrongFieldIsNamedByItsPath(t *testing.T) {
	cases := map[string]string{
		`{"attempt":1}`:                   "body.now_us",
		`{"now_us":true}`:                 "body.now_us",
		`{"now_us":1.5}`:                  "body.now_us",
		`{"now_us":-1}`:                   "body.now_us",
		`{"now_us":9007199254740993.0e9}`: "body.now_us",
		`{"now_us":0,"attempt":1,"events":[{"kind":"job.ended","at_us":0,"job":"7"}]}`:   "body.events.0.job",
		`{"now_us":0,"attempt":1,"events":[{"kind":"node.up","at_us":0,"nodes":[[1]]}]}`: "body.events.0.nodes.0",
	}
	for text, path := range cases {
		message, err := decode([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		err = bind(message, &DecisionRequestBody{}, "body")
		if fault, ok := err.(*ProtocolError); !ok || fault.Path != path {
			t.Errorf("%s: %v, where %s is due", text, err, path)
		}
	}
}

func TestNilIsTakenForAbsent(t *testing.T) {
	message, err := decode([]byte(`{"name":"x","version":"1","language":null}`))
	if err != nil {
		t.Fatal(err)
	}
	var program Program
	if err := bind(message, &program, "body"); err != nil || program.Language != nil {
		t.Errorf("%v, %v", program.Language, err)
	}
}

func TestNothingOutsideTheProfileIsWritten(t *testing.T) {
	for _, from := range []any{int64(1) << 53, -(int64(1) << 53), "\xff", 1.0 / zero()} {
		if packed, err := pack(nil, from); err == nil {
			t.Errorf("%v was written as %x", from, packed)
		}
	}
}

func zero() float64 { return 0 }

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x81\xa1v\x01"))
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		message, err := decode(frame)
		if err == nil && message.kind != mapKind {
			t.Errorf("%x is no map", frame)
		}
	})
}
