package model

// world is a cell under rules.
type world struct {
	Cell
	Rules
}

// start is a cell with all of its jobs, and mirrors that know them.
func (w *world) start() state {
	var s state
	s.rev = 1
	for _, slot := range w.Slots {
		s.store.jobs[slot.Job] = job{rev: s.rev, live: true}
	}
	s.mirror = [schedulers]view{s.store, s.store}
	return s
}

// deliver hands a request to the store. All compares are judged before any write.
func (w *world) deliver(s *state, txn uint8, keep bool) {
	r := s.requests[txn-1]
	if !keep {
		s.requests[txn-1] = request{}
	}
	if w.Lane && s.lane[r.by] != r.seq-1 {
		return
	}
	s.lane[r.by] = max(s.lane[r.by], r.seq)
	var holds [2]bool
	wanted, fit := 0, 0
	for i, c := range r.claims {
		if c.attempt == 0 {
			continue
		}
		wanted++
		if holds[i] = w.compare(&s.store, &r, i); holds[i] {
			fit++
		}
	}
	if fit == 0 || w.Atomic && fit < wanted {
		return
	}
	if fit < wanted {
		s.broken = L3
	}
	if (s.applied|s.never)&bit(txn) != 0 {
		s.broken = L6
	}
	s.applied |= bit(txn)
	w.write(s, func() {
		for i, c := range r.claims {
			if holds[i] {
				w.place(s, txn, &r, c)
			}
		}
	})
}

// compare is what a commit compares for one claim, the lane apart.
func (w *world) compare(v *view, r *request, i int) bool {
	c := r.claims[i]
	slot := v.slots[c.slot]
	free := slot.txn == 0 && (!w.Ended || slot.ended>>c.attempt == 0)
	if r.read > 0 { // it was when it was read
		free = !w.Newer || slot.rev <= r.read && slot.ended&^r.ended[i] == 0
	}
	switch {
	case w.Fence && v.fence[c.node] != c.fence,
		!free,
		w.Job && v.jobs[w.Slots[c.slot].Job].rev != r.jobRev,
		w.Victim && r.victim.txn != 0 && v.slots[r.victim.slot].rev != r.victim.rev,
		w.Victim && r.inherit.txn != 0 && v.slots[r.inherit.slot].rev != r.inherit.rev,
		w.Started && r.release && v.slots[r.victim.slot].started:
		return false
	}
	return true
}

// place writes one claim, and notes which law forbids it.
func (w *world) place(s *state, txn uint8, r *request, c claim) {
	if s.used[c.slot]&bit(c.attempt) != 0 || s.running[c.slot] != 0 {
		s.broken = L2
	}
	if j := s.store.jobs[w.Slots[c.slot].Job]; !j.live || j.rev != r.jobRev {
		s.broken = L4
	}
	s.used[c.slot] |= bit(c.attempt)
	s.running[c.slot] = txn
	s.evicted &^= bit(c.slot)
	heir := r.victim.txn != 0
	s.store.slots[c.slot].placement = placement{rev: s.rev, txn: txn, attempt: c.attempt, node: c.node, heir: heir}
	s.store.fence[c.node] = s.rev
	if r.inherit.txn != 0 {
		s.mark(r.inherit, txn)
	}
	if !heir {
		return
	}
	victim := &s.store.slots[r.victim.slot]
	if victim.evictedBy != 0 {
		s.broken = L5
	}
	started := victim.started
	s.mark(r.victim, txn)
	if r.release && !started {
		s.running[r.victim.slot] = 0 // it never will
	}
	if r.release || !w.KeepVictim {
		victim.end()
	}
}

// mark gives a victim its heir.
func (s *state) mark(v target, heir uint8) {
	victim := &s.store.slots[v.slot]
	if victim.txn != v.txn {
		s.broken = L5
		return
	}
	victim.rev, victim.evictedBy = s.rev, heir
	s.evicted |= bit(v.slot)
}

// end turns the live placement into an ended attempt.
func (s *slot) end() {
	s.ended |= bit(s.attempt)
	s.placement = placement{}
}

// release hands a report to the store. It bumps no fence.
func (w *world) release(s *state, i int, keep bool) {
	r := s.reports[i]
	if !keep {
		s.reports[i] = report{}
	}
	p := s.store.slots[r.slot].placement
	if w.ReleaseTxn && p.txn != r.txn || p.attempt != r.attempt {
		return
	}
	w.write(s, s.store.slots[r.slot].end)
}

// giveUp is what a sender does that has no reply: it reads its lane and, if the request
// has not reached it, moves it on, so that the request never will.
func (s *state) giveUp(who uint8) {
	txn := s.waiting[who]
	s.waiting[who] = 0
	if r := s.requests[txn-1]; r.seq > s.lane[who] {
		s.lane[who] = r.seq
		s.never |= bit(txn)
	}
}

// write is one revision: it runs change and logs for the mirrors what came of it.
func (w *world) write(s *state, change func()) {
	before := s.store
	s.rev++
	change()
	s.log[s.logged] = difference(&before, &s.store)
	s.logged++
}

func difference(before, after *view) change {
	var c change
	for i := range uint8(maxSlots) {
		if after.jobs[i] != before.jobs[i] {
			c.jobs, c.records.jobs[i] = c.jobs|bit(i), after.jobs[i]
		}
		if after.slots[i] != before.slots[i] {
			c.slots, c.records.slots[i] = c.slots|bit(i), after.slots[i]
		}
	}
	for n := range uint8(maxNodes) {
		if after.fence[n] != before.fence[n] {
			c.n, c.records.fence[n], c.compared[n] = c.n|bit(n), after.fence[n], before.fence[n]
		}
	}
	return c
}

// observe lets a mirror take in its next revision, or lose it.
func (w *world) observe(s *state, who uint8, lost bool) {
	c := s.log[s.at[who]]
	s.at[who]++
	if !lost && !c.applyTo(&s.mirror[who], w.Chain) {
		s.mirror[who], s.at[who] = s.store, s.logged // a gap: load again
	}
	passed := min(s.at[0], s.at[1])
	var rest [maxLag]change
	copy(rest[:], s.log[passed:s.logged])
	s.log, s.logged = rest, s.logged-passed
	s.at[0], s.at[1] = s.at[0]-passed, s.at[1]-passed
}

// applyTo reports whether the change follows what the mirror knows.
func (c *change) applyTo(v *view, chain bool) bool {
	for n := range uint8(maxNodes) {
		if c.n&bit(n) == 0 {
			continue
		}
		if chain && v.fence[n] != c.compared[n] {
			return false
		}
		v.fence[n] = c.records.fence[n]
	}
	for i := range uint8(maxSlots) {
		if c.jobs&bit(i) != 0 {
			v.jobs[i] = c.records.jobs[i]
		}
		if c.slots&bit(i) != 0 {
			v.slots[i] = c.records.slots[i]
		}
	}
	return true
}
