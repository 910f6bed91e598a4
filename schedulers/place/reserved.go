package place

import (
	"slices"
	"strconv"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
)

// reservations tells the candidates on which room is reserved what the time is. It is the
// only thing about them that no change of a row tells, so they count as changed.
func (t *Table) reservations(now time.Time) {
	for i := range t.reserved {
		for k := range t.candidates[i].Holds {
			h := &t.candidates[i].Holds[k]
			h.Left = 0
			if !h.starts.IsZero() && !now.IsZero() {
				h.Left = max(0, h.starts.Sub(now))
			}
		}
		t.touch(i)
	}
}

// reserve makes requests differ by what counts where room is reserved; elsewhere it does
// not, and they are of one class.
func (t *Table) reserve(q *Request, job *cellstate.Job) {
	if len(t.reserved) == 0 {
		return
	}
	q.Runs = schedulers.Runs(job)
	q.class += " r" + strconv.FormatInt(int64(q.Runs), 36)
	for i := range t.reserved {
		if slices.ContainsFunc(t.candidates[i].Holds, func(h Hold) bool { return h.Job == job.Name }) {
			q.reserved = job.Name
			q.class += strconv.Quote(job.Name.Namespace) + strconv.Quote(job.Name.Name)
			return
		}
	}
}

// reservedAgainst says whether room is reserved on the node for others than the request:
// then what is evicted there is theirs.
func (c *Candidate) reservedAgainst(q *Request) bool {
	return slices.ContainsFunc(c.Holds, func(h Hold) bool { return h.Job != cellstate.JobName{} && h.binds(q) })
}
