package rules

import (
	"math/rand/v2"
	"slices"
	"testing"

	"parley"
)

const minute = int64(60_000_000)

// job asks for chunks of cores for so many minutes; negative is without limit.
func job(number, chunks, length int64, perChunk map[string]int64, exclusive bool) parley.JobDescription {
	wire := parley.JobDescription{Job: number, Request: []parley.ChunkGroup{
		{Chunks: chunks, PerChunk: perChunk, Exclusive: exclusive},
	}}
	if length >= 0 {
		length *= minute
		wire.WalltimeUS = &length
	}
	return wire
}

func core() map[string]int64 { return map[string]int64{"core": 1} }

// running lets a job run on certain nodes since an instant, minutes.
func running(wire parley.JobDescription, since int64, spans ...parley.Span) parley.RunningEntry {
	return parley.RunningEntry{Job: wire, StartUS: since * minute, Allocation: [][]parley.Span{spans}}
}

func on(first, last, chunks int64) parley.Span {
	return parley.Span{First: first, Last: last, Chunks: chunks}
}

// started returns the jobs that a rule starts in a state, in order.
func started(t *testing.T, rule parley.Dispatcher, nodes int64, now int64, state parley.State) []int64 {
	t.Helper()
	platform := parley.Platform{NodeCount: nodes, Groups: []parley.NodeGroup{
		{Name: "nodes", First: 0, Last: nodes - 1, Capacity: map[string]int64{"core": 2, "gpu": 1}},
	}}
	view, err := parley.NewView(&parley.WelcomeBody{Platform: platform}, now*minute, &state)
	if err != nil {
		t.Fatal(err)
	}
	if err := rule.Decide(view); err != nil {
		t.Fatal(err)
	}
	var numbers []int64
	for _, decision := range view.TakeDecisions() {
		numbers = append(numbers, decision.(*parley.Start).Job)
	}
	return numbers
}

func TestEasyStartsWhatDoesNotDelayTheHead(t *testing.T) {
	// Two nodes of two cores: three cores are taken until minute 10.
	taken := running(job(0, 3, 10, core(), false), 0, on(0, 0, 2), on(1, 1, 1))
	head := job(1, 4, 5, core(), false)
	cases := map[string]struct {
		behind parley.JobDescription
		now    int64
		want   []int64
	}{
		"over before the shadow time":     {job(2, 1, 9, core(), false), 0, []int64{2}},
		"over at that very instant":       {job(2, 1, 10, core(), false), 0, []int64{2}},
		"over behind it":                  {job(2, 1, 11, core(), false), 0, nil},
		"without limit":                   {job(2, 1, -1, core(), false), 0, nil},
		"an overdue job ends soon":        {job(2, 1, 1, core(), false), 11, nil},
		"an estimate of zero is a second": {job(2, 1, 0, core(), false), 11, []int64{2}},
	}
	for name, one := range cases {
		state := parley.State{Running: []parley.RunningEntry{taken},
			Pending: []parley.JobDescription{head, one.behind}}
		if got := started(t, &Easy{}, 2, one.now, state); !slices.Equal(got, one.want) {
			t.Errorf("%s: %v, not %v", name, got, one.want)
		}
	}
}

func TestEasyLeavesExtraNodesToWhoeverIsLong(t *testing.T) {
	state := parley.State{
		Running: []parley.RunningEntry{running(job(0, 2, 10, core(), false), 0, on(0, 0, 2))},
		Pending: []parley.JobDescription{
			job(1, 3, 5, core(), false), job(2, 1, 99, core(), false), job(3, 1, 99, core(), false)},
	}
	if got := started(t, &Easy{}, 2, 0, state); !slices.Equal(got, []int64{2}) {
		t.Errorf("%v: one core is extra", got)
	}
}

func TestEasyLooksAtTheNodesWhereJobsDiffer(t *testing.T) {
	gpu := map[string]int64{"gpu": 1}
	state := parley.State{
		Running: []parley.RunningEntry{running(job(0, 1, 10, gpu, false), 0, on(0, 0, 1))},
		Pending: []parley.JobDescription{
			job(1, 2, 5, gpu, false),     // the head: the gpu of node 0 is taken
			job(2, 4, 99, core(), false), // beside it: cores are no gpus
			job(3, 1, 99, gpu, false),    // would delay it
			job(4, 1, 10, gpu, false),    // over in time
			job(5, 1, 1, core(), true),   // no node is empty
		},
	}
	if got := started(t, &Easy{}, 2, 0, state); !slices.Equal(got, []int64{2, 4}) {
		t.Errorf("%v", got)
	}
}

// Counting slots and searching the nodes are two ways to one schedule where all jobs ask for the
// same chunk.
func TestCountingStartsWhatSearchingStarts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	length := func() int64 { return random.Int64N(14) - 1 }
	for range 3000 {
		exclusive := random.IntN(2) == 0
		perNode := int64(2)
		if exclusive {
			perNode = 1
		}
		nodes := 1 + random.Int64N(8)
		free := nodes
		var state parley.State
		for number := int64(0); free > 0 && random.IntN(5) > 0; number++ {
			count := 1 + random.Int64N(free)
			free -= count
			wire := job(number, count*perNode, length(), core(), exclusive)
			state.Running = append(state.Running,
				running(wire, random.Int64N(10), on(free, free+count-1, perNode)))
		}
		for number := range 1 + random.Int64N(12) {
			state.Pending = append(state.Pending,
				job(100+number, 1+random.Int64N(nodes*perNode), length(), core(), exclusive))
		}
		now := 10 + random.Int64N(3)
		counted := started(t, &Easy{}, nodes, now, state)
		searched := started(t, searching{}, nodes, now, state)
		if !slices.Equal(counted, searched) {
			t.Fatalf("%v, not %v: %+v", counted, searched, state)
		}
	}
}

type searching struct{}

func (searching) Decide(view *parley.View) error {
	easy := &Easy{}
	easy.begin(view)
	return easy.searchNodes(view)
}

func TestPeriodicDecidesAtMultiplesOnlyAndSetsOneTimer(t *testing.T) {
	state := parley.State{Pending: []parley.JobDescription{job(0, 1, 1, core(), false), job(1, 9, 1, core(), false)}}
	for now, starts := range map[int64]int{30: 1, 31: 0} {
		view, err := parley.NewView(&parley.WelcomeBody{Platform: parley.Platform{NodeCount: 1,
			Groups: []parley.NodeGroup{{Capacity: core()}}}}, now*1_000_000, &state)
		if err != nil {
			t.Fatal(err)
		}
		rule := &Periodic{Rule: &Easy{}, IntervalUS: 30_000_000}
		for range 2 {
			if err := rule.Decide(view); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(view.Running); got != starts {
			t.Errorf("at %d s %d jobs were started", now, got)
		}
		if len(view.Timers) != 1 || view.Timers[1] != 60_000_000 {
			t.Errorf("at %d s timers wait: %v", now, view.Timers)
		}
	}
}

func TestWhatIsOverdueIsKilledInTheOrderOfNumbersUntilItEnds(t *testing.T) {
	state := parley.State{Running: []parley.RunningEntry{
		running(job(9, 1, 1, core(), false), 0, on(0, 0, 1)),
		running(job(4, 1, 3, core(), false), 0, on(0, 0, 1)),
		running(job(5, 1, 4, core(), false), 0, on(1, 1, 1)),
		running(job(6, 1, -1, core(), false), 0, on(1, 1, 1)),
	}}
	view, err := parley.NewView(&parley.WelcomeBody{Platform: parley.Platform{NodeCount: 2,
		Groups: []parley.NodeGroup{{Last: 1, Capacity: map[string]int64{"core": 2}}}}}, 3*minute, &state)
	if err != nil {
		t.Fatal(err)
	}
	rule := &KillOverdue{Rule: &Easy{}}
	for range 2 {
		if err := rule.Decide(view); err != nil {
			t.Fatal(err)
		}
		killed := []int64{}
		for _, decision := range view.TakeDecisions() {
			killed = append(killed, decision.(*parley.Kill).Job)
		}
		if !slices.Equal(killed, []int64{4, 9}) {
			t.Errorf("killed %v", killed)
		}
	}
}
