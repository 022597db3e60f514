package parley

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// Watcher is told at once of every job that joins or leaves the queue or the nodes.
type Watcher interface {
	// Joined: a job is pending from now on.
	Joined(job *Job)
	// Left: a job is pending no more, and will not start.
	Left(job *Job)
	// Started: a job that was pending runs.
	Started(running *RunningJob)
	// Ended: a job runs no more.
	Ended(running *RunningJob)
	// Reloaded: everything known was replaced; begin anew.
	Reloaded()
}

// View is the state of the simulation as a dispatcher knows it, and the hands with which it
// decides. A decision takes effect here at once, so that the next one sees it; if the server
// refuses it, it is undone before the next request is shown.
type View struct {
	// NowUS is the present instant, microseconds since time 0.
	NowUS   int64
	Queue   *Queue
	Held    map[int64]*Job
	Running map[int64]*RunningJob
	Cluster *Cluster
	// Timers holds the instants of the timers that wait, by number.
	Timers map[int64]int64
	// Exhausted: the workload holds no further job.
	Exhausted bool
	// Fired holds the timers that fired since the last request, Ended the jobs that ended since,
	// be it to be requeued; Rejected what the server refused of the last decisions.
	Fired    []int64
	Ended    []int64
	Rejected []Outcome
	// Welcome is what the server said of the session.
	Welcome *WelcomeBody

	watchers  []Watcher
	shapes    map[string]*Shape
	decisions []Decision
	sent      []sent
	timer     int64
	aside     func(kind string, body any) (value, error)
	left      bool
	reason    string
}

// sent is a decision on its way, with what it takes to undo it and to do it again.
type sent struct {
	// id is what its outcome will repeat.
	id       int64
	decision Decision
	job      *Job
	spans    []Span
	timer    int64
	atUS     int64
}

func newView(welcome *WelcomeBody) *View {
	view := &View{Welcome: welcome, shapes: map[string]*Shape{}}
	view.empty()
	return view
}

func (v *View) empty() {
	v.Queue = &Queue{}
	v.Held, v.Running = map[int64]*Job{}, map[int64]*RunningJob{}
	v.Timers = map[int64]int64{}
	v.Cluster = NewCluster(v.Welcome.Platform)
}

// Watch tells somebody of every job that joins or leaves from now on, until the state is replaced.
func (v *View) Watch(watcher Watcher) { v.watchers = append(v.watchers, watcher) }

// Start starts a pending job now on the lowest nodes that hold it, and tells whether there are
// such; if not, nothing has changed.
func (v *View) Start(job *Job) bool {
	spans := v.Cluster.FirstFit(job.Shape, job.Chunks)
	if spans == nil {
		return false
	}
	return v.StartOn(job, spans) == nil
}

// StartOn starts a pending job now on the nodes of the spans, which must have room for it.
func (v *View) StartOn(job *Job, spans []Span) error {
	if err := v.requirePending(job); err != nil {
		return err
	}
	spans = merged(spans)
	v.run(job, spans, v.NowUS)
	v.decide(sent{
		decision: &Start{ID: v.id(), Kind: "start", Job: job.Number, Allocation: [][]Span{spans}},
		job:      job, spans: spans,
	})
	return nil
}

// Reject removes a pending job for good.
func (v *View) Reject(job *Job, reason string) error {
	if err := v.requirePending(job); err != nil {
		return err
	}
	v.takeFromQueue(job)
	v.decide(sent{
		decision: &Reject{ID: v.id(), Kind: "reject", Job: job.Number, Reason: said(reason)},
		job:      job,
	})
	return nil
}

// Kill ends a running job at this instant; its nodes are free when its end is told.
func (v *View) Kill(job *Job) {
	v.decide(sent{decision: &Kill{ID: v.id(), Kind: "kill", Job: job.Number}, job: job})
}

// Requeue ends a running job at this instant; it is pending again when that is told.
func (v *View) Requeue(job *Job) {
	v.decide(sent{decision: &Requeue{ID: v.id(), Kind: "requeue", Job: job.Number}, job: job})
}

// Hold takes a pending job out of the queue until it is released.
func (v *View) Hold(job *Job, reason string) error {
	if err := v.requirePending(job); err != nil {
		return err
	}
	v.takeFromQueue(job)
	v.Held[job.Number] = job
	v.decide(sent{
		decision: &Hold{ID: v.id(), Kind: "hold", Job: job.Number, Reason: said(reason)},
		job:      job,
	})
	return nil
}

// Release puts a held job back in its place in the queue.
func (v *View) Release(job *Job) error {
	if v.Held[job.Number] != job {
		return &DecisionError{Reason: fmt.Sprintf("job %d (%s) is not held", job.Number, job.Name)}
	}
	delete(v.Held, job.Number)
	v.join(job)
	v.decide(sent{decision: &Release{ID: v.id(), Kind: "release", Job: job.Number}, job: job})
	return nil
}

// CallAt asks to be asked at an instant after now, and returns the timer's number.
func (v *View) CallAt(atUS int64) int64 {
	v.timer++
	v.Timers[v.timer] = atUS
	v.decide(sent{
		decision: &Wake{ID: v.id(), Kind: "wake", Timer: v.timer, AtUS: atUS},
		timer:    v.timer, atUS: atUS,
	})
	return v.timer
}

// Cancel gives up a timer that waits.
func (v *View) Cancel(timer int64) error {
	atUS, waits := v.Timers[timer]
	if !waits {
		return &DecisionError{Reason: fmt.Sprintf("no timer %d waits", timer)}
	}
	delete(v.Timers, timer)
	v.decide(sent{
		decision: &WakeCancel{ID: v.id(), Kind: "wake.cancel", Timer: timer},
		timer:    timer, atUS: atUS,
	})
	return nil
}

// Annotate notes when a pending job is expected to start, microseconds since time 0.
func (v *View) Annotate(job *Job, expectedStartUS int64) {
	v.decide(sent{decision: &Annotate{
		ID: v.id(), Kind: "annotate", Job: job.Number, ExpectedStartUS: &expectedStartUS,
	}})
}

// Submit brings in a job, now or, if atUS is not nil, then. The capability must be granted.
func (v *View) Submit(job NewJob, atUS *int64) {
	v.decide(sent{decision: &Submit{ID: v.id(), Kind: "submit", Job: job, AtUS: atUS}})
}

// Stop ends the whole run here.
func (v *View) Stop(reason string) {
	v.decide(sent{decision: &Stop{ID: v.id(), Kind: "stop", Reason: said(reason)}})
}

// Leave says bye in the place of a reply: the run ends unfinished.
func (v *View) Leave(reason string) { v.left, v.reason = true, reason }

// Ping asks whether the server is there.
func (v *View) Ping() error {
	_, err := v.aside("ping", Empty{})
	return err
}

// Progress asks for more time, before half of the deadline has passed, and returns how much there
// is from now on, milliseconds.
func (v *View) Progress(note string) (int64, error) {
	message, err := v.aside("progress", ProgressBody{Note: said(note)})
	if err != nil {
		return 0, err
	}
	var body ProgressAckBody
	err = bind(message, &body, "body")
	return body.DeadlineMS, err
}

func said(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (v *View) id() int64 { return int64(len(v.decisions)) }

func (v *View) decide(sent sent) {
	sent.id = v.id()
	v.decisions = append(v.decisions, sent.decision)
	v.sent = append(v.sent, sent)
}

func (v *View) requirePending(job *Job) error {
	if !v.Queue.holds(job) {
		return &DecisionError{Reason: fmt.Sprintf("job %d (%s) is not pending", job.Number, job.Name)}
	}
	return nil
}

// ------------------------------------------------------------------ following the server

// update takes in a request: outcomes of the last decisions, then events (R-STATE-2).
func (v *View) update(request *DecisionRequestBody) (err error) {
	defer func() {
		// Of all that a server may make up only the likely is looked for.
		if fault := recover(); fault != nil {
			err = mirrorError("what the server tells does not go together: %v", fault)
		}
	}()
	v.NowUS = request.NowUS
	v.Fired, v.Ended, v.Rejected = nil, nil, nil
	switch {
	case request.State != nil:
		for _, outcome := range request.Outcomes {
			if outcome.Status != "applied" {
				v.Rejected = append(v.Rejected, outcome)
			}
		}
		if err = v.load(request.State); err == nil {
			v.note(request.Events)
		}
	case slices.ContainsFunc(request.Outcomes, func(o Outcome) bool { return o.AtUS != nil }):
		err = v.catchUp(request.Outcomes, request.Events)
	default:
		err = v.follow(request.Outcomes, request.Events)
	}
	v.sent = v.sent[:0]
	return err
}

// follow takes in outcomes of decisions that took no time, then events.
func (v *View) follow(outcomes []Outcome, events []Event) error {
	// Backwards: a decision about a job may stand on one before it.
	for i := len(outcomes) - 1; i >= 0; i-- {
		if outcomes[i].Status == "applied" {
			continue
		}
		sent, err := v.sentAs(outcomes[i])
		if err != nil {
			return err
		}
		v.undo(sent, codeOf(outcomes[i]))
		v.Rejected = append(v.Rejected, outcomes[i])
	}
	slices.Reverse(v.Rejected)
	for _, event := range events {
		if err := v.take(event); err != nil {
			return err
		}
	}
	return nil
}

func codeOf(outcome Outcome) string {
	if outcome.Code == nil {
		return ""
	}
	return *outcome.Code
}

// catchUp takes in what happened while decisions were on their way, and then they. Until then
// they hold nothing: a node may go down and come back meanwhile, and the start on it take effect
// none the less. They do so behind the events of their instant, save for the ends that they bring
// themselves.
func (v *View) catchUp(outcomes []Outcome, events []Event) error {
	for i := len(v.sent) - 1; i >= 0; i-- {
		v.undo(v.sent[i], "")
	}
	effect := int64(0)
	for _, outcome := range outcomes {
		if outcome.AtUS != nil {
			effect = max(effect, *outcome.AtUS)
		}
	}
	own := map[int64]bool{}
	for _, sent := range v.sent {
		if start, ok := sent.decision.(*Start); ok {
			own[start.Job] = true
		}
	}
	settled := false
	for _, event := range events {
		ended, isEnd := event.(*JobEnded)
		if !settled && (instantOf(event) > effect || isEnd && own[ended.Job]) {
			settled = true
			if err := v.settle(outcomes); err != nil {
				return err
			}
		}
		if err := v.take(event); err != nil {
			return err
		}
	}
	if !settled {
		return v.settle(outcomes)
	}
	return nil
}

func (v *View) settle(outcomes []Outcome) error {
	for _, outcome := range outcomes {
		if outcome.Status != "applied" {
			v.Rejected = append(v.Rejected, outcome)
			continue
		}
		sent, err := v.sentAs(outcome)
		if err != nil {
			return err
		}
		atUS := v.NowUS
		if outcome.AtUS != nil {
			atUS = *outcome.AtUS
		}
		v.redo(sent, atUS)
	}
	return nil
}

func (v *View) sentAs(outcome Outcome) (sent, error) {
	at, there := slices.BinarySearchFunc(v.sent, outcome.ID, func(s sent, id int64) int {
		return cmp.Compare(s.id, id)
	})
	if there {
		return v.sent[at], nil
	}
	return sent{}, mirrorError("the server tells of decision %d, which was not sent", outcome.ID)
}

func mirrorError(format string, arguments ...any) error {
	return &MirrorError{Reason: fmt.Sprintf(format, arguments...)}
}

// redo lets a decision that was undone take effect at an instant.
func (v *View) redo(sent sent, atUS int64) {
	switch sent.decision.(type) {
	case *Start:
		v.run(sent.job, sent.spans, atUS)
	case *Reject:
		v.takeFromQueue(sent.job)
	case *Hold:
		v.takeFromQueue(sent.job)
		v.Held[sent.job.Number] = sent.job
	case *Release:
		delete(v.Held, sent.job.Number)
		v.join(sent.job)
	case *Wake:
		v.Timers[sent.timer] = sent.atUS
	case *WakeCancel:
		delete(v.Timers, sent.timer)
	}
}

// undo takes a decision back that was refused with a code, or has not taken effect yet.
func (v *View) undo(sent sent, code string) {
	gone := code == "job.unknown" || code == "job.not_pending"
	switch sent.decision.(type) {
	case *Start:
		v.end(v.Running[sent.job.Number])
	case *Hold:
		delete(v.Held, sent.job.Number)
	case *Reject:
	case *Release:
		v.takeFromQueue(sent.job)
		if !gone {
			v.Held[sent.job.Number] = sent.job
		}
		return
	case *Wake:
		delete(v.Timers, sent.timer)
		return
	case *WakeCancel:
		if code != "timer.unknown" {
			v.Timers[sent.timer] = sent.atUS
		}
		return
	default:
		return
	}
	if !gone {
		v.join(sent.job)
	}
}

// note takes in of events what the full state beside them does not say.
func (v *View) note(events []Event) {
	for _, event := range events {
		switch event := event.(type) {
		case *JobEnded:
			v.Ended = append(v.Ended, event.Job)
		case *TimerFired:
			v.Fired = append(v.Fired, event.Timer)
		}
	}
}

// take lets an event happen.
func (v *View) take(event Event) error {
	switch event := event.(type) {
	case *JobSubmitted:
		job, err := v.job(&event.Job)
		if err != nil {
			return err
		}
		v.join(job)
	case *JobEnded:
		running := v.Running[event.Job]
		if running == nil {
			return mirrorError("job %d ended, which does not run here", event.Job)
		}
		v.Ended = append(v.Ended, event.Job)
		v.end(running)
		if event.Status == "requeued" {
			v.join(running.Job)
		}
	case *JobStarted:
		return v.startedElsewhere(event)
	case *TimerFired:
		v.Fired = append(v.Fired, event.Timer)
		delete(v.Timers, event.Timer)
	case *NodeDown:
		return v.service(event.Nodes, v.Cluster.goDown)
	case *NodeUp:
		return v.service(event.Nodes, v.Cluster.comeUp)
	case *WorkloadExhausted:
		v.Exhausted = true
	}
	return nil
}

func (v *View) service(nodes []NodeRange, change func(first, last int64)) error {
	for _, nodes := range nodes {
		if nodes.First > nodes.Last || nodes.Last >= v.Cluster.NodeCount {
			return mirrorError("there are no nodes %d to %d", nodes.First, nodes.Last)
		}
		change(nodes.First, nodes.Last)
	}
	return nil
}

func (v *View) startedElsewhere(event *JobStarted) error {
	for job := range v.Queue.All() {
		if job.Number == event.Job {
			spans, err := v.spansOf(event.Allocation)
			if err == nil {
				v.run(job, spans, event.AtUS)
			}
			return err
		}
	}
	return mirrorError("the server started job %d, which is not pending here", event.Job)
}

func instantOf(event Event) int64 {
	switch event := event.(type) {
	case *SessionStart:
		return event.AtUS
	case *JobSubmitted:
		return event.AtUS
	case *JobStarted:
		return event.AtUS
	case *JobEnded:
		return event.AtUS
	case *NodeDown:
		return event.AtUS
	case *NodeUp:
		return event.AtUS
	case *TimerFired:
		return event.AtUS
	case *WorkloadExhausted:
		return event.AtUS
	case *UnknownEvent:
		return event.AtUS
	default:
		return 0
	}
}

// run moves a job from the queue to its nodes.
func (v *View) run(job *Job, spans []Span, atUS int64) {
	v.Cluster.Take(job.Shape, spans)
	v.Queue.remove(job)
	running := &RunningJob{Job: job, StartUS: atUS, Spans: spans}
	v.Running[job.Number] = running
	for _, watcher := range v.watchers {
		watcher.Started(running)
	}
}

// end takes a job off its nodes.
func (v *View) end(running *RunningJob) {
	delete(v.Running, running.Job.Number)
	v.Cluster.Release(running.Job.Shape, running.Spans)
	for _, watcher := range v.watchers {
		watcher.Ended(running)
	}
}

func (v *View) join(job *Job) {
	v.Queue.add(job)
	for _, watcher := range v.watchers {
		watcher.Joined(job)
	}
}

func (v *View) takeFromQueue(job *Job) {
	v.Queue.remove(job)
	for _, watcher := range v.watchers {
		watcher.Left(job)
	}
}

// load begins anew from a full state (R-RES-10).
func (v *View) load(state *State) error {
	v.empty()
	for i := range state.Pending {
		job, err := v.job(&state.Pending[i])
		if err != nil {
			return err
		}
		if slices.Contains(state.Held, job.Number) {
			v.Held[job.Number] = job
		} else {
			v.Queue.add(job)
		}
	}
	for i := range state.Running {
		entry := &state.Running[i]
		job, err := v.job(&entry.Job)
		if err != nil {
			return err
		}
		spans, err := v.spansOf(entry.Allocation)
		if err != nil {
			return err
		}
		v.Cluster.Take(job.Shape, spans)
		v.Running[job.Number] = &RunningJob{Job: job, StartUS: entry.StartUS, Spans: spans}
	}
	for _, run := range state.Nodes {
		if run.Service == "down" {
			if err := v.service([]NodeRange{{First: run.First, Last: run.Last}}, v.Cluster.goDown); err != nil {
				return err
			}
		}
	}
	for _, timer := range state.Timers {
		v.Timers[timer.Timer] = timer.AtUS
		v.timer = max(v.timer, timer.Timer)
	}
	v.Exhausted = state.Exhausted
	watchers := v.watchers
	v.watchers = nil
	for _, watcher := range watchers {
		watcher.Reloaded()
	}
	return nil
}

func (v *View) spansOf(allocation [][]Span) ([]Span, error) {
	if len(allocation) != 1 {
		return nil, mirrorError("an allocation of %d groups; this client knows one", len(allocation))
	}
	for _, span := range allocation[0] {
		if span.First > span.Last || span.Last >= v.Cluster.NodeCount {
			return nil, mirrorError("there are no nodes %d to %d", span.First, span.Last)
		}
	}
	return merged(allocation[0]), nil
}

func (v *View) job(wire *JobDescription) (*Job, error) {
	if len(wire.Request) != 1 {
		return nil, mirrorError("job %d asks for %d groups of chunks; this client knows one",
			wire.Job, len(wire.Request))
	}
	group := wire.Request[0]
	return &Job{
		Number: wire.Job, Name: wire.Name, SubmitUS: wire.SubmitUS, WalltimeUS: wire.WalltimeUS,
		Chunks: group.Chunks, Shape: v.shape(group),
		User: orEmpty(wire.User), Group: orEmpty(wire.Group),
		Queue: orEmpty(wire.Queue), Partition: orEmpty(wire.Partition),
		Attributes: wire.Attributes,
	}, nil
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// shape returns the one object of a shape, so that comparing shapes is comparing pointers.
func (v *View) shape(group ChunkGroup) *Shape {
	names := make([]string, 0, len(group.PerChunk))
	for resource, amount := range group.PerChunk {
		if amount > 0 {
			names = append(names, resource)
		}
	}
	sort.Strings(names)
	key := fmt.Appendf(nil, "%t", group.Exclusive)
	for _, resource := range names {
		key = fmt.Appendf(key, " %q %d", resource, group.PerChunk[resource])
	}
	shape, known := v.shapes[string(key)]
	if !known {
		shape = shapeOf(group)
		v.shapes[string(key)] = shape
	}
	return shape
}

// NewView returns the view of a state at an instant, as a dispatcher sees it that is asked there:
// for trying a rule without a server.
func NewView(welcome *WelcomeBody, nowUS int64, state *State) (*View, error) {
	view := newView(welcome)
	view.NowUS = nowUS
	return view, view.load(state)
}

// TakeDecisions hands over what was decided since the last call.
func (v *View) TakeDecisions() []Decision {
	decisions := v.decisions
	v.decisions = nil
	return decisions
}
