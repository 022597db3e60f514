// Command parley-smallest is a dispatcher with nothing of Parley's: first come, first served on
// whole nodes, in raw messages over ZeroMQ and MessagePack. It asks for the state with every
// request and keeps nothing in mind. A lesson, not a pattern: whatever goes wrong ends it.
package main

import (
	"bytes"
	"context"
	"os"

	"github.com/go-zeromq/zmq4"
	"github.com/tinylib/msgp/msgp"
)

type object = map[string]any

var (
	socket  = zmq4.NewReq(context.Background())
	session = object{}
)

func main() {
	must(socket.Dial(os.Getenv("PARLEY_ENDPOINT")))
	welcome := ask("hello", object{
		"versions": []any{"1.0"}, "client": object{"name": "smallest", "version": "1"},
		"capabilities": object{"state": "snapshot"},
	})
	if welcome["type"] == "error" {
		os.Exit(1)
	}
	session["session"], session["epoch"] = welcome["session"], welcome["epoch"]
	session["re"] = welcome["seq"]
	message := ask("ready", object{})
	for message["type"] == "decision.request" {
		body := message["body"].(object)
		session["re"] = message["seq"]
		message = ask("decision.reply", object{
			"decisions": decide(body["state"].(object)), "state_version": body["state_version"],
		})
	}
	if message["type"] != "session.end" {
		os.Exit(1)
	}
}

// decide starts jobs as long as there are nodes for the first in line; where is up to the server.
func decide(state object) []any {
	starts, free := []any{}, 0.0
	for _, run := range state["nodes"].([]any) {
		if run := run.([]any); number(run[2].(object)["core"]) > 0 {
			free += number(run[1]) - number(run[0]) + 1
		}
	}
	for _, job := range state["pending"].([]any) {
		job := job.(object)
		free -= number(job["request"].([]any)[0].(object)["chunks"])
		if free < 0 {
			break
		}
		starts = append(starts, object{"id": len(starts), "kind": "start", "job": job["job"]})
	}
	return starts
}

// number takes an integer in whatever width, or as a float, it was written.
func number(from any) float64 {
	switch from := from.(type) {
	case int64:
		return float64(from)
	case uint64:
		return float64(from)
	case float32:
		return float64(from)
	case float64:
		return from
	}
	return 0
}

// ask sends a message and returns the answer; both are maps.
func ask(kind string, body object) object {
	message := object{"v": 1, "type": kind, "body": body}
	for key, value := range session {
		message[key] = value
	}
	var frame bytes.Buffer
	writer := msgp.NewWriter(&frame)
	must(writer.WriteIntf(message))
	must(writer.Flush())
	must(socket.Send(zmq4.NewMsg(frame.Bytes())))
	received, err := socket.Recv()
	must(err)
	answer, _, err := msgp.ReadMapStrIntfBytes(received.Bytes(), nil)
	must(err)
	return answer
}

func must(err error) {
	if err != nil {
		os.Stderr.WriteString("parley-smallest: " + err.Error() + "\n")
		os.Exit(1)
	}
}
