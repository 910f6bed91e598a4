package holds

import "fmt"

// world is a state and where its successors go.
type world struct {
	Cell
	Rules
	now  state
	emit func(state, string)
}

// step emits what a change makes of the state, if the change is one.
func (w *world) step(name string, change func(*state) bool) {
	after := w.now
	if change(&after) {
		w.emit(after, name)
	}
}

func (w *world) next() {
	for i := range schedulers {
		w.step(fmt.Sprintf("scheduler %d sees what is stored", i), func(s *state) bool {
			s.mirrors[i] = s.store
			return s.mirrors[i] != w.now.mirrors[i]
		})
		w.schedule(i)
		w.step(fmt.Sprintf("the request of scheduler %d arrives", i), func(s *state) bool { return w.arrive(s, i) })
		w.step(fmt.Sprintf("scheduler %d gives up its request", i), func(s *state) bool {
			if s.requests[i].kind == 0 || int(s.giveUps) == w.GiveUps {
				return false
			}
			s.requests[i] = request{}
			s.giveUps++
			return true
		})
		w.step(fmt.Sprintf("the hold of scheduler %d is given back, or its lease ends", i), func(s *state) bool {
			if s.leases[i] != alive {
				return false
			}
			s.leases[i], s.store.hold[i] = ended, 0
			s.rev++
			return true
		})
		for t := range uint8(w.Owners[i].Tasks) {
			w.step(fmt.Sprintf("task %d of scheduler %d ends", t, i), func(s *state) bool {
				if s.store.placed[i][t] == 0 || s.store.over[i]&bit(t) != 0 || int(s.ends) == w.Ends {
					return false
				}
				s.store.over[i] |= bit(t)
				s.rev++
				s.ends++
				return true
			})
		}
	}
}

// schedule yields the requests that a scheduler may send on what its mirror shows.
func (w *world) schedule(i int) {
	now := &w.now
	if now.requests[i].kind != 0 || int(now.sent) == w.Requests {
		return
	}
	v := &now.mirrors[i]
	for _, r := range w.wanted(v, i) {
		if !w.fits(v, i, r) {
			continue
		}
		for n := range uint8(nodes) {
			if on(&r, n) > 0 {
				r.fence[n] = v.fence[n]
			}
		}
		if w.Remove {
			r.removes = v.hold[i]
		}
		w.step(fmt.Sprintf("scheduler %d claims for its tasks nodes %v", i, r.nodes), func(s *state) bool {
			r.kind = claims
			s.requests[i] = r
			s.sent++
			return true
		})
		// A hold is for tasks that all lack a node, and its predecessor is over.
		if int(now.holds[i]) == w.Owners[i].Holds || now.leases[i] == alive || v.hold[i] != 0 {
			continue
		}
		w.step(fmt.Sprintf("scheduler %d wants to hold for its tasks nodes %v", i, r.nodes), func(s *state) bool {
			r.kind, r.removes = places, 0
			s.requests[i] = r
			s.leases[i] = alive
			s.sent++
			s.holds[i]++
			return true
		})
	}
}

// wanted are the requests that a scheduler would like to send: a gang whole, task i on node
// i; else one task on a node.
func (w *world) wanted(v *view, i int) (all []request) {
	o := w.Owners[i]
	if o.Gang {
		if v.placed[i] == [slots]uint8{} {
			all = append(all, request{nodes: [slots]uint8{1, 2}})
		}
		return all
	}
	for t := range o.Tasks {
		for n := range uint8(nodes) {
			if v.placed[i][t] == 0 {
				var r request
				r.nodes[t] = n + 1
				all = append(all, r)
			}
		}
	}
	return all
}

// fits says whether a view has room for a scheduler's request: the rule under test.
func (w *world) fits(v *view, i int, r request) bool {
	other := 1 - i
	for n := range uint8(nodes) {
		units := w.Owners[i].Size * on(&r, n)
		if units == 0 {
			continue
		}
		units += w.taken(v, n)
		if w.keepsOff(other, i) {
			units += w.held(v, other, n)
		}
		if !w.Own {
			units += w.held(v, i, n)
		}
		if units > w.Capacity {
			return false
		}
	}
	return true
}

// keepsOff says whether a hold of one scheduler is charged to another.
func (w *world) keepsOff(owner, other int) bool {
	mine, theirs := w.Owners[owner].Precedence, w.Owners[other].Precedence
	switch {
	case !w.Charged:
		return false
	case mine == theirs:
		return w.Equal
	}
	return mine > theirs || !w.Higher
}

// on is how many tasks a request has on a node.
func on(r *request, node uint8) (n int) {
	for _, at := range r.nodes {
		if at == node+1 {
			n++
		}
	}
	return n
}

// taken are the units of the tasks on a node.
func (w *world) taken(v *view, node uint8) (units int) {
	for i, o := range w.Owners {
		for t := range uint8(slots) {
			if v.placed[i][t] == node+1 && v.over[i]&bit(t) == 0 {
				units += o.Size
			}
		}
	}
	return units
}

// held are the units that a scheduler holds on a node.
func (w *world) held(v *view, i int, node uint8) int {
	if v.hold[i]&bit(node) == 0 {
		return 0
	}
	return w.Owners[i].Size
}

// arrive hands a request to the store. All compares are judged before any write.
func (w *world) arrive(s *state, i int) bool {
	r := s.requests[i]
	switch r.kind {
	case places:
		w.place(s, i, r)
	case claims:
		w.claim(s, i, r)
	default:
		return false
	}
	s.requests[i] = request{}
	s.mirrors[i] = s.store
	return true
}

// place places a hold, of which the lease is there from before the request was sent.
func (w *world) place(s *state, i int, r request) {
	if w.Lease && s.leases[i] != alive {
		return
	}
	var holds [nodes]bool
	all := true
	for n := range uint8(nodes) {
		holds[n] = on(&r, n) > 0 && (!w.Compare || s.store.fence[n] == r.fence[n])
		all = all && (holds[n] || on(&r, n) == 0)
	}
	if w.Together && !all {
		return
	}
	s.rev++
	for n := range uint8(nodes) {
		if holds[n] {
			s.store.hold[i] |= bit(n)
			if w.Bump {
				s.store.fence[n] = s.rev
			}
			w.kept(s, i, n)
		}
	}
}

func (w *world) claim(s *state, i int, r request) {
	var fit [slots]bool
	all := true
	for t, at := range r.nodes {
		if at > 0 {
			fit[t] = s.store.placed[i][t] == 0 && (s.store.fence[at-1] == r.fence[at-1] || !w.OwnFence && r.removes&bit(at-1) != 0)
			all = all && fit[t]
		}
	}
	if w.Atomic && !all {
		return
	}
	s.rev++
	for t, at := range r.nodes {
		if !fit[t] {
			continue
		}
		s.store.placed[i][t] = at
		s.store.fence[at-1] = s.rev
		s.store.hold[i] &^= r.removes & bit(at-1)
	}
	for _, at := range r.nodes {
		if at > 0 {
			w.kept(s, i, at-1)
		}
	}
}

// kept notes that a scheduler has got room on a node from which a hold keeps it off.
func (w *world) kept(s *state, i int, node uint8) {
	other := 1 - i
	if w.Owners[other].Precedence < w.Owners[i].Precedence {
		return
	}
	if held := w.held(&s.store, other, node); held > 0 && w.taken(&s.store, node)+w.held(&s.store, i, node)+held > w.Capacity {
		s.broken = Kept
	}
}
