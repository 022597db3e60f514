package rules

import "parley"

// Easy starts jobs in the order of their submission; behind the first that does not fit, the
// head, others start that do not delay it.
//
// The head's shadow time is when enough is free if all running jobs take as long as estimated; all
// releases of one instant count together. A later job may start if it fits now and is over by
// then, at that very instant is in time, or if the head could start then beside it. As long as all
// jobs ask for the same chunk that is a matter of counting; else the machine as it will be then is
// searched for the head's place.
//
// Source: Lifka, The ANL/IBM SP scheduling system, JSSPP 1995.
type Easy struct {
	view     *parley.View
	releases releases
	// kinds counts the pending and running jobs by the kind of slot that they ask for: a shape, or
	// the groups of nodes that an exclusive one goes on.
	kinds map[any]int
	known map[*parley.Shape]any
}

// Decide starts what may start now.
func (e *Easy) Decide(view *parley.View) error {
	if e.view != view {
		e.begin(view)
	}
	head := view.Queue.Head()
	switch {
	case head == nil:
		return nil
	case len(e.kinds) <= 1:
		return e.countSlots(view, head.Shape)
	default:
		return e.searchNodes(view)
	}
}

func (e *Easy) begin(view *parley.View) {
	*e = Easy{view: view, kinds: map[any]int{}, known: map[*parley.Shape]any{}}
	for _, running := range view.Running {
		e.kinds[e.kind(running.Job)]++
		e.releases.add(running)
	}
	for job := range view.Queue.All() {
		e.Joined(job)
	}
	view.Watch(e)
}

func (e *Easy) kind(job *parley.Job) any {
	kind, known := e.known[job.Shape]
	if !known {
		kind = any(job.Shape)
		if job.Shape.Exclusive {
			kind = e.view.Cluster.KindsOfNodes(job.Shape)
		}
		e.known[job.Shape] = kind
	}
	return kind
}

func (e *Easy) forget(job *parley.Job) {
	kind := e.kind(job)
	if e.kinds[kind]--; e.kinds[kind] == 0 {
		delete(e.kinds, kind)
	}
}

// Joined counts a job.
func (e *Easy) Joined(job *parley.Job) { e.kinds[e.kind(job)]++ }

// Left forgets a job.
func (e *Easy) Left(job *parley.Job) { e.forget(job) }

// Started notes when a job is to end.
func (e *Easy) Started(running *parley.RunningJob) { e.releases.add(running) }

// Ended forgets a job.
func (e *Easy) Ended(running *parley.RunningJob) {
	e.forget(running.Job)
	e.releases.remove(running)
}

// Reloaded makes it begin anew.
func (e *Easy) Reloaded() { e.view = nil }

// countSlots is a pass where a job fits if as many slots are free as it asks for chunks.
func (e *Easy) countSlots(view *parley.View, slot *parley.Shape) error {
	free := view.Cluster.Available(slot)
	head := view.Queue.Head()
	for ; head != nil && head.Chunks <= free; head = view.Queue.Head() {
		free -= head.Chunks
		view.Start(head)
	}
	if head == nil || free == 0 {
		return nil
	}
	came := free
	shadow := e.releases.until(view.NowUS, func(ending releases) bool {
		for _, release := range ending {
			came += release.running.Job.Chunks
		}
		return came >= head.Chunks
	})
	// What the head leaves over at its time; nothing if that never comes.
	extra := max(0, came-head.Chunks)
	for job := range view.Queue.All() {
		late := plannedLength(job) > shadow-view.NowUS
		if job == head || job.Chunks > free || late && job.Chunks > extra {
			continue
		}
		view.Start(job)
		free -= job.Chunks
		if late {
			extra -= job.Chunks
		}
		if free == 0 {
			break
		}
	}
	return nil
}

// searchNodes is a pass where counting does not tell what fits: every place is looked at.
func (e *Easy) searchNodes(view *parley.View) error {
	head := view.Queue.Head()
	for ; head != nil && view.Start(head); head = view.Queue.Head() {
	}
	if head == nil {
		return nil
	}
	then := view.Cluster.Fork()
	shadow := e.releases.until(view.NowUS, func(ending releases) bool {
		for _, release := range ending {
			then.Release(release.running.Job.Shape, release.running.Spans)
		}
		return then.Fits(head.Shape, head.Chunks)
	})
	for job := range view.Queue.All() {
		if job == head {
			continue
		}
		spans := view.Cluster.FirstFit(job.Shape, job.Chunks)
		if spans == nil {
			continue
		}
		if view.NowUS+plannedLength(job) > shadow {
			then.Take(job.Shape, spans)
			if !then.Fits(head.Shape, head.Chunks) {
				then.Release(job.Shape, spans)
				continue
			}
		}
		if err := view.StartOn(job, spans); err != nil {
			return err
		}
	}
	return nil
}
