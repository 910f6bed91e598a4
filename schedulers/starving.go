package schedulers

import (
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// starving is what the Runner wants to hold for one job.
type starving struct {
	job   *cellstate.Job
	needs []reconcile.Need
	least int // so many must fit
	lost  []cellstate.NodeName
	alone bool           // as if nobody else held room
	txn   *cellstate.Txn // of the hold, once it stands

	snapshot *cellstate.Snapshot // on which room is looked for; nil: rules between tasks are left out
	kept     map[*ohmv1.Group]func(cellstate.NodeName) bool
	ruled    *bool // its tasks have rules between each other
}

// on makes a snapshot the one on which room is looked for.
func (u *starving) on(s *cellstate.Snapshot) {
	if u.snapshot != s {
		u.snapshot, u.kept = s, map[*ohmv1.Group]func(cellstate.NodeName) bool{}
	}
}

// keptOff says whether a rule between tasks keeps the group off a node, as things stand: then
// no room there is any use to it.
func (u *starving) keptOff(g *ohmv1.Group, node cellstate.NodeName) bool {
	if u.snapshot == nil {
		return false
	}
	off, known := u.kept[g]
	if !known {
		off = u.snapshot.KeptOff(u.job, g)
		u.kept[g] = off
	}
	return off != nil && off(node)
}

// wantHold notes that the job's next losses shall be prevented.
func (q *queue) wantHold(name cellstate.JobName) { q.starving[name] = true }

// lostOn notes the node of the last loss, whether it was claimed, and whether there were
// too many losses.
func (e *entry) lostOn(slot cellstate.Slot, node cellstate.NodeName, claimed bool) {
	l := e.losses[slot]
	l.node, l.fresh = node, claimed
	e.losses[slot] = l
	if l.times >= e.queue.holdAfter {
		e.queue.wantHold(e.name)
	}
}

// shun adds to the nodes that a round is to leave alone those on which its slots have
// lost since they were last decided on: who has just lost a node is likely to meet the same
// others there again (field case 11). It is for one decision only.
func (q *queue) shun(work []Work, nodes map[cellstate.NodeName]bool) {
	for _, w := range work {
		e := q.jobs[w.Job.Name]
		if len(e.losses) == 0 {
			continue
		}
		for _, n := range w.Needs {
			if l := e.losses[n.Slot]; l.fresh && n.Node == "" {
				nodes[l.node] = true
				l.fresh = false
				e.losses[n.Slot] = l
			}
		}
	}
}

// outcome counts what conflicts alone do not tell: an atomic transaction is one loss of
// its gang, and a claim whose node moved on under it each time it was sent has lost, too.
func (r *Runner) outcome(f *flight, res *cellstate.Result, now time.Time) {
	e := r.queue.jobs[res.Txn.Claims[0].Slot.JobName()]
	if e != nil && len(res.Committed) > 0 {
		e.defeats, e.waits, e.hopeless = 0, time.Time{}, ""
	}
	if e != nil && res.Txn.Mode == cellstate.Atomic && len(res.Committed) == 0 {
		if e.defeats++; e.defeats >= r.HoldAfter {
			r.queue.wantHold(e.name)
		}
	}
	answered := len(res.Committed) + len(res.Conflicts)
	if answered == len(res.Txn.Claims) || len(res.Conflicts) > 0 && res.Txn.Mode == cellstate.Atomic {
		return
	}
	for i := range res.Txn.Claims {
		c := &res.Txn.Claims[i]
		conflict := slices.ContainsFunc(res.Conflicts, func(o cellstate.Conflict) bool { return o.Claim == i })
		if e = r.queue.jobs[c.Slot.JobName()]; e == nil || conflict || slices.Contains(res.Committed, i) {
			continue
		}
		e.lose(c.Slot, f.snapshot.Revision(), now, r.Times.RetryMost, r.chance.Float64())
		e.lostOn(c.Slot, c.Node, true)
	}
}

// starved lists, most urgent first, what is to be held now, and when there may be more.
func (q *queue) starved(now time.Time, most int) (all []*starving, wake time.Time) {
	var entries []*entry
	for name := range q.starving {
		if e := q.jobs[name]; e != nil && e.owned && e.job != nil && len(e.needs) > 0 {
			entries = append(entries, e)
			continue
		}
		delete(q.starving, name)
	}
	slices.SortFunc(entries, byUrgency)
	for _, e := range entries {
		u, at := e.starved(now, most)
		if u == nil {
			wake = earlier(wake, at)
			if at.IsZero() {
				delete(q.starving, e.name)
			}
			continue
		}
		if all = append(all, u); len(all) == holdTxns {
			break
		}
	}
	return all, wake
}

// starved is what is to be held for the job, at most so many claims (0: any number), or
// else when to ask again; zero: after its next loss. With a slot that has lost too often
// those of its group come along that have lost at all: they are alike, and so is their fate.
func (e *entry) starved(now time.Time, most int) (_ *starving, wake time.Time) {
	if gang(e.job) {
		return e.starvedGang(now, most)
	}
	first := slices.IndexFunc(e.needs, func(n reconcile.Need) bool {
		return e.losses[n.Slot].times >= e.queue.holdAfter && !e.flying[n.Slot]
	})
	if first < 0 {
		return nil, time.Time{}
	}
	u := &starving{job: e.job, least: 1}
	for _, n := range e.needs {
		switch l := e.losses[n.Slot]; {
		case e.flying[n.Slot] || l.times == 0 || n.Group != e.needs[first].Group:
		case l.until.After(now): // it backs off, so that of two that starve one comes first
			wake = earlier(wake, l.until)
		case len(u.needs) < holdClaims && (most == 0 || len(u.needs) < most):
			u.add(n, l)
		}
	}
	if len(u.needs) == 0 {
		return nil, wake
	}
	return u, time.Time{}
}

// starvedGang is a gang whole, or its minimum. One whose holds the store cannot end with
// its commit goes without.
func (e *entry) starvedGang(now time.Time, most int) (_ *starving, wake time.Time) {
	if e.stage == grows {
		return nil, time.Time{}
	}
	u := &starving{job: e.job, least: len(e.needs)}
	for _, n := range e.needs {
		l := e.losses[n.Slot]
		switch {
		case e.flying[n.Slot]:
			return nil, time.Time{} // it is being tried; a loss will come back here
		case l.until.After(now):
			return nil, l.until
		}
		u.add(n, l)
	}
	u.least = e.least()
	if most > 0 && len(u.needs) > most {
		u.needs = u.needs[:most]
	}
	if u.least > len(u.needs) {
		return nil, time.Time{}
	}
	return u, time.Time{}
}

// least is how many of a gang's needs must find room together.
func (e *entry) least() int {
	if len(e.needs) == 0 || e.needs[0].Gang == nil {
		return len(e.needs)
	}
	return min(len(e.needs), max(1, e.needs[0].Gang.Least))
}

func (u *starving) add(n reconcile.Need, l loss) {
	u.needs = append(u.needs, n)
	if l.node != "" && !slices.Contains(u.lost, l.node) {
		u.lost = append(u.lost, l.node)
	}
}
