package schedulers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// roundNeeds is about how many slots one round decides on: enough to make a request to
// the store worth its while, few enough that a new service never waits behind a wall of
// batch. A gang is never cut.
const roundNeeds = 300

// queue holds the jobs of this instance and which of their slots may be tried now.
//
// A slot that found no node is parked: it is tried again once a room may have come free
// since the snapshot on which it was refused, its job changes, or the sweep is due, so no
// lost event parks it for ever (field case 19).
//
// Rounds belong to passes, and a pass tries each slot at most once: without that, a
// large job that never fits would be tried again with each bit of room, and hide those
// behind it for ever.
type queue struct {
	limits reconcile.Limits
	sweep  time.Duration
	jobs   map[cellstate.JobName]*entry
	shares shares
	pass   int
	seen   int // counts refreshes, to find jobs that are gone
}

func newQueue(limits reconcile.Limits, sweep time.Duration) *queue {
	return &queue{limits: limits, sweep: sweep, jobs: map[cellstate.JobName]*entry{}, pass: 1}
}

// refresh brings the queue up to a snapshot. Rows are immutable, so a job whose row is
// the same and whose wake is not due is as it was. It returns the jobs that are gone.
func (q *queue) refresh(s *cellstate.Snapshot, scheduler string, shares shares, now time.Time) (gone []cellstate.JobName) {
	q.seen++
	moved := !shares.same(&q.shares)
	q.shares = shares
	for j := range s.JobsOf(scheduler) {
		e := q.jobs[j.Name]
		if e == nil {
			e = &entry{owned: q.shares.owns(j.Name)}
			q.jobs[j.Name] = e
		} else if moved {
			e.owned = q.shares.owns(j.Name)
		}
		e.seen = q.seen
		if !e.owned {
			e.forget()
			continue
		}
		e.update(s, j, q.limits, now)
	}
	if len(q.jobs) > 0 {
		for name, e := range q.jobs {
			if e.seen != q.seen {
				delete(q.jobs, name)
				gone = append(gone, name)
			}
		}
	}
	return gone
}

// pick chooses the work of one round, in the order of the queue: precedence, then age.
// Where there is none it says when there will be, unless something changes.
func (q *queue) pick(s *cellstate.Snapshot, now time.Time) (work []Work, wake time.Time) {
	var open, tried []*entry // that have needs to try, by whether this pass has tried them
	for _, e := range q.jobs {
		if !e.owned || e.job == nil {
			continue
		}
		free, at := e.free(s, now)
		wake = earlier(wake, earlier(at, e.decision.Wake))
		switch {
		case free && e.pass < q.pass:
			open = append(open, e)
		case free:
			tried = append(tried, e)
		}
	}
	for len(work) == 0 && len(open)+len(tried) > 0 {
		if len(open) == 0 {
			open, tried = tried, nil
			q.pass++
		}
		slices.SortFunc(open, byUrgency)
		left := roundNeeds
		for _, e := range open {
			if left <= 0 {
				break
			}
			needs := e.take(s, now, q.pass, left)
			if len(needs) == 0 { // what it has to try comes before what this pass tried last
				tried = append(tried, e)
				continue
			}
			left -= len(needs)
			work = append(work, Work{Job: e.job, Needs: needs})
		}
		open = nil
	}
	return work, wake
}

func byUrgency(a, b *entry) int {
	x, y := a.job.Record, b.job.Record
	if c := cmp.Compare(y.GetSpec().GetPrecedence(), x.GetSpec().GetPrecedence()); c != 0 {
		return c
	}
	if c := x.GetSubmitTime().AsTime().Compare(y.GetSubmitTime().AsTime()); c != 0 {
		return c
	}
	if c := cmp.Compare(a.job.Revision, b.job.Revision); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(a.job.Name.Namespace, b.job.Name.Namespace), strings.Compare(a.job.Name.Name, b.job.Name.Name))
}

// earlier is the earlier of two times of which a zero one means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// size is the number of this instance's jobs and of their slots without a node.
func (q *queue) size() (jobs, waiting int) {
	for _, e := range q.jobs {
		if e.owned && e.job != nil {
			jobs++
			waiting += len(e.decision.Needs)
		}
	}
	return jobs, waiting
}
