package rules

import (
	"sort"

	"parley"
)

const (
	secondUS = 1_000_000
	// never is when a job without limit ends: later than any instant of a simulation.
	never = int64(1) << 61
	// forever is how long a job without limit lasts: beyond never, whenever it starts.
	forever = int64(1) << 62
)

// plannedLength returns for how long a job is to have its nodes, microseconds: an estimate of zero
// counts as one second.
func plannedLength(job *parley.Job) int64 {
	switch {
	case job.WalltimeUS == nil:
		return forever
	case *job.WalltimeUS == 0:
		return secondUS
	default:
		return *job.WalltimeUS
	}
}

// estimatedEnd returns the instant at which a job's walltime is over, be it past.
func estimatedEnd(running *parley.RunningJob) int64 {
	if at, limited := running.ExpectedEndUS(); limited {
		return at
	}
	return never
}

// releases are the running jobs by their estimated end, then number.
type releases []release

type release struct {
	at      int64
	running *parley.RunningJob
}

func (r releases) find(at, number int64) int {
	return sort.Search(len(r), func(i int) bool {
		return r[i].at > at || r[i].at == at && r[i].running.Job.Number >= number
	})
}

func (r *releases) add(running *parley.RunningJob) {
	at := estimatedEnd(running)
	index := r.find(at, running.Job.Number)
	*r = append(*r, release{})
	copy((*r)[index+1:], (*r)[index:])
	(*r)[index] = release{at, running}
}

func (r *releases) remove(running *parley.RunningJob) {
	index := r.find(estimatedEnd(running), running.Job.Number)
	*r = append((*r)[:index], (*r)[index+1:]...)
}

// until calls a function for each instant after now at which jobs are taken to end, with those
// jobs, until it returns true, and returns that instant, never if there is none. Who is overdue is
// taken to end one second from now.
func (r releases) until(now int64, enough func(ending releases) bool) int64 {
	first := sort.Search(len(r), func(i int) bool { return r[i].at > now })
	overdue, soon := r[:first], now+secondUS
	for rest := r[first:]; len(rest) > 0 || len(overdue) > 0; {
		at := soon
		if len(rest) > 0 && (len(overdue) == 0 || rest[0].at < soon) {
			at = rest[0].at
		}
		same := 0
		for same < len(rest) && rest[same].at == at {
			same++
		}
		ending := rest[:same]
		rest = rest[same:]
		if at >= soon && len(overdue) > 0 {
			ending = append(append(releases{}, overdue...), ending...)
			overdue = nil
		}
		if enough(ending) {
			return at
		}
	}
	return never
}
