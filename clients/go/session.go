package parley

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Version is that of this library.
const Version = "0.1.0"

// protocolVersion is the version of the protocol that is spoken here.
const protocolVersion = "1.0"

// mostNodes is more than any machine has; a mirror keeps some bytes for each.
const mostNodes = 1 << 27

// Dispatcher decides.
type Dispatcher interface {
	// Decide starts, rejects or kills jobs by way of the view. An error ends the session.
	Decide(view *View) error
}

// DispatcherFunc is a function that decides.
type DispatcherFunc func(view *View) error

// Decide calls the function.
func (f DispatcherFunc) Decide(view *View) error { return f(view) }

// Options say how to reach a server, and as whom.
type Options struct {
	// Endpoint is where the server listens; empty takes it from PARLEY_ENDPOINT.
	Endpoint string
	// Name of the dispatcher, as the server is told.
	Name string
	// Ask is "actionable" for a dispatcher that does nothing while no pending job could start,
	// and is not asked then; empty is "always".
	Ask string
	// Scenario is which, where a server offers several.
	Scenario string
	// Atomic asks that each reply be carried out as a whole or not at all; Submit that jobs may be
	// brought in. Declare what is used only.
	Atomic, Submit bool
	// SessionFile keeps what it takes to go on after a crash; empty keeps it in memory only.
	SessionFile string
	// Patience is how long to wait for a server to appear; 0 is a minute.
	Patience time.Duration
}

// session is a dispatcher's side of a session, over as many connections as it takes.
type session struct {
	options    Options
	dispatcher Dispatcher
	file       ticketFile
	ticket     *ticket
	// waitedFor: the server holds the session for whoever resumes it.
	waitedFor bool
	welcome   WelcomeBody
	// connection and what every message repeats.
	connection *connection
	name       *string
	epoch      *int64
	seq        int64
	bytes      int64
	keptBack   []Decision
}

// Serve decides for a server until its run is over, and returns how it ended.
//
// Errors: *UsageError if no endpoint or a broken session file is given, *LostError if the server
// did not appear or went away, *RefusedError if it sent an error, *ProtocolError and *MirrorError
// if it says what it cannot, the context's if that is over, and what the dispatcher returns.
func Serve(ctx context.Context, dispatcher Dispatcher, options Options) (*SessionEndBody, error) {
	if options.Endpoint == "" {
		options.Endpoint = os.Getenv("PARLEY_ENDPOINT")
	}
	if options.Endpoint == "" {
		return nil, &UsageError{Reason: "where is the server? pass an endpoint, or set PARLEY_ENDPOINT"}
	}
	if options.Patience == 0 {
		options.Patience = time.Minute
	}
	s := &session{options: options, dispatcher: dispatcher, file: ticketFile(options.SessionFile)}
	var err error
	if s.ticket, err = s.file.find(); err != nil {
		return nil, err
	}
	for {
		end, err := s.converse(ctx)
		var lost *LostError
		var refused *RefusedError
		switch {
		case err == nil:
			s.file.forget()
			return end, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &lost) && s.waitedFor:
			continue
		case errors.As(err, &refused) && refused.Code == "session.over":
			s.file.forget()
		}
		return nil, err
	}
}

// converse decides over one connection until the run is over.
func (s *session) converse(ctx context.Context) (*SessionEndBody, error) {
	s.waitedFor = false
	until := time.Now().Add(s.options.Patience)
	connection, err := connect(ctx, s.options.Endpoint, s.options.Patience)
	if err != nil {
		return nil, err
	}
	defer connection.close()
	// Whoever waits for an answer is woken by the end of its connection.
	defer context.AfterFunc(ctx, connection.close)()
	s.connection = connection
	if err := s.greet(until); err != nil {
		return nil, err
	}
	view := newView(&s.welcome)
	view.aside = s.aside
	kind, body, err := s.ask("ready", Empty{}, s.seq)
	for err == nil && kind == "decision.request" {
		kind, body, err = s.answer(view, body)
	}
	if err != nil {
		s.leave(err)
		return nil, err
	}
	if kind != "session.end" {
		return nil, malformed("a request was due, the server sent %q", kind)
	}
	var end SessionEndBody
	if err := bind(body, &end, "body"); err != nil {
		return nil, err
	}
	return &end, nil
}

func (s *session) hello() HelloBody {
	language, ask, events := "go", s.options.Ask, "events"
	body := HelloBody{
		Versions:     []string{protocolVersion},
		Client:       Program{Name: s.options.Name, Version: Version, Language: &language},
		Capabilities: &Capabilities{State: &events},
		Scenario:     said(s.options.Scenario),
	}
	if body.Client.Name == "" {
		body.Client.Name = "parley"
	}
	if ask != "" {
		body.Ask = &ask
	}
	if s.options.Atomic {
		atomic := "atomic"
		body.Capabilities.Decisions = &atomic
	}
	if s.options.Submit {
		body.Capabilities.Submit = &s.options.Submit
	}
	if s.ticket != nil {
		body.Resume = &Resume{s.ticket.Session, s.ticket.Token}
	}
	return body
}

// greet says hello and takes in the welcome.
func (s *session) greet(until time.Time) error {
	s.name, s.epoch, s.seq, s.bytes, s.keptBack = nil, nil, 0, 1<<24, nil
	frame, err := s.frame("hello", s.hello(), nil)
	if err != nil {
		return err
	}
	received, err := s.connection.ask(frame, until)
	if err != nil {
		return err
	}
	message, err := s.read(received)
	if err != nil {
		return err
	}
	if message.Type != "welcome" {
		return malformed("a welcome was due, the server sent %q", message.Type)
	}
	s.welcome = WelcomeBody{}
	if err := bind(message.Body.(value), &s.welcome, "body"); err != nil {
		return err
	}
	if s.welcome.Version != protocolVersion {
		return malformed("version %q was not offered", s.welcome.Version)
	}
	if err := requireGroups(&s.welcome.Platform); err != nil {
		return err
	}
	s.name, s.epoch, s.bytes = message.Session, message.Epoch, s.welcome.Limits.MessageBytes
	s.ticket = &ticket{*message.Session, s.welcome.Token}
	s.waitedFor = s.welcome.Policy.OnDisconnect == "wait"
	return s.file.keep(s.ticket)
}

// requireGroups refuses a platform that is none, before a mirror of it is made.
func requireGroups(platform *Platform) error {
	if platform.NodeCount < 1 || platform.NodeCount > mostNodes {
		return &ProtocolError{Path: "body.platform.node_count", Reason: "is no number of nodes"}
	}
	for i, group := range platform.Groups {
		if group.First > group.Last || group.Last >= platform.NodeCount {
			path := fmt.Sprintf("body.platform.groups.%d", i)
			return &ProtocolError{Path: path, Reason: "is not of the nodes of the platform"}
		}
	}
	return nil
}

// answer lets the dispatcher decide on a request, and returns what the server says to that.
func (s *session) answer(view *View, body value) (string, value, error) {
	began := time.Now()
	var request DecisionRequestBody
	if err := bind(body, &request, "body"); err != nil {
		return "", value{}, err
	}
	due := s.seq
	view.takeBack(&request, s.keptBack)
	if err := view.update(&request); err != nil {
		return "", value{}, err
	}
	if err := s.compare(view, &request); err != nil {
		return "", value{}, err
	}
	if err := s.dispatcher.Decide(view); err != nil {
		return "", value{}, err
	}
	if view.left {
		return s.ask("bye", ByeBody{Reason: said(view.reason)}, s.seq)
	}
	reply := DecisionReplyBody{Decisions: view.TakeDecisions(), StateVersion: request.StateVersion}
	keep := withinLimits(reply.Decisions, &s.welcome.Limits)
	reply.Decisions, s.keptBack = reply.Decisions[:keep], reply.Decisions[keep:]
	micros := time.Since(began).Microseconds()
	reply.ComputeUS = &micros
	return s.ask("decision.reply", reply, due)
}

// compare holds the mirror against the digest of a request, and begins it anew from the state if
// it has drifted (R-DIG-2).
func (s *session) compare(view *View, request *DecisionRequestBody) error {
	if request.StateDigest == nil || *request.StateDigest == view.Digest() {
		return nil
	}
	body, err := s.aside("state.request", Empty{})
	if err != nil {
		return err
	}
	var snapshot StateSnapshotBody
	if err := bind(body, &snapshot, "body"); err != nil {
		return err
	}
	return view.load(&snapshot.State)
}

// aside asks something while a request waits for its reply, and returns the body of the answer.
func (s *session) aside(kind string, body any) (value, error) {
	due := map[string]string{
		"ping": "pong", "progress": "progress.ack", "state.request": "state.snapshot",
	}[kind]
	got, answer, err := s.ask(kind, body, s.seq)
	if err == nil && got != due {
		err = malformed("a %s was due, the server sent %q", due, got)
	}
	return answer, err
}

// leave says bye where the server waits for this side and nothing else is left to be said: the
// session would wait for a resume otherwise. Its answer changes nothing any more.
func (s *session) leave(cause error) {
	var refused *RefusedError
	var lost *LostError
	if errors.As(cause, &lost) || errors.As(cause, &refused) && refused.Fatal {
		return
	}
	frame, err := s.frame("bye", ByeBody{Reason: said("cannot go on")}, &s.seq)
	if err == nil {
		_, _ = s.connection.ask(frame, time.Now().Add(5*time.Second))
	}
}

// ask sends a message and returns type and body of the answer.
func (s *session) ask(kind string, body any, re int64) (string, value, error) {
	frame, err := s.frame(kind, body, &re)
	if err != nil {
		return "", value{}, err
	}
	received, err := s.connection.ask(frame, time.Time{})
	if err != nil {
		return "", value{}, err
	}
	message, err := s.read(received)
	if err != nil {
		return "", value{}, err
	}
	if *message.Session != *s.name || *message.Epoch != *s.epoch {
		return "", value{}, malformed("a message of session %q, epoch %d", *message.Session, *message.Epoch)
	}
	return message.Type, message.Body.(value), nil
}

func (s *session) frame(kind string, body any, re *int64) ([]byte, error) {
	frame, err := pack(nil, &question{V: 1, Type: kind, Session: s.name, Epoch: s.epoch, Re: re, Body: body})
	if err == nil && int64(len(frame)) > s.bytes {
		err = &DecisionError{Reason: fmt.Sprintf(
			"a %s of %d bytes is more than the server takes", kind, len(frame))}
	}
	return frame, err
}

// read takes in a message of the server, notes its number, and makes an error of an error.
func (s *session) read(frame []byte) (*answer, error) {
	decoded, err := decode(frame)
	if err != nil {
		return nil, err
	}
	var message answer
	if err := bind(decoded, &message, "message"); err != nil {
		return nil, err
	}
	if message.V != 1 {
		return nil, &ProtocolError{Path: "v", Reason: "is not 1"}
	}
	if message.Seq != nil {
		s.seq = *message.Seq
	}
	if message.Type == "error" {
		refused := &RefusedError{}
		if err := bind(message.Body.(value), &refused.ErrorBody, "body"); err != nil {
			return nil, err
		}
		return nil, refused
	}
	if message.Session == nil || message.Epoch == nil || message.Seq == nil {
		return nil, malformed("a %s without session, epoch or seq", message.Type)
	}
	return &message, nil
}
