package audit

import (
	"maps"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// revision is one revision under audit: the states before and after it, and what it did.
type revision struct {
	*Auditor
	before, after *cellstate.Snapshot
	changes       []cellstate.Change
	commits       []*cellstate.Placement                    // placements that are new
	marks         []*cellstate.Placement                    // placements that are newly evicted by somebody
	drains        []*cellstate.Placement                    // placements that are newly given up for a drain
	ended         map[cellstate.Slot][]*ohmv1.Ended         // attempts that ended
	bumps         map[cellstate.NodeName][]cellstate.Change // records that come with a node's fence
}

func newRevision(a *Auditor, before, after *cellstate.Snapshot, changes []cellstate.Change) *revision {
	r := &revision{Auditor: a, before: before, after: after, changes: changes,
		ended: map[cellstate.Slot][]*ohmv1.Ended{}, bumps: map[cellstate.NodeName][]cellstate.Change{}}
	for _, c := range changes {
		k := c.Key.Parse()
		switch v := c.Record().(type) {
		case *ohmv1.Placement:
			p := cellstate.NewPlacement(k.Slot, v, c.Revision)
			old := live(before, k.Slot)
			if old == nil || old.GetTxn() != v.GetTxn() {
				r.commits = append(r.commits, p)
			} else if v.GetEvictedBy() != old.GetEvictedBy() {
				r.marks = append(r.marks, p)
			} else if v.GetDrained() && !old.GetDrained() {
				r.drains = append(r.drains, p)
				continue // adds to no node
			} else if v.GetReleased() && !old.GetReleased() {
				continue
			}
			r.bump(cellstate.NodeName(v.GetNode()), c)
		case *ohmv1.Ended:
			r.ended[k.Slot] = append(r.ended[k.Slot], v)
		case *ohmv1.Node, *ohmv1.Intent, *ohmv1.Hold:
			r.bump(k.Node, c)
		}
	}
	return r
}

func (r *revision) bump(n cellstate.NodeName, c cellstate.Change) { r.bumps[n] = append(r.bumps[n], c) }

func (r *revision) violated(law string, key cellstate.Key, format string, args ...any) {
	r.Auditor.violated(r.after.Revision(), law, key, format, args...)
}

func (r *revision) check() {
	for _, p := range r.commits {
		r.txns[p.GetTxn()] = true
		r.placements++
		r.slot(p)
		r.job(p)
		r.node(p)
		r.evictions(p)
		r.rules(p)
	}
	for _, p := range r.marks {
		r.mark(p)
	}
	for _, c := range r.changes {
		switch k := c.Key.Parse(); k.Kind {
		case cellstate.KindPlacement:
			r.deletion(k.Slot, c)
		case cellstate.KindEnded:
			r.end(k, c)
		}
	}
	r.budgets()
	r.parallel()
	r.atomic()
	r.capacity()
	r.fences()
	r.holds()
	r.quotas()
}

// slot checks that the record stands where it says, and that the slot and the attempt
// were free: L2, L6.
func (r *revision) slot(p *cellstate.Placement) {
	key := p.Slot.PlacementKey()
	if cellstate.SlotOf(p.GetSlot()) != p.Slot {
		r.violated(L2, key, "the record is of slot %s", cellstate.SlotOf(p.GetSlot()))
	}
	if p.GetAttempt() < 1 {
		r.violated(L2, key, "attempt %d", p.GetAttempt())
	}
	t := r.before.Job(p.Slot.JobName()).Task(p.Slot)
	if t == nil {
		return
	}
	if old := t.Placement; old != nil {
		r.violated(L2, key, "transaction %s took the slot from the live placement of transaction %s", p.GetTxn(), old.GetTxn())
	}
	for _, e := range t.Ended {
		switch {
		case e.GetPlacement().GetTxn() == p.GetTxn():
			r.violated(L6, key, "transaction %s was applied again: attempt %d of it has ended", p.GetTxn(), e.Attempt)
			return
		case e.Attempt >= int(p.GetAttempt()):
			r.violated(L2, key, "attempt %d, but attempt %d has ended", p.GetAttempt(), e.Attempt)
			return
		}
	}
}

// job checks the placement against its job's record as the commit found it: L4.
func (r *revision) job(p *cellstate.Placement) {
	key := p.Slot.PlacementKey()
	j := r.before.Job(p.Slot.JobName())
	switch {
	case j == nil || j.Record == nil:
		r.violated(L4, key, "there is no job %s", p.Slot.JobName())
		return
	case j.Record.GetDone() != nil:
		r.violated(L4, key, "the job was done")
	case j.Record.GetStopped():
		r.violated(L4, key, "the job was stopped")
	}
	if !j.Current(p.Slot) || int64(j.Revision) != p.GetJobRevision() {
		r.violated(L4, key, "the claim saw version %d at revision %d of the job; it had version %d at revision %d",
			p.Slot.Version, p.GetJobRevision(), j.VersionOf(p.Slot.Group), j.Revision)
	}
	if spec := j.Record.GetSpec(); spec.GetScheduler() != p.GetScheduler() {
		r.violated(L4, key, "placed by scheduler %s, the job's is %s", p.GetScheduler(), spec.GetScheduler())
	} else if spec.GetPrecedence() != p.GetPrecedence() {
		r.violated(L4, key, "placed with precedence %d, the job's is %d", p.GetPrecedence(), spec.GetPrecedence())
	}
}

// deletion checks that a live placement went by a release, which tells its end: L2.
func (r *revision) deletion(slot cellstate.Slot, c cellstate.Change) {
	old := live(r.before, slot)
	if !c.Deleted || old == nil {
		return
	}
	if !slices.ContainsFunc(r.ended[slot], func(e *ohmv1.Ended) bool { return e.GetPlacement().GetTxn() == old.GetTxn() }) {
		r.violated(L2, c.Key, "attempt %d of transaction %s was deleted without an ended record", old.GetAttempt(), old.GetTxn())
	}
}

// end checks that an ended record stands where it says, and that nothing else stood there: L2.
func (r *revision) end(k cellstate.Parsed, c cellstate.Change) {
	e, ok := c.Record().(*ohmv1.Ended)
	if !ok {
		return
	}
	p := e.GetPlacement()
	if cellstate.SlotOf(p.GetSlot()) != k.Slot || int(p.GetAttempt()) != k.Attempt {
		r.violated(L2, c.Key, "the record is of slot %s, attempt %d", cellstate.SlotOf(p.GetSlot()), p.GetAttempt())
	}
	if now := live(r.after, k.Slot); now != nil && now.GetTxn() == p.GetTxn() {
		r.violated(L2, c.Key, "the attempt of transaction %s has ended and is live", p.GetTxn())
	}
	if t := r.before.Job(k.Slot.JobName()).Task(k.Slot); t != nil {
		for _, old := range t.Ended {
			if old.Attempt == k.Attempt && old.GetPlacement().GetTxn() != p.GetTxn() {
				r.violated(L2, c.Key, "the attempt of transaction %s stood here", old.GetPlacement().GetTxn())
			}
		}
	}
}

// evictions checks what became of the victims of a claim: L5.
func (r *revision) evictions(p *cellstate.Placement) {
	key := p.Slot.PlacementKey()
	for _, v := range p.GetVictims() {
		slot := cellstate.SlotOf(v.GetSlot())
		old, now := live(r.before, slot), live(r.after, slot)
		switch {
		case old == nil || old.GetTxn() != v.GetTxn():
			r.violated(L5, key, "its victim %s of transaction %s was not there", slot, v.GetTxn())
			continue
		case old.GetPrecedence() == p.GetPrecedence() && r.before.Fair() != nil && old.Slot.Namespace != p.Slot.Namespace:
			// A reclaim. What was due is a matter of the revision that it was judged on, not of this one.
		case old.GetPrecedence() >= p.GetPrecedence():
			r.violated(L5, key, "its victim %s has precedence %d, itself %d", slot, old.GetPrecedence(), p.GetPrecedence())
		}
		switch {
		case now == nil && (len(old.GetVictims()) == 0 || r.started(old)):
			r.violated(L5, key, "its victim %s was deleted in the same commit", slot)
		case now != nil && now.GetEvictedBy() != p.GetTxn():
			r.violated(L5, key, "its victim %s is not marked", slot)
		}
	}
}

// started says whether an heir's agent had begun with it; only one that had not may be
// released by whoever evicts it.
func (r *revision) started(p *cellstate.Placement) bool {
	t := r.before.Job(p.Slot.JobName()).Task(p.Slot)
	return t.Status.GetState() > task.Assigned
}

// mark checks that a placement is evicted by a claim of the same commit: L5.
func (r *revision) mark(p *cellstate.Placement) {
	for _, heir := range r.commits {
		if heir.GetTxn() == p.GetEvictedBy() && heir.GetNode() == p.GetNode() && len(heir.GetVictims()) > 0 {
			return
		}
	}
	r.violated(L5, p.Slot.PlacementKey(), "marked as evicted by %q, which commits nothing on %s here", p.GetEvictedBy(), p.GetNode())
}

// atomic checks that all claims of an atomic transaction are here: L3.
func (r *revision) atomic() {
	gangs := map[string][]*cellstate.Placement{}
	for _, p := range r.commits {
		if p.GetMode() == cellstate.Atomic {
			gangs[p.GetTxn()] = append(gangs[p.GetTxn()], p)
		}
	}
	for _, txn := range slices.Sorted(maps.Keys(gangs)) {
		if g := gangs[txn]; len(g) != int(g[0].GetTxnClaims()) {
			r.violated(L3, g[0].Slot.PlacementKey(), "%d of %d claims of the atomic transaction %s committed", len(g), g[0].GetTxnClaims(), txn)
			continue
		}
		r.begins(txn, gangs[txn])
	}
}

// begins checks that a gang's world begins with its minimum, in all and of each group: L3. Who
// joins a world may come alone.
func (r *revision) begins(txn string, placed []*cellstate.Placement) {
	jobs := map[cellstate.JobName][]cellstate.Slot{}
	for _, p := range placed {
		if p.GetWorld() == txn {
			jobs[p.Slot.JobName()] = append(jobs[p.Slot.JobName()], p.Slot)
		}
	}
	for name, slots := range jobs {
		if j := r.after.Job(name); j.Record.GetSpec().GetGang() != nil {
			if lacks := j.GangLacks(slots); lacks != "" {
				r.violated(L3, slots[0].PlacementKey(), "the gang begins with %s in transaction %s", lacks, txn)
			}
		}
	}
}

func live(s *cellstate.Snapshot, slot cellstate.Slot) *cellstate.Placement {
	if t := s.Job(slot.JobName()).Task(slot); t != nil {
		return t.Placement
	}
	return nil
}
