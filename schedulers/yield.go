package schedulers

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// When room comes free the highest precedence that waits for it shall have it, whichever
// scheduler it waits with, and not the quickest. A reservation does that for one large job;
// for any number of small ones it would be a write for each. So each scheduler gives way: what its
// mirror shows to wait elsewhere is known to it, by the last words on those jobs, and room that comes
// free and would do for one of strictly higher precedence it leaves alone for a moment. Then it is
// anybody's: whoever stands still, or wants it only by its word, costs others that moment, and
// no more than a lease long.
type yield struct {
	seen   *cellstate.Snapshot // up to which nodes were looked at
	offers map[cellstate.NodeName]offer
	rivals []rival // at seen, the highest precedence first
	known  uint64  // the queue's count of changes of rivals, at which those were listed
}

// offer is room that is left to others.
type offer struct {
	precedence int32
	until      time.Time // afterwards it is anybody's, until it does not do any more
}

// rival is a group of a job that waits with another instance.
type rival struct {
	precedence int32
	job        *cellstate.Job
	need       reconcile.Need
}

// mostRivals bounds the shapes that are looked at on each node.
const mostRivals = 8

// rival takes in the row of a job that may wait with another instance.
func (q *queue) rival(was, is *cellstate.Job, scheduler string) {
	if is != nil && is.Waiting != nil && is.Live() && !(is.Of(scheduler) && q.shares.owns(is.Name)) {
		switch is.Record.GetSpec().GetKind() {
		case "ml", "system": // for a gang room is reserved; a daemon's room is no other's
		default:
			q.rivals[is.Name] = is
			q.rivalsChanged++
			return
		}
	}
	if len(q.rivals) == 0 {
		return
	}
	name := cellstate.JobName{}
	if is != nil {
		name = is.Name
	} else if was != nil {
		name = was.Name
	}
	if _, known := q.rivals[name]; known {
		delete(q.rivals, name)
		q.rivalsChanged++
	}
}

// waitingElsewhere lists what waits with instances that are there, the highest precedence
// first, of each shape once.
func (q *queue) waitingElsewhere(s *cellstate.Snapshot) (all []rival) {
	type key struct {
		shape      shape
		precedence int32
	}
	seen := map[key]bool{}
	jobs := make([]*cellstate.Job, 0, len(q.rivals))
	for _, j := range q.rivals {
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(a, b *cellstate.Job) int {
		return cmp.Or(
			cmp.Compare(b.Record.GetSpec().GetPrecedence(), a.Record.GetSpec().GetPrecedence()),
			strings.Compare(a.Name.Namespace, b.Name.Namespace), strings.Compare(a.Name.Name, b.Name.Name))
	})
	for _, j := range jobs {
		if !registered(s, j.Waiting.GetScheduler(), j.Waiting.GetInstance()) {
			continue
		}
		for _, w := range j.Waiting.GetGroups() {
			g := j.Group(w.GetGroup())
			if g == nil || w.GetNever() != "" || len(w.GetReasons()) == 0 || w.GetReasons()[0].GetReason() == string(cellstate.ReasonQuota) {
				continue
			}
			need := reconcile.Need{Slot: cellstate.Slot{Namespace: j.Name.Namespace, Job: j.Name.Name, Group: g.GetName()}, Attempt: 1, Group: g}
			p := j.Record.GetSpec().GetPrecedence()
			k := key{shapeOf([]reconcile.Need{need}), p}
			if seen[k] && k.shape.constraints == 0 {
				continue
			}
			seen[k] = true
			if all = append(all, rival{p, j, need}); len(all) == mostRivals {
				return all
			}
		}
	}
	return all
}

func registered(s *cellstate.Snapshot, scheduler, instance string) bool {
	row := s.Scheduler(scheduler)
	return row != nil && slices.ContainsFunc(row.Instances, func(i cellstate.Instance) bool { return i.GetInstance() == instance })
}

// fits says whether there is room for the rival on a node.
func (v *rival) fits(s *cellstate.Snapshot, n *cellstate.Node) bool {
	if n.Facts == nil {
		return false
	}
	have, used, want := n.Facts.GetCapacity(), n.Used(), v.need.Group.GetResources()
	if used.CPUMilli+want.GetCpuMilli() > have.GetCpuMilli() || used.MemoryBytes+want.GetMemoryBytes() > have.GetMemoryBytes() {
		return false
	}
	u := &starving{job: v.job, txn: &cellstate.Txn{}}
	u.on(s)
	return len(u.fill(n, []reconcile.Need{v.need})) == 0
}

// yieldTo looks at what has come free since it last did.
func (r *Runner) yieldTo(s *cellstate.Snapshot, now time.Time) {
	y := &r.yield
	last := y.seen
	y.seen = s
	if len(r.queue.rivals) == 0 {
		y.offers, y.rivals = nil, nil
		return
	}
	if y.known != r.queue.rivalsChanged || y.rivals == nil {
		y.known, y.rivals = r.queue.rivalsChanged, r.queue.waitingElsewhere(s)
	}
	changes, same := s.NodeChanges(last)
	if last == nil || !same {
		y.offers = nil
		return
	}
	for _, n := range changes {
		at := slices.IndexFunc(y.rivals, func(v rival) bool { return v.fits(s, n) })
		if at < 0 {
			delete(y.offers, n.Name)
			continue
		}
		if o, known := y.offers[n.Name]; known && o.precedence >= y.rivals[at].precedence {
			continue
		}
		if y.offers == nil {
			y.offers = map[cellstate.NodeName]offer{}
		}
		y.offers[n.Name] = offer{y.rivals[at].precedence, now.Add(r.Times.Yield)}
	}
}

// yielding cuts the work to what is of one mind about the room that is left to others: what is
// of their precedence and above, or else of the highest precedence of all. It bars the nodes
// that this is to leave alone, and says until when.
func (r *Runner) yielding(work []Work, now time.Time, bar map[cellstate.NodeName]bool) ([]Work, time.Time) {
	highest := int32(math.MinInt32)
	for _, o := range r.yield.offers {
		if o.until.After(now) {
			highest = max(highest, o.precedence)
		}
	}
	precedence := func(w Work) int32 { return w.Job.Record.GetSpec().GetPrecedence() }
	if len(work) == 0 || precedence(work[len(work)-1]) >= highest {
		return work, time.Time{}
	}
	first := precedence(work[0])
	cut := slices.IndexFunc(work, func(w Work) bool { return precedence(w) < min(first, highest) })
	if cut >= 0 {
		for _, w := range work[cut:] {
			r.queue.jobs[w.Job.Name].pass = 0
		}
		work = work[:cut]
	}
	var until time.Time
	for name, o := range r.yield.offers {
		if o.until.After(now) && o.precedence > first {
			bar[name] = true
			if until.Before(o.until) {
				until = o.until
			}
		}
	}
	return work, until
}

// leave leaves a slot alone until a time.
func (e *entry) leave(slot cellstate.Slot, until time.Time) {
	if e.losses == nil {
		e.losses = map[cellstate.Slot]loss{}
	}
	l := e.losses[slot]
	l.until = until
	e.losses[slot] = l
}
