package quotas

// underWay is what a process counts on top of its mirror, and whether a part of that is of
// unknown fate.
func (s *state) underWay(p int) (units uint8, unknown bool) {
	v := &s.mirrors[p]
	for _, r := range s.requests {
		if int(r.from) != p+1 || r.share != v.shares[instanceOf(p)].rev {
			continue
		}
		if r.answered && (r.at == 0 || r.at <= v.rev) {
			continue
		}
		units++
		unknown = unknown || r.unknown
	}
	return units, unknown
}

// forget drops the requests that nobody asks after any more.
func (s *state) forget(p int) {
	for i, r := range s.requests {
		if int(r.from) == p+1 && r.answered && (r.at == 0 || r.at <= s.mirrors[p].rev) {
			s.requests[i] = request{}
		}
	}
}

func (w *world) mustPut(s *state, p int) bool {
	share := s.mirrors[p].shares[instanceOf(p)]
	_, unknown := s.underWay(p)
	return w.Holder && int(share.holder) != p+1 || unknown
}

// send plans on the mirror, as it is.
func (w *world) send(s *state, p int) bool {
	v := &s.mirrors[p]
	r := request{from: uint8(p + 1), created: v.created}
	if v.quota > 0 {
		share := v.shares[instanceOf(p)]
		spent := share.used
		if units, _ := s.underWay(p); w.Ledger {
			spent += units
		}
		if w.mustPut(s, p) || share.granted <= spent {
			return false
		}
		r.share = share.rev
	} else if instanceOf(p) != 1 || int(s.sent) >= w.Before {
		return false
	}
	for i := range s.requests {
		if s.requests[i].from == 0 {
			s.requests[i] = r
			return spend(&s.sent, w.Requests)
		}
	}
	return false
}

func (w *world) takeOver(s *state, p int) bool {
	i := instanceOf(p)
	if s.mirrors[p].quota == 0 || !w.mustPut(s, p) || s.mirrors[p].shares[i].rev != s.store.shares[i].rev {
		return false
	}
	s.store.rev++
	s.store.shares[i].rev, s.store.shares[i].holder = s.store.rev, uint8(p+1)
	return spend(&s.takeovers, w.Takeovers)
}

// giveBack lowers a share to what its owner uses and has under way, as far as it knows.
func (w *world) giveBack(s *state, p int) bool {
	i, share := instanceOf(p), s.mirrors[p].shares[instanceOf(p)]
	units, _ := s.underWay(p)
	least := min(share.granted, share.used+units)
	if share.rev != s.store.shares[i].rev || least == share.granted {
		return false
	}
	s.store.rev++
	s.store.shares[i].rev, s.store.shares[i].granted = s.store.rev, least
	return spend(&s.givings, w.Givings)
}

func (w *world) arrive(s *state, r *request) bool {
	if r.from == 0 || r.arrived {
		return false
	}
	r.arrived = true
	share := &s.store.shares[instanceOf(int(r.from)-1)]
	if w.Creation && r.created != s.store.created || w.Share && r.share > 0 && r.share != share.rev {
		return true
	}
	s.store.rev++
	share.used++
	r.at = s.store.rev
	used := uint8(0)
	for _, sh := range s.store.shares {
		used += sh.used
	}
	s.broken = s.store.quota > 0 && used > s.store.limit
	return true
}

func (s *state) addGrant(g grant) bool {
	for i := range s.grants {
		if s.grants[i].share == 0 {
			s.grants[i] = g
			return true
		}
	}
	return false
}

func (w *world) raise(s *state, i int) bool {
	v := &s.keeper
	sum := uint8(0)
	for _, share := range v.shares {
		if w.Held {
			sum += share.held()
		} else {
			sum += share.granted
		}
	}
	if v.quota == 0 || sum >= v.limit {
		return false
	}
	g := grant{uint8(i), v.shares[i].granted + 1, v.shares[i].rev, v.quota}
	if w.Held {
		g.granted = v.shares[i].held() + 1
	}
	return s.addGrant(g) && spend(&s.granted, w.Grants)
}

func (w *world) inherit(s *state) bool {
	share := s.keeper.shares[0]
	if s.keeper.quota == 0 || share.granted <= share.used {
		return false
	}
	return s.addGrant(grant{0, share.used, share.rev, 0}) && spend(&s.deaths, w.Deaths)
}

func (w *world) arriveGrant(s *state, g *grant) bool {
	if g.share == 0 {
		return false
	}
	share := &s.store.shares[g.instance]
	if g.share == share.rev && (!w.Serial || g.quota == 0 || g.quota == s.store.quota) {
		s.store.rev++
		share.rev, share.granted = s.store.rev, g.granted
		if w.Serial && g.quota > 0 {
			s.store.quota = s.store.rev
		}
	}
	*g = grant{}
	return true
}

func (w *world) set(s *state) bool {
	if s.store.quota > 0 {
		return false
	}
	s.store.rev++
	s.store.limit, s.store.quota, s.store.created = uint8(w.Limit), s.store.rev, s.store.rev
	return true
}

func (w *world) lower(s *state) bool {
	if s.store.quota == 0 || s.store.limit == 0 {
		return false
	}
	s.store.rev++
	s.store.limit, s.store.quota = s.store.limit-1, s.store.rev
	if w.TakeBack {
		for i := range s.store.shares {
			s.store.shares[i].rev, s.store.shares[i].granted = s.store.rev, 0
		}
	}
	return spend(&s.lowerings, w.Lowerings)
}
