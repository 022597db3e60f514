package parley

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

func mixed() Platform {
	return Platform{NodeCount: 70, Groups: []NodeGroup{
		{Name: "thin", First: 0, Last: 39, Capacity: map[string]int64{"core": 4, "memory": 16}},
		{Name: "fat", First: 40, Last: 59, Capacity: map[string]int64{"core": 8, "memory": 64, "gpu": 2}},
		{Name: "odd", First: 60, Last: 69, Capacity: map[string]int64{"core": 1}},
	}}
}

func shapes() []*Shape {
	return []*Shape{
		shapeOf(ChunkGroup{PerChunk: map[string]int64{"core": 1}}),
		shapeOf(ChunkGroup{PerChunk: map[string]int64{"core": 2, "memory": 5}}),
		shapeOf(ChunkGroup{PerChunk: map[string]int64{"core": 1, "gpu": 1}}),
		shapeOf(ChunkGroup{PerChunk: map[string]int64{"core": 3, "gpu": 0}, Exclusive: true}),
		shapeOf(ChunkGroup{Exclusive: true}),
		shapeOf(ChunkGroup{PerChunk: map[string]int64{"licence": 1}}),
	}
}

// naive is the text of the specification, node by node: what it says of room on one node.
func naive(c *Cluster, shape *Shape, chunks int64) []Span {
	var spans []Span
	for node := int64(0); node < c.NodeCount && chunks > 0; node++ {
		fits := chunks
		if shape.Exclusive {
			fits = min(fits, 1)
			if c.chunks[node] > 0 {
				fits = 0
			}
		}
		if c.sealed[node] {
			fits = 0
		}
		for _, asked := range shape.PerChunk {
			fits = min(fits, c.FreeOf(asked.Resource, node)/asked.Amount)
		}
		if fits > 0 {
			spans = appendSpan(spans, node, fits)
			chunks -= fits
		}
	}
	if chunks > 0 {
		return nil
	}
	return spans
}

func TestFirstFitIsThatOfWalkingTheNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		cluster, known := NewCluster(mixed()), shapes()
		type put struct {
			shape *Shape
			spans []Span
		}
		var there []put
		for range 200 {
			shape, chunks := known[random.IntN(len(known))], 1+random.Int64N(30)
			found, want := cluster.FirstFit(shape, chunks), naive(cluster, shape, chunks)
			if !reflect.DeepEqual(found, want) {
				t.Fatalf("%d chunks of %v: %v, not %v", chunks, *shape, found, want)
			}
			if found != nil {
				cluster.Take(shape, found)
				there = append(there, put{shape, found})
			}
			if len(there) > 0 && random.IntN(2) == 0 {
				at := random.IntN(len(there))
				cluster.Release(there[at].shape, there[at].spans)
				there = append(there[:at], there[at+1:]...)
			}
		}
		for _, one := range there {
			cluster.Release(one.shape, one.spans)
		}
		if !reflect.DeepEqual(cluster.totals(), NewCluster(mixed()).totals()) {
			t.Fatal("an empty machine is not as it was")
		}
	}
}

func TestManyShapesAreNoMoreThanAreKept(t *testing.T) {
	cluster := NewCluster(mixed())
	for amount := range int64(3 * mostShapes) {
		shape := shapeOf(ChunkGroup{PerChunk: map[string]int64{"core": 1, "memory": amount}})
		if got := cluster.FirstFit(shape, 3); !reflect.DeepEqual(got, naive(cluster, shape, 3)) {
			t.Fatalf("%d of memory: %v", amount, got)
		}
	}
	if len(cluster.rooms) > mostShapes || len(cluster.shapes) > mostShapes {
		t.Errorf("%d indexes are kept", len(cluster.rooms))
	}
}

// The digest that protocol/spec/decisions.md gives for the lines that it shows.
func TestTheDigestIsThatOfTheText(t *testing.T) {
	view := newView(&WelcomeBody{Platform: Platform{NodeCount: 14, Groups: []NodeGroup{
		{First: 0, Last: 3, Capacity: map[string]int64{"core": 2}},
		{First: 4, Last: 13, Capacity: map[string]int64{"core": 3, "gpu": 1}},
	}}})
	core := view.shape(ChunkGroup{Chunks: 1, PerChunk: map[string]int64{"core": 2}})
	view.NowUS = 7200000000
	view.Held[12] = &Job{Number: 12}
	seven := &Job{Number: 7, Shape: core}
	spans := []Span{{First: 0, Last: 3, Chunks: 1}, {First: 9, Last: 9, Chunks: 1}}
	view.Cluster.Take(core, spans)
	spans[1].Chunks = 2
	view.Running[7] = &RunningJob{Job: seven, StartUS: 3600000000, Spans: spans}
	view.Timers[1] = 9000000000
	view.Cluster.goDown(4, 4)
	view.Cluster.goDown(6, 7)
	taken := &Shape{PerChunk: []Amount{{"gpu", 1}}}
	for node := int64(5); node < 14; node++ {
		if !view.Cluster.Down(node) {
			view.Cluster.Take(taken, []Span{{First: node, Last: node, Chunks: 1}})
		}
	}
	view.Cluster.Take(&Shape{PerChunk: []Amount{{"core", 5}}}, []Span{{First: 13, Last: 13, Chunks: 1}})
	free := view.Cluster.totals()
	if free["core"] != 14 || free["gpu"] != 0 {
		t.Fatalf("free is %v, not as in the text", free)
	}
	if got := view.Digest(); got != "bbc14bdb3ec267337fe67ae2e84d26201923bfff679b9ecf453707eec98fe700" {
		t.Error(got)
	}
}

// waiting is a view of jobs in the queue, each of one core for so long; negative is without limit.
func waiting(chunks ...int64) *View {
	view := newView(&WelcomeBody{Platform: Platform{NodeCount: 4, Groups: []NodeGroup{
		{First: 0, Last: 3, Capacity: map[string]int64{"core": 1}},
	}}})
	for number, count := range chunks {
		view.join(&Job{
			Number: int64(number), Chunks: count,
			Shape: view.shape(ChunkGroup{PerChunk: map[string]int64{"core": 1}}),
		})
	}
	return view
}

func refused(id int64, code string) Outcome { return Outcome{ID: id, Status: "rejected", Code: &code} }

func TestWhatIsRefusedIsUndone(t *testing.T) {
	view := waiting(1, 2, 1, 4)
	before := view.Digest()
	jobs := []*Job{}
	for job := range view.Queue.All() {
		jobs = append(jobs, job)
	}
	view.Start(jobs[0])
	timer := view.CallAt(5)
	_ = view.Hold(jobs[1], "")
	_ = view.Reject(jobs[2], "")
	_ = view.Release(jobs[1])
	_ = view.Cancel(timer)
	view.Start(jobs[1])
	outcomes := []Outcome{}
	for id := range view.decisions {
		outcomes = append(outcomes, refused(int64(id), "decision.late"))
	}
	if err := view.update(&DecisionRequestBody{Outcomes: outcomes}); err != nil {
		t.Fatal(err)
	}
	if view.Digest() != before || view.Queue.Head() != jobs[0] || len(view.Rejected) != 7 {
		t.Error("the mirror is not as it was")
	}
}

func TestAJobThatIsGoneDoesNotComeBack(t *testing.T) {
	view := waiting(1, 1)
	view.Start(view.Queue.Head())
	if err := view.update(&DecisionRequestBody{Outcomes: []Outcome{refused(0, "job.not_pending")}}); err != nil {
		t.Fatal(err)
	}
	if view.Queue.Len() != 1 || view.Queue.Head().Number != 1 || len(view.Running) != 0 {
		t.Error("the job is still here")
	}
}

func TestAStartThatTakesTimeHoldsNothingMeanwhile(t *testing.T) {
	view := waiting(1, 1)
	view.Start(view.Queue.Head())
	at := int64(9)
	err := view.update(&DecisionRequestBody{NowUS: 9, Outcomes: []Outcome{{Status: "applied", AtUS: &at}},
		Events: []Event{
			&NodeDown{AtUS: 3, Nodes: []NodeRange{{First: 0, Last: 0}}},
			&NodeUp{AtUS: 4, Nodes: []NodeRange{{First: 0, Last: 0}}},
		}})
	if err != nil || view.Running[0] == nil || view.Running[0].StartUS != 9 {
		t.Errorf("%v: %v", err, view.Running[0])
	}
	if free := view.Cluster.totals()["core"]; free != 3 {
		t.Errorf("%d cores are free", free)
	}
}

func TestWhatCannotBeIsToldInOneError(t *testing.T) {
	for name, events := range map[string][]Event{
		"ended":   {&JobEnded{Job: 7}},
		"started": {&JobStarted{Job: 7, Allocation: [][]Span{{}}}},
		"nodes":   {&NodeDown{Nodes: []NodeRange{{First: 2, Last: 4}}}},
		"groups":  {&JobSubmitted{Job: JobDescription{Request: []ChunkGroup{{}, {}}}}},
		"empty":   {&JobSubmitted{Job: JobDescription{}}},
	} {
		err := waiting(1).update(&DecisionRequestBody{Events: events})
		if _, ok := err.(*MirrorError); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, ok := waiting().update(&DecisionRequestBody{Outcomes: []Outcome{{ID: 3, Status: "rejected"}}}).(*MirrorError); !ok {
		t.Error("an outcome of nothing was taken in")
	}
	view := waiting(1)
	job := view.Queue.Head()
	view.Start(job)
	for _, err := range []error{view.StartOn(job, nil), view.Reject(job, ""), view.Hold(job, ""),
		view.Release(job), view.Cancel(4)} {
		if _, ok := err.(*DecisionError); !ok {
			t.Errorf("an impossible decision was taken: %v", err)
		}
	}
}

func TestTheQueueIsInOrderWhateverComesBack(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	queue, in, out := &Queue{}, map[int64]*Job{}, []*Job{}
	for number := range int64(3000) {
		job := &Job{Number: number, SubmitUS: number / 3}
		queue.add(job)
		in[number] = job
		if random.IntN(3) > 0 {
			for _, leaves := range in {
				queue.remove(leaves)
				delete(in, leaves.Number)
				out = append(out, leaves)
				break
			}
		}
		if len(out) > 0 && random.IntN(4) == 0 {
			at := random.IntN(len(out))
			queue.add(out[at])
			in[out[at].Number] = out[at]
			out = append(out[:at], out[at+1:]...)
		}
		if number%50 > 0 {
			continue
		}
		last, count := int64(-1), 0
		for job := range queue.All() {
			if job.Number <= last || in[job.Number] != job || !queue.holds(job) {
				t.Fatalf("job %d stands behind %d", job.Number, last)
			}
			last = job.Number
			count++
		}
		if count != len(in) || queue.Len() != count {
			t.Fatalf("%d jobs, not %d", count, len(in))
		}
	}
}

func TestAReplyKeepsToTheLimits(t *testing.T) {
	limits := Limits{MessageBytes: 4096, ArrayItems: 1000, Containers: 100, Decisions: 1000}
	for _, limit := range []struct {
		name string
		set  func(*Limits)
	}{
		{"decisions", func(l *Limits) { l.Decisions = 7 }},
		{"items", func(l *Limits) { l.ArrayItems = 7 }},
		{"containers", func(l *Limits) { l.Containers = 31 }},
		{"bytes", func(l *Limits) { l.MessageBytes = 2000 }},
	} {
		set := limits
		limit.set(&set)
		decisions := []Decision{}
		for id := range int64(60) {
			decisions = append(decisions, &Start{ID: id, Kind: "start", Job: 1 << 52,
				Allocation: [][]Span{{{First: 1 << 40, Last: 1 << 41, Chunks: 1 << 42}}}})
		}
		kept := withinLimits(decisions, &set)
		packed, err := pack(nil, &DecisionReplyBody{Decisions: decisions[:kept]})
		if err != nil || kept == 0 || kept > 15 || int64(len(packed)) > set.MessageBytes-300 {
			t.Errorf("%s: %d decisions of %d bytes: %v", limit.name, kept, len(packed), err)
		}
	}
}
