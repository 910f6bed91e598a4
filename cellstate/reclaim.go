package cellstate

// A claim may evict equals of its own precedence where namespaces share the cell by weights,
// and then only to take back what is due to its namespace:
//
//   - its namespace, with the claim, is within its due; of a gang, with all of it;
//   - each victim is of another namespace, and that would be beyond its due with any one of
//     the victims left to it.
//
// So no victim could evict back: with it its namespace would be beyond its due again. And what a
// namespace has within its due nobody takes from it but by precedence. All of it is judged on
// the snapshot of the commit, where what two reclaims take from one namespace, or for one, are
// kept apart by a scope fence.

// reclaimScope is the scope of reclaims from a namespace, or for one. No rule has an id of two parts.
func reclaimScope(namespace string) string { return "reclaim/" + namespace }

// equals are the victims of a claim that have its own precedence, as the snapshot has them.
func (v *validator) equals(c *Claim) (equals []*Placement) {
	if len(c.Victims) == 0 || v.snapshot == nil {
		return nil
	}
	for _, victim := range c.Victims {
		slot := SlotOf(victim.GetSlot())
		if t := v.snapshot.Job(slot.JobName()).Task(slot); t != nil && t.Placement != nil &&
			t.Placement.GetTxn() == victim.GetTxn() && int(t.Placement.GetPrecedence()) == c.Precedence {
			equals = append(equals, t.Placement)
		}
	}
	return equals
}

// reclaimed are the scopes of a claim that evicts equals.
func (v *validator) reclaimed(c *Claim) (scopes []string) {
	for _, p := range v.equals(c) {
		if len(scopes) == 0 {
			scopes = append(scopes, reclaimScope(c.Slot.Namespace))
		}
		name := reclaimScope(p.Slot.Namespace)
		known := false
		for _, s := range scopes {
			known = known || s == name
		}
		if !known {
			scopes = append(scopes, name)
		}
	}
	return scopes
}

// judgeReclaim judges the equals that a claim evicts for the first time.
func (v *validator) judgeReclaim(txn *Txn, i int, e *eviction) *Conflict {
	c := &txn.Claims[i]
	if e == nil {
		return nil
	}
	var equals []*Placement
	for _, p := range e.victims() {
		if int(p.GetPrecedence()) == c.Precedence {
			equals = append(equals, p)
		}
	}
	if len(equals) == 0 {
		return nil
	}
	wants := c.Amounts()
	if txn.Mode == Atomic {
		for j := i + 1; j < len(txn.Claims); j++ {
			if o := &txn.Claims[j]; o.Slot.Namespace == c.Slot.Namespace {
				wants = wants.Plus(o.Amounts())
			}
		}
	}
	var f *Fair
	if v.snapshot != nil { // by a node's row alone nobody can tell
		f = v.snapshot.Fair()
	}
	if f.Reclaims(c.Slot.Namespace, v.beyond[c.Slot.Namespace].Plus(wants), e.victims(), equals, v.beyond) {
		return nil
	}
	refused := higher(equals[0], c)
	refused.Claim = i
	return refused
}

// victims are those that nobody has evicted before.
func (e *eviction) victims() (victims []*Placement) {
	if e == nil {
		return nil
	}
	for _, list := range [][]*Placement{e.marked, e.released} {
		for _, p := range list {
			if p.GetEvictedBy() == "" {
				victims = append(victims, p)
			}
		}
	}
	return victims
}

// Reclaims says whether a namespace that will hold so much beyond what the snapshot shows may
// evict equals, who are among all the victims; beyond is what others hold. f may be nil.
func (f *Fair) Reclaims(namespace string, holds Amounts, victims, equals []*Placement, beyond map[string]Amounts) bool {
	if f == nil || !f.Within(namespace, holds) {
		return false
	}
	var left map[string]Amounts // beyond, without the victims
	for _, p := range victims {
		name := p.Slot.Namespace
		if left == nil {
			left = map[string]Amounts{}
		}
		if _, known := left[name]; !known {
			left[name] = beyond[name]
		}
		left[name] = left[name].Minus(p.Amounts())
	}
	for _, p := range equals {
		name := p.Slot.Namespace
		if name == namespace || f.Within(name, left[name].Plus(p.Amounts())) {
			return false
		}
	}
	return true
}

// Amounts are what the placement holds.
func (p *Placement) Amounts() Amounts { return amountsOf(p.GetResources(), p.GetGpus()) }

// hold notes what an accepted claim and its victims change of what namespaces hold.
func (v *validator) hold(c *Claim, e *eviction, times int64) {
	if v.snapshot == nil || v.snapshot.fair == nil {
		return
	}
	if v.beyond == nil {
		v.beyond = map[string]Amounts{}
	}
	v.beyond[c.Slot.Namespace] = v.beyond[c.Slot.Namespace].times(c.Amounts(), times)
	for _, p := range e.victims() {
		v.beyond[p.Slot.Namespace] = v.beyond[p.Slot.Namespace].times(p.Amounts(), -times)
	}
}
