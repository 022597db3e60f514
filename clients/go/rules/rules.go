// Package rules holds EASY as a dispatcher, and what may be put around any other.
package rules

import (
	"container/heap"
	"maps"
	"slices"

	"parley"
)

// Periodic lets a rule decide at multiples of an interval since time 0 only.
type Periodic struct {
	Rule parley.Dispatcher
	// IntervalUS is the interval, microseconds.
	IntervalUS int64
	view       *parley.View
	// tick is the last multiple that a timer was set for.
	tick int64
}

// Decide lets the rule decide if it is time to, and sees to it that the next time comes.
func (p *Periodic) Decide(view *parley.View) error {
	if p.view != view {
		p.view, p.tick = view, -1
		view.Watch(p)
	}
	// Where decisions take time, a timer may fire while they do; one is told of it afterwards.
	woken := p.tick >= 0 && p.tick <= view.NowUS
	if woken {
		p.tick = -1
	}
	if !woken && view.NowUS%p.IntervalUS != 0 {
		p.comeBack(view)
		return nil
	}
	waiting := view.Queue.Len()
	if err := p.Rule.Decide(view); err != nil {
		return err
	}
	if view.Queue.Len() < waiting {
		p.comeBack(view)
	}
	return nil
}

func (p *Periodic) comeBack(view *parley.View) {
	if view.Queue.Len() == 0 || p.tick >= 0 {
		return
	}
	// The next after this takes effect: before, it would be refused as past.
	effective := view.NowUS
	if latency := view.Welcome.Policy.LatencyUS; latency != nil {
		effective += *latency
	}
	p.tick = (effective/p.IntervalUS + 1) * p.IntervalUS
	view.CallAt(p.tick)
}

// Joined is of no interest here.
func (p *Periodic) Joined(*parley.Job) {}

// Left is of no interest here.
func (p *Periodic) Left(*parley.Job) {}

// Started is of no interest here.
func (p *Periodic) Started(*parley.RunningJob) {}

// Ended is of no interest here.
func (p *Periodic) Ended(*parley.RunningJob) {}

// Reloaded makes the rhythm begin anew.
func (p *Periodic) Reloaded() { p.view = nil }

// KillOverdue kills running jobs whose walltime is over, in the order of their numbers, before a
// rule decides.
type KillOverdue struct {
	Rule parley.Dispatcher
	view *parley.View
	// ends of running jobs to come, the first on top; those of jobs that are gone drop out late.
	ends ends
	// overdue jobs are killed at each request until their end is told.
	overdue map[int64]*parley.RunningJob
}

// Decide kills what is overdue, then lets the rule decide.
func (k *KillOverdue) Decide(view *parley.View) error {
	if k.view != view {
		k.view, k.ends, k.overdue = view, nil, map[int64]*parley.RunningJob{}
		for _, running := range view.Running {
			k.Started(running)
		}
		view.Watch(k)
	}
	for len(k.ends) > 0 && k.ends[0].at <= view.NowUS {
		running := heap.Pop(&k.ends).(end).running
		if view.Running[running.Job.Number] == running {
			k.overdue[running.Job.Number] = running
		}
	}
	if len(k.overdue) > 0 {
		for _, number := range slices.Sorted(maps.Keys(k.overdue)) {
			view.Kill(k.overdue[number].Job)
		}
	}
	return k.Rule.Decide(view)
}

// Joined is of no interest here.
func (k *KillOverdue) Joined(*parley.Job) {}

// Left is of no interest here.
func (k *KillOverdue) Left(*parley.Job) {}

// Started takes note of when a job's walltime is over.
func (k *KillOverdue) Started(running *parley.RunningJob) {
	if at, limited := running.ExpectedEndUS(); limited {
		heap.Push(&k.ends, end{at, running})
	}
}

// Ended forgets a job.
func (k *KillOverdue) Ended(running *parley.RunningJob) {
	if k.overdue[running.Job.Number] == running {
		delete(k.overdue, running.Job.Number)
	}
}

// Reloaded makes it begin anew.
func (k *KillOverdue) Reloaded() { k.view = nil }

type end struct {
	at      int64
	running *parley.RunningJob
}

type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push is for container/heap.
func (e *ends) Push(one any) { *e = append(*e, one.(end)) }

// Pop is for container/heap.
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
