package parley

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

// server speaks over a real socket: it answers each message with what a script says, JSON text.
type server struct {
	t        *testing.T
	endpoint string
	heard    []value
	seq      int
	done     chan struct{}
}

const (
	welcomeBody = `{"version":"1.0","server":{"name":"stage","version":"1"},"granted":{"state":"events",
	"decisions":"each","submit":false},"ask":"always","wants":[],"token":"secret","resumed":false,"seed":0,
	"limits":{"message_bytes":65536,"depth":32,"string_bytes":65536,"array_items":65536,"containers":65536,
	"decisions":10000,"undecodable":3},"policy":{"on_reject":"report","reasks":0,"on_timeout":"fail",
	"on_disconnect":"%s","reconnect_ms":1000,"latency_model":"zero","on_node_down":"kill"},
	"scenario":{"name":"s","digest":"","rules":{"request":"","select":"","on_overrun":"","estimate":"",
	"estimate_missing":""}},"platform":{"node_count":1,"groups":[{"name":"n","first":0,"last":0,"capacity":{"core":1}}]}}`
	stateBody = `{"pending":[{"job":4,"name":"x","submit_us":0,"request":[{"chunks":1,"per_chunk":{"core":1},
	"exclusive":false}]}],"held":[],"running":[],"nodes":[[0,0,{"core":1},"up"]],"timers":[],"exhausted":true}`
	endBody = `{"reason":"%s","now_us":5,"outcomes":[],"stats":{"submitted":0,"completed":0,"failed":0,"timed_out":0,
	"killed":0,"rejected":0,"requeues":0}}`
	gone = "gone" // the server closes its socket in the place of an answer
)

func request(more string) string {
	return `decision.request {"now_us":0,"attempt":1,"events":[],"outcomes":[],"state_version":3` + more + `}`
}

func welcome(onDisconnect string) string { return "welcome " + fmt.Sprintf(welcomeBody, onDisconnect) }

func end(reason string) string { return "session.end " + fmt.Sprintf(endBody, reason) }

// stage begins a server at an endpoint, any if it is empty.
func stage(t *testing.T, endpoint string, script ...string) *server {
	t.Helper()
	if endpoint == "" {
		endpoint = "ipc://" + filepath.Join(t.TempDir(), "socket")
	}
	s := &server{t: t, endpoint: endpoint, done: make(chan struct{})}
	router := zmq4.NewRouter(context.Background())
	if err := router.Listen(endpoint); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		defer router.Close()
		for _, line := range script {
			message, err := router.Recv()
			if err != nil {
				return
			}
			heard, err := decode(message.Frames[len(message.Frames)-1])
			if err != nil || len(message.Frames) != 3 || len(message.Frames[1]) != 0 {
				t.Errorf("%d frames: %v", len(message.Frames), err)
			}
			s.heard = append(s.heard, heard)
			if line == gone {
				return
			}
			s.seq++
			kind, body, _ := strings.Cut(line, " ")
			text := fmt.Sprintf(`{"v":1,"type":%q,"session":"7","epoch":1.0,"seq":%d,"body":%s}`, kind, s.seq, body)
			if err := router.SendMulti(zmq4.NewMsgFrom(message.Frames[0], nil, []byte(text))); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(50 * time.Millisecond) // what is on its way is read before the end
	}()
	return s
}

// said returns the types of what the server heard, once it is done.
func (s *server) said() string {
	<-s.done
	kinds := []string{}
	for _, message := range s.heard {
		kinds = append(kinds, message.get("type").text)
	}
	return strings.Join(kinds, " ")
}

func firstCome(view *View) error {
	for job := range view.Queue.All() {
		view.Start(job)
	}
	return nil
}

func serveAt(endpoint string) (*SessionEndBody, error) {
	return Serve(context.Background(), DispatcherFunc(firstCome), Options{Endpoint: endpoint, Patience: 3 * time.Second})
}

func TestASessionIsPlayedToItsEnd(t *testing.T) {
	s := stage(t, "", welcome("fail"), request(`,"state":`+stateBody), end("completed"))
	end, err := serveAt(s.endpoint)
	if err != nil || !end.Complete() {
		t.Fatal(end, err)
	}
	if said := s.said(); said != "hello ready decision.reply" {
		t.Error(said)
	}
	reply := s.heard[2]
	if reply.get("session").text != "7" || reply.get("epoch").bits != 1 || reply.get("re").bits != 2 ||
		reply.get("body").get("state_version").bits != 3 {
		t.Errorf("%v", reply.plain())
	}
	if decision := reply.get("body").get("decisions").items[0]; decision.get("job").bits != 4 {
		t.Errorf("%v", decision.plain())
	}
}

func TestAMirrorThatHasDriftedIsBegunAnew(t *testing.T) {
	snapshot := `state.snapshot {"now_us":0,"state_version":3,"state":` + stateBody + `}`
	s := stage(t, "", welcome("fail"), request(`,"state_digest":"00"`), snapshot, end("completed"))
	if _, err := serveAt(s.endpoint); err != nil {
		t.Fatal(err)
	}
	if said := s.said(); said != "hello ready state.request decision.reply" {
		t.Error(said)
	}
	if decisions := s.heard[3].get("body").get("decisions").items; len(decisions) != 1 || s.heard[3].get("re").bits != 2 {
		t.Errorf("%v", s.heard[3].plain())
	}
}

func TestAnErrorIsToldAndFollowedByByeUnlessItIsFatal(t *testing.T) {
	for fatal, heard := range map[bool]string{false: "hello ready bye", true: "hello ready"} {
		refusal := fmt.Sprintf(`error {"code":"no.such","message":"not so","fatal":%v,"path":"body.x","supported":["y"]}`, fatal)
		s := stage(t, "", welcome("fail"), refusal, end("bye"))
		_, err := serveAt(s.endpoint)
		var refused *RefusedError
		if !errors.As(err, &refused) || err.Error() != "the server says no.such: not so (body.x); expected: y" {
			t.Errorf("%v", err)
		}
		if !fatal {
			if said := s.said(); said != heard {
				t.Error(said)
			}
		}
	}
}

func TestALostSessionIsResumedWhereTheServerWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ticket")
	s := stage(t, "", welcome("wait"), request(`,"state":`+stateBody), gone)
	ended := make(chan error)
	go func() {
		_, err := Serve(context.Background(), DispatcherFunc(firstCome), Options{Endpoint: s.endpoint, SessionFile: file})
		ended <- err
	}()
	<-s.done
	if content, err := os.ReadFile(file); err != nil || string(content) != `{"session":"7","token":"secret"}` {
		t.Errorf("%s: %v", content, err)
	}
	again := stage(t, s.endpoint, welcome("wait"), request(`,"state":`+stateBody), end("completed"))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	again.said()
	resume := again.heard[0].get("body").get("resume")
	if resume.get("session").text != "7" || resume.get("token").text != "secret" {
		t.Errorf("%v", again.heard[0].plain())
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error("the file of a session that is over is still there")
	}
}

func TestALostServerIsToldWhereItDoesNotWait(t *testing.T) {
	s := stage(t, "", welcome("fail"), gone)
	_, err := serveAt(s.endpoint)
	var lost *LostError
	if !errors.As(err, &lost) || !strings.HasSuffix(err.Error(), "is gone") {
		t.Errorf("%v", err)
	}
	_, err = Serve(context.Background(), DispatcherFunc(firstCome),
		Options{Endpoint: "tcp://127.0.0.1:9", Patience: 300 * time.Millisecond})
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "within 300ms") {
		t.Errorf("%v", err)
	}
}

func TestWhoeverWaitsIsWokenByTheEndOfItsContext(t *testing.T) {
	s := stage(t, "", welcome("wait"), request(`,"state":`+stateBody))
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Serve(ctx, DispatcherFunc(func(*View) error { cancel(); return nil }), Options{Endpoint: s.endpoint})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestADispatcherThatCannotGoOnSaysBye(t *testing.T) {
	s := stage(t, "", welcome("wait"), request(`,"state":`+stateBody), end("bye"))
	broken := errors.New("broken")
	_, err := Serve(context.Background(), DispatcherFunc(func(*View) error { return broken }), Options{Endpoint: s.endpoint})
	if !errors.Is(err, broken) || s.said() != "hello ready bye" {
		t.Errorf("%v", err)
	}
}

func TestWhatIsAskedAsideIsAnswered(t *testing.T) {
	s := stage(t, "", welcome("fail"), request(`,"state":`+stateBody), "pong {}", `progress.ack {"deadline_ms":9}`, end("bye"))
	end, err := Serve(context.Background(), DispatcherFunc(func(view *View) error {
		if err := view.Ping(); err != nil {
			return err
		}
		if left, err := view.Progress("thinking"); err != nil || left != 9 {
			return fmt.Errorf("%d ms: %w", left, err)
		}
		view.Leave("enough")
		return nil
	}), Options{Endpoint: s.endpoint})
	if err != nil || end.Complete() {
		t.Errorf("%v, %v", end, err)
	}
	if said := s.said(); said != "hello ready ping progress bye" {
		t.Error(said)
	}
}

func TestAPlatformThatIsNoneIsRefused(t *testing.T) {
	for _, change := range [][2]string{
		{`"node_count":1`, `"node_count":0`}, {`"node_count":1`, `"node_count":9007199254740991`},
		{`"last":0`, `"last":1`}, {`"first":0`, `"first":1`},
	} {
		s := stage(t, "", strings.Replace(welcome("fail"), change[0], change[1], 1))
		_, err := serveAt(s.endpoint)
		var fault *ProtocolError
		if !errors.As(err, &fault) || !strings.HasPrefix(fault.Path, "body.platform.") {
			t.Errorf("%s: %v", change[1], err)
		}
	}
}

func TestWrongUsageIsTold(t *testing.T) {
	t.Setenv("PARLEY_ENDPOINT", "")
	broken := filepath.Join(t.TempDir(), "ticket")
	if err := os.WriteFile(broken, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, options := range []Options{
		{}, {Endpoint: "nonsense"}, {Endpoint: "tcp://host"}, {Endpoint: "udp://127.0.0.1:5"},
		{Endpoint: "tcp://127.0.0.1:5", SessionFile: broken},
	} {
		_, err := Serve(context.Background(), DispatcherFunc(firstCome), options)
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%+v: %v", options, err)
		}
	}
}
