package parley

import (
	"iter"
	"sort"
)

// Job is a job as a dispatcher knows it: everything but how long it will run.
type Job struct {
	// Number is what it is called on the wire: its place in reading order.
	Number int64
	Name   string
	// SubmitUS is when it was submitted, microseconds since time 0.
	SubmitUS int64
	// WalltimeUS is the limit it asks for, microseconds; nil is without limit.
	WalltimeUS *int64
	Chunks     int64
	Shape      *Shape
	// User, Group, Queue and Partition are as the job's source says; empty if it says nothing.
	User, Group, Queue, Partition string
	// Attributes are further columns of the workload.
	Attributes map[string]any
}

func (j *Job) before(other *Job) bool {
	if j.SubmitUS != other.SubmitUS {
		return j.SubmitUS < other.SubmitUS
	}
	return j.Number < other.Number
}

// RunningJob is a job on its nodes.
type RunningJob struct {
	Job *Job
	// StartUS is when it started, microseconds since time 0.
	StartUS int64
	Spans   []Span
}

// ExpectedEndUS returns when its walltime is over, and whether it has one.
func (r *RunningJob) ExpectedEndUS() (int64, bool) {
	if r.Job.WalltimeUS == nil {
		return 0, false
	}
	return r.StartUS + *r.Job.WalltimeUS, true
}

// Queue is the pending jobs that are not held, by submission, then number. Looking at the head and
// adding the youngest cost nothing; removing and returning cost a search.
type Queue struct {
	// places are ascending; one whose job has left stays empty until there are too many such.
	places []place
	begin  int
	length int
	// made counts how often places were made anew.
	made int
}

type place struct {
	job  *Job
	here bool
}

// Len returns how many jobs wait.
func (q *Queue) Len() int { return q.length }

// Head returns the job that waits longest, nil if none does.
func (q *Queue) Head() *Job {
	for ; q.begin < len(q.places); q.begin++ {
		if q.places[q.begin].here {
			return q.places[q.begin].job
		}
	}
	return nil
}

// All yields the jobs in order. Jobs may be started or rejected meanwhile.
func (q *Queue) All() iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		q.Head()
		places, made := q.places[q.begin:], q.made
		for i := range places {
			// Once places were made anew these are as they were then.
			if !places[i].here || made != q.made && !q.holds(places[i].job) {
				continue
			}
			if !yield(places[i].job) {
				return
			}
		}
	}
}

func (q *Queue) find(job *Job) int {
	return q.begin + sort.Search(len(q.places)-q.begin, func(i int) bool {
		return !q.places[q.begin+i].job.before(job)
	})
}

func (q *Queue) holds(job *Job) bool {
	at := q.find(job)
	return at < len(q.places) && q.places[at].here && q.places[at].job == job
}

func (q *Queue) add(job *Job) {
	q.length++
	if last := len(q.places) - 1; last < q.begin || q.places[last].job.before(job) {
		q.places = append(q.places, place{job, true})
		return
	}
	at := q.find(job)
	if q.places[at].job.Number == job.Number {
		q.places[at] = place{job, true}
		return
	}
	places := make([]place, 0, len(q.places)-q.begin+1)
	places = append(places, q.places[q.begin:at]...)
	places = append(places, place{job, true})
	q.anew(append(places, q.places[at:]...))
}

func (q *Queue) remove(job *Job) {
	at := q.find(job)
	q.places[at].here = false
	q.length--
	if waiting := len(q.places) - q.begin; waiting > 64 && waiting > 2*q.length {
		places := make([]place, 0, 2*q.length+8)
		for _, kept := range q.places[q.begin:] {
			if kept.here {
				places = append(places, kept)
			}
		}
		q.anew(places)
	}
}

func (q *Queue) anew(places []place) {
	q.places, q.begin = places, 0
	q.made++
}
