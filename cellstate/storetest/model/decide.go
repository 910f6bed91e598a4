package model

import "math/bits"

// decide yields every request that a scheduler may send on what its mirror shows.
func (w *world) decide(v *view, yield func(request)) {
	for i, spec := range w.Slots {
		if w.Gang && spec.Job == 0 {
			if i == 0 {
				w.gang(v, yield)
			}
			continue
		}
		if !v.jobs[spec.Job].live || v.slots[i].txn != 0 {
			continue
		}
		for n := range uint8(w.Nodes) {
			r := request{jobRev: v.jobs[spec.Job].rev}
			r.claims[0] = w.claim(v, uint8(i), n)
			if w.fits(v, r) {
				yield(r)
				continue
			}
			for victim := range w.Slots {
				if e, ok := w.evicting(v, r, victim); ok && w.fits(v, e) {
					yield(e)
				}
			}
		}
	}
}

// gang yields the requests for all slots of job 0: slot i on node i or, where their range
// alone has to tell that they are free, all on any one node.
func (w *world) gang(v *view, yield func(request)) {
	if !w.OneRange {
		w.gangOn(v, func(i uint8) uint8 { return i }, yield)
		return
	}
	for n := range uint8(w.Nodes) {
		w.gangOn(v, func(uint8) uint8 { return n }, yield)
	}
}

func (w *world) gangOn(v *view, node func(slot uint8) uint8, yield func(request)) {
	r := request{jobRev: v.jobs[0].rev}
	for i, spec := range w.Slots {
		if spec.Job != 0 {
			continue
		}
		if !v.jobs[0].live || v.slots[i].txn != 0 {
			return
		}
		r.claims[i] = w.claim(v, uint8(i), node(uint8(i)))
	}
	if w.fits(v, r) {
		yield(r)
	}
}

// reads lets the sender of a gang read its slots in the store; false: one is not free.
func (w *world) reads(s *state, r *request) bool {
	if !w.OneRange || r.claims[1].attempt == 0 {
		return true
	}
	r.read = s.rev
	for i, c := range r.claims {
		slot := s.store.slots[c.slot]
		if slot.txn != 0 || slot.ended>>c.attempt != 0 {
			return false
		}
		r.ended[i] = slot.ended
	}
	return true
}

func (w *world) claim(v *view, slot, node uint8) claim {
	next := max(1, bits.Len8(v.slots[slot].ended))
	return claim{slot: slot, attempt: uint8(next), node: node, fence: v.fence[node]}
}

// evicting is r with a victim, if it is one: on the same node, of lower precedence and
// not evicted yet.
func (w *world) evicting(v *view, r request, victim int) (request, bool) {
	c, p := r.claims[0], v.slots[victim].placement
	if p.txn == 0 || p.node != c.node || p.evictedBy != 0 || w.Slots[victim].Precedence >= w.Slots[c.slot].Precedence {
		return r, false
	}
	r.victim = target{slot: uint8(victim), txn: p.txn, rev: p.rev}
	if r.release = p.heir && !p.started; !r.release {
		return r, true
	}
	for i, o := range v.slots {
		if o.txn != 0 && o.evictedBy == p.txn {
			r.inherit = target{slot: uint8(i), txn: o.txn, rev: o.rev}
		}
	}
	return r, true
}

// fits says whether the nodes of a request can carry it on a view.
func (w *world) fits(v *view, r request) bool {
	const own = ^uint8(0) // a transaction that no other has
	after := *v
	for _, c := range r.claims {
		if c.attempt > 0 {
			after.slots[c.slot].placement = placement{txn: own, node: c.node}
		}
	}
	if r.victim.txn != 0 {
		after.slots[r.victim.slot].evictedBy = own
	}
	if r.inherit.txn != 0 {
		after.slots[r.inherit.slot].evictedBy = own
	}
	if r.release {
		after.slots[r.victim.slot].placement = placement{}
	}
	for _, c := range r.claims {
		if c.attempt > 0 && w.charge(&after, c.node) > w.Capacity {
			return false
		}
	}
	return true
}

// charge is what a node is charged with: each placement, but of an heir and the victims
// whose room it inherits only the larger. A victim whose heir went counts by itself.
func (w *world) charge(v *view, node uint8) int {
	sum := 0
	for i, s := range v.slots {
		if s.txn != 0 && s.node == node && !w.hasHeir(v, s.placement) {
			sum += w.need(v, i)
		}
	}
	return sum
}

func (w *world) hasHeir(v *view, p placement) bool {
	if !w.Orphans {
		return p.evictedBy != 0
	}
	for _, s := range v.slots {
		if p.evictedBy != 0 && s.txn == p.evictedBy && s.node == p.node {
			return true
		}
	}
	return false
}

func (w *world) need(v *view, slot int) int {
	p, victims := v.slots[slot].placement, 0
	for i, s := range v.slots {
		if s.txn != 0 && s.evictedBy == p.txn && s.node == p.node {
			victims += w.need(v, i)
		}
	}
	return max(w.Slots[slot].Size, victims)
}
