package parley

// The messages of the protocol and what they are made of, field by field as schemas/ has them; a
// test holds them to it. `optional` fields are pointers, slices or maps, nil where absent.

// HelloBody says who the client is and what it wants.
type HelloBody struct {
	Versions     []string      `wire:"versions"`
	Client       Program       `wire:"client"`
	Capabilities *Capabilities `wire:"capabilities,optional"`
	Ask          *string       `wire:"ask,optional"`
	Wants        []string      `wire:"wants,optional"`
	Scenario     *string       `wire:"scenario,optional"`
	Resume       *Resume       `wire:"resume,optional"`
}

// Program says who is speaking.
type Program struct {
	Name     string  `wire:"name"`
	Version  string  `wire:"version"`
	Language *string `wire:"language,optional"`
}

// Capabilities are what a client can do; what is absent it cannot.
type Capabilities struct {
	State     *string `wire:"state,optional"`
	Decisions *string `wire:"decisions,optional"`
	Submit    *bool   `wire:"submit,optional"`
}

// Resume names a session that a client takes up again.
type Resume struct {
	Session string `wire:"session"`
	Token   string `wire:"token"`
}

// WelcomeBody says what the session will be like.
type WelcomeBody struct {
	Version  string   `wire:"version"`
	Server   Program  `wire:"server"`
	Granted  Granted  `wire:"granted"`
	Ask      string   `wire:"ask"`
	Wants    []string `wire:"wants"`
	Token    string   `wire:"token"`
	Resumed  bool     `wire:"resumed"`
	Seed     int64    `wire:"seed"`
	Limits   Limits   `wire:"limits"`
	Policy   Policy   `wire:"policy"`
	Scenario Scenario `wire:"scenario"`
	Platform Platform `wire:"platform"`
}

// Granted are the capabilities in force.
type Granted struct {
	State     string `wire:"state"`
	Decisions string `wire:"decisions"`
	Submit    bool   `wire:"submit"`
}

// Limits are what the server bears.
type Limits struct {
	MessageBytes int64  `wire:"message_bytes"`
	Depth        int64  `wire:"depth"`
	StringBytes  int64  `wire:"string_bytes"`
	ArrayItems   int64  `wire:"array_items"`
	Containers   int64  `wire:"containers"`
	Decisions    int64  `wire:"decisions"`
	Undecodable  int64  `wire:"undecodable"`
	Sessions     *int64 `wire:"sessions,optional"`
}

// Policy is how the server takes what goes wrong, and how long a decision lasts.
type Policy struct {
	OnReject      string   `wire:"on_reject"`
	Reasks        int64    `wire:"reasks"`
	OnTimeout     string   `wire:"on_timeout"`
	OnDisconnect  string   `wire:"on_disconnect"`
	ReconnectMS   int64    `wire:"reconnect_ms"`
	LatencyModel  string   `wire:"latency_model"`
	LatencyUS     *int64   `wire:"latency_us,optional"`
	LatencyFactor *float64 `wire:"latency_factor,optional"`
	OnNodeDown    string   `wire:"on_node_down"`
}

// Scenario is what is simulated.
type Scenario struct {
	Name   string        `wire:"name"`
	Digest string        `wire:"digest"`
	Rules  WorkloadRules `wire:"rules"`
}

// WorkloadRules say how the workload was read.
type WorkloadRules struct {
	Request         string `wire:"request"`
	Select          string `wire:"select"`
	OnOverrun       string `wire:"on_overrun"`
	Estimate        string `wire:"estimate"`
	EstimateMissing string `wire:"estimate_missing"`
}

// Platform is the machine.
type Platform struct {
	NodeCount int64       `wire:"node_count"`
	Groups    []NodeGroup `wire:"groups"`
}

// NodeGroup is nodes of one kind, numbered in a row.
type NodeGroup struct {
	Name     string           `wire:"name"`
	First    int64            `wire:"first"`
	Last     int64            `wire:"last"`
	Capacity map[string]int64 `wire:"capacity"`
}

// DecisionRequestBody is an instant, what happened since the last one, and what became of the
// last decisions.
type DecisionRequestBody struct {
	NowUS        int64     `wire:"now_us"`
	Attempt      int64     `wire:"attempt"`
	Events       []Event   `wire:"events"`
	Outcomes     []Outcome `wire:"outcomes"`
	StateVersion int64     `wire:"state_version"`
	State        *State    `wire:"state,optional"`
	StateDigest  *string   `wire:"state_digest,optional"`
	DeadlineMS   *int64    `wire:"deadline_ms,optional"`
}

// StateSnapshotBody is the whole state, at the instant of the request that waits for its reply.
type StateSnapshotBody struct {
	NowUS        int64 `wire:"now_us"`
	StateVersion int64 `wire:"state_version"`
	State        State `wire:"state"`
}

// State is all that a dispatcher needs to go on from here.
type State struct {
	Pending   []JobDescription `wire:"pending"`
	Held      []int64          `wire:"held"`
	Running   []RunningEntry   `wire:"running"`
	Nodes     []NodeRun        `wire:"nodes"`
	Timers    []TimerEntry     `wire:"timers"`
	Exhausted bool             `wire:"exhausted"`
}

// JobDescription is a job as a dispatcher may know it.
type JobDescription struct {
	Job        int64          `wire:"job"`
	Name       string         `wire:"name"`
	SubmitUS   int64          `wire:"submit_us"`
	WalltimeUS *int64         `wire:"walltime_us,optional"`
	Request    []ChunkGroup   `wire:"request"`
	User       *string        `wire:"user,optional"`
	Group      *string        `wire:"group,optional"`
	Queue      *string        `wire:"queue,optional"`
	Partition  *string        `wire:"partition,optional"`
	Attributes map[string]any `wire:"attributes,optional"`
}

// ChunkGroup is so many chunks of one shape.
type ChunkGroup struct {
	Chunks    int64            `wire:"chunks"`
	PerChunk  map[string]int64 `wire:"per_chunk"`
	Exclusive bool             `wire:"exclusive"`
}

// RunningEntry is a job on its nodes.
type RunningEntry struct {
	Job        JobDescription `wire:"job"`
	StartUS    int64          `wire:"start_us"`
	Allocation [][]Span       `wire:"allocation"`
}

// NodeRun is a run of equal nodes.
type NodeRun struct {
	_       struct{}         `wire:",tuple"`
	First   int64            `wire:"0"`
	Last    int64            `wire:"1"`
	Free    map[string]int64 `wire:"2"`
	Service string           `wire:"3"`
}

// NodeRange is nodes first to last.
type NodeRange struct {
	_     struct{} `wire:",tuple"`
	First int64    `wire:"0"`
	Last  int64    `wire:"1"`
}

// Span is so many chunks on each of the nodes first to last.
type Span struct {
	_      struct{} `wire:",tuple"`
	First  int64    `wire:"0"`
	Last   int64    `wire:"1"`
	Chunks int64    `wire:"2"`
}

// TimerEntry is a timer that waits.
type TimerEntry struct {
	Timer int64 `wire:"timer"`
	AtUS  int64 `wire:"at_us"`
}

// Outcome is what became of one decision.
type Outcome struct {
	ID         int64    `wire:"id"`
	Status     string   `wire:"status"`
	Code       *string  `wire:"code,optional"`
	Message    *string  `wire:"message,optional"`
	Allocation [][]Span `wire:"allocation,optional"`
	Job        *int64   `wire:"job,optional"`
	AtUS       *int64   `wire:"at_us,optional"`
}

// Event is one of the kinds of event below.
type Event interface{ event() }

// SessionStart: the run begins.
type SessionStart struct {
	Kind string `wire:"kind"`
	AtUS int64  `wire:"at_us"`
}

// JobSubmitted: a job joined the queue.
type JobSubmitted struct {
	Kind string         `wire:"kind"`
	AtUS int64          `wire:"at_us"`
	Job  JobDescription `wire:"job"`
}

// JobStarted: a job was started by another than this client.
type JobStarted struct {
	Kind       string   `wire:"kind"`
	AtUS       int64    `wire:"at_us"`
	Job        int64    `wire:"job"`
	Allocation [][]Span `wire:"allocation"`
}

// JobEnded: a job left its nodes.
type JobEnded struct {
	Kind   string `wire:"kind"`
	AtUS   int64  `wire:"at_us"`
	Job    int64  `wire:"job"`
	Status string `wire:"status"`
}

// NodeDown: nodes went out of service.
type NodeDown struct {
	Kind  string      `wire:"kind"`
	AtUS  int64       `wire:"at_us"`
	Nodes []NodeRange `wire:"nodes"`
}

// NodeUp: nodes came back, empty.
type NodeUp struct {
	Kind  string      `wire:"kind"`
	AtUS  int64       `wire:"at_us"`
	Nodes []NodeRange `wire:"nodes"`
}

// TimerFired: an instant came that the dispatcher asked to be woken at.
type TimerFired struct {
	Kind  string `wire:"kind"`
	AtUS  int64  `wire:"at_us"`
	Timer int64  `wire:"timer"`
}

// WorkloadExhausted: no further job will be submitted.
type WorkloadExhausted struct {
	Kind string `wire:"kind"`
	AtUS int64  `wire:"at_us"`
}

// UnknownEvent is one of a later version.
type UnknownEvent struct {
	Kind string `wire:"kind"`
	AtUS int64  `wire:"at_us"`
}

func (*SessionStart) event()      {}
func (*JobSubmitted) event()      {}
func (*JobStarted) event()        {}
func (*JobEnded) event()          {}
func (*NodeDown) event()          {}
func (*NodeUp) event()            {}
func (*TimerFired) event()        {}
func (*WorkloadExhausted) event() {}
func (*UnknownEvent) event()      {}

// DecisionReplyBody is what to do now, carried out in order.
type DecisionReplyBody struct {
	Decisions    []Decision `wire:"decisions"`
	StateVersion int64      `wire:"state_version"`
	ComputeUS    *int64     `wire:"compute_us,optional"`
}

// Decision is one of the kinds of decision below.
type Decision interface{ decision() }

// Start puts a pending job on its nodes now.
type Start struct {
	ID         int64    `wire:"id"`
	Kind       string   `wire:"kind"`
	Job        int64    `wire:"job"`
	Allocation [][]Span `wire:"allocation,optional"`
}

// Reject removes a pending job for good.
type Reject struct {
	ID     int64   `wire:"id"`
	Kind   string  `wire:"kind"`
	Job    int64   `wire:"job"`
	Reason *string `wire:"reason,optional"`
}

// Kill ends a running job at this instant.
type Kill struct {
	ID   int64  `wire:"id"`
	Kind string `wire:"kind"`
	Job  int64  `wire:"job"`
}

// Requeue ends a running job at this instant and puts it back in its place in the queue.
type Requeue struct {
	ID   int64  `wire:"id"`
	Kind string `wire:"kind"`
	Job  int64  `wire:"job"`
}

// Hold lets a pending job not be started until it is released.
type Hold struct {
	ID     int64   `wire:"id"`
	Kind   string  `wire:"kind"`
	Job    int64   `wire:"job"`
	Reason *string `wire:"reason,optional"`
}

// Release lets a held job be started again.
type Release struct {
	ID   int64  `wire:"id"`
	Kind string `wire:"kind"`
	Job  int64  `wire:"job"`
}

// Wake asks to be asked at an instant after this one.
type Wake struct {
	ID    int64  `wire:"id"`
	Kind  string `wire:"kind"`
	Timer int64  `wire:"timer"`
	AtUS  int64  `wire:"at_us"`
}

// WakeCancel gives up a timer that waits.
type WakeCancel struct {
	ID    int64  `wire:"id"`
	Kind  string `wire:"kind"`
	Timer int64  `wire:"timer"`
}

// Annotate notes what is expected of a pending job.
type Annotate struct {
	ID              int64   `wire:"id"`
	Kind            string  `wire:"kind"`
	Job             int64   `wire:"job"`
	ExpectedStartUS *int64  `wire:"expected_start_us,optional"`
	Reason          *string `wire:"reason,optional"`
}

// Submit brings in a job that the workload does not hold.
type Submit struct {
	ID   int64  `wire:"id"`
	Kind string `wire:"kind"`
	Job  NewJob `wire:"job"`
	AtUS *int64 `wire:"at_us,optional"`
}

// NewJob is a job that the dispatcher brings in.
type NewJob struct {
	Name       *string        `wire:"name,optional"`
	RuntimeUS  int64          `wire:"runtime_us"`
	WalltimeUS *int64         `wire:"walltime_us,optional"`
	Request    []ChunkGroup   `wire:"request"`
	User       *string        `wire:"user,optional"`
	Group      *string        `wire:"group,optional"`
	Queue      *string        `wire:"queue,optional"`
	Partition  *string        `wire:"partition,optional"`
	Attributes map[string]any `wire:"attributes,optional"`
}

// Stop ends the whole run here.
type Stop struct {
	ID     int64   `wire:"id"`
	Kind   string  `wire:"kind"`
	Reason *string `wire:"reason,optional"`
}

func (*Start) decision()      {}
func (*Reject) decision()     {}
func (*Kill) decision()       {}
func (*Requeue) decision()    {}
func (*Hold) decision()       {}
func (*Release) decision()    {}
func (*Wake) decision()       {}
func (*WakeCancel) decision() {}
func (*Annotate) decision()   {}
func (*Submit) decision()     {}
func (*Stop) decision()       {}

// SessionEndBody says why the run is over.
type SessionEndBody struct {
	Reason   string    `wire:"reason"`
	NowUS    int64     `wire:"now_us"`
	Outcomes []Outcome `wire:"outcomes"`
	Stats    Stats     `wire:"stats"`
}

// Complete tells whether the run came to an end that was meant (R-LIFE-14).
func (e *SessionEndBody) Complete() bool { return e.Reason == "completed" || e.Reason == "stopped" }

// Stats count jobs by what became of them.
type Stats struct {
	Submitted int64 `wire:"submitted"`
	Completed int64 `wire:"completed"`
	Failed    int64 `wire:"failed"`
	TimedOut  int64 `wire:"timed_out"`
	Killed    int64 `wire:"killed"`
	Rejected  int64 `wire:"rejected"`
	Requeues  int64 `wire:"requeues"`
}

// ErrorBody is what was wrong with a message.
type ErrorBody struct {
	Code      string   `wire:"code"`
	Message   string   `wire:"message"`
	Fatal     bool     `wire:"fatal"`
	Path      *string  `wire:"path,optional"`
	Supported []string `wire:"supported,optional"`
}

// ProgressBody asks for more time.
type ProgressBody struct {
	Note *string `wire:"note,optional"`
}

// ProgressAckBody: the clock of the deadline was set back.
type ProgressAckBody struct {
	DeadlineMS int64 `wire:"deadline_ms"`
}

// ByeBody: the client leaves.
type ByeBody struct {
	Reason *string `wire:"reason,optional"`
}

// Empty is the body of ready, state.request, ping and pong.
type Empty struct{}

// question is a message to the server; session, epoch and re are absent in hello.
type question struct {
	V       int64   `wire:"v"`
	Type    string  `wire:"type"`
	Session *string `wire:"session,optional"`
	Epoch   *int64  `wire:"epoch,optional"`
	Re      *int64  `wire:"re,optional"`
	Body    any     `wire:"body"`
}

// answer is a message from the server; session, epoch and seq are absent in an error without a
// session.
type answer struct {
	V       int64   `wire:"v"`
	Type    string  `wire:"type"`
	Session *string `wire:"session,optional"`
	Epoch   *int64  `wire:"epoch,optional"`
	Seq     *int64  `wire:"seq,optional"`
	Body    any     `wire:"body"`
}
