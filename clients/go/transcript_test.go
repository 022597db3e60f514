package parley

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// replay leads a mirror through a recorded dialogue as the dispatcher led its own, and holds it
// against every state that the server sent.
func replay(t *testing.T, name string) (states int) {
	t.Helper()
	file, err := os.Open("../../schemas/transcripts/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	var view *View
	for lines.Scan() {
		var line struct{ Bytes string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Bytes == "" {
			continue // the header, or the footer
		}
		frame, err := hex.DecodeString(line.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		message, err := decode(frame)
		if err != nil {
			t.Fatal(err)
		}
		body := message.get("body")
		switch message.get("type").text {
		case "welcome":
			var welcome WelcomeBody
			if err := bind(body, &welcome, "body"); err != nil {
				t.Fatal(err)
			}
			view = newView(&welcome)
		case "decision.request":
			var request DecisionRequestBody
			if err := bind(body, &request, "body"); err != nil {
				t.Fatal(err)
			}
			if accept(t, view, &request) {
				states++
			}
		case "decision.reply":
			decideAs(t, view, body, name != "tiny.jsonl") // whose dispatcher tries out what is refused
		case "session.end":
			if view.Queue.Len() > 0 {
				t.Errorf("%s: %d jobs wait here at the end", name, view.Queue.Len())
			}
		}
	}
	return states
}

// accept takes in a request by its events, and compares what it makes of them with its state.
func accept(t *testing.T, view *View, request *DecisionRequestBody) bool {
	t.Helper()
	state := request.State
	if request.NowUS > 0 {
		request.State = nil
	}
	if err := view.update(request); err != nil {
		t.Fatal(err)
	}
	if state == nil {
		return false
	}
	told := newView(view.Welcome)
	told.NowUS = view.NowUS
	if err := told.load(state); err != nil {
		t.Fatal(err)
	}
	if told.Digest() != view.Digest() {
		t.Errorf("at %d us the mirror is not the state that was sent", view.NowUS)
	}
	for _, run := range state.Nodes {
		for node := run.First; node <= run.Last; node++ {
			for resource, free := range run.Free {
				if got := view.Cluster.FreeOf(resource, node); got != free {
					t.Errorf("at %d us node %d has %d of %s free, not %d", view.NowUS, node, got, resource, free)
				}
			}
		}
	}
	return true
}

// decideAs decides what a recorded reply decided.
func decideAs(t *testing.T, view *View, body value, firstFit bool) {
	t.Helper()
	jobs := map[int64]*Job{}
	for job := range view.Queue.All() {
		jobs[job.Number] = job
	}
	for _, decision := range body.get("decisions").items {
		if kind := decision.get("kind").text; kind != "start" {
			t.Fatalf("no recorded dispatcher decided %s so far", kind)
		}
		job := jobs[decision.get("job").bits]
		if spans := decision.get("allocation"); spans.kind == nilKind {
			if !view.Start(job) {
				t.Fatalf("job %d does not fit", job.Number)
			}
		} else {
			var allocation [][]Span
			if err := bind(spans, &allocation, "allocation"); err != nil {
				t.Fatal(err)
			}
			placed := view.Cluster.FirstFit(job.Shape, job.Chunks)
			if firstFit && !reflect.DeepEqual(placed, allocation[0]) {
				t.Errorf("first fit puts job %d on %v, not %v", job.Number, placed, allocation[0])
			}
			if err := view.StartOn(job, allocation[0]); err != nil {
				t.Fatal(err)
			}
		}
		view.sent[len(view.sent)-1].id = decision.get("id").bits
	}
	view.decisions = nil
}

func TestTheMirrorAcceptsEveryStateOfTheTranscripts(t *testing.T) {
	states := 0
	for _, name := range []string{"plain.jsonl", "shared.jsonl", "failing.jsonl", "tiny.jsonl"} {
		t.Run(name, func(t *testing.T) { states += replay(t, name) })
	}
	if states < 10 {
		t.Errorf("only %d states were compared", states)
	}
}
