package cellstate

import "slices"

// Evictable is a placement that a claim may evict, and what the claim may use in its place.
type Evictable struct {
	*Placement
	Frees Usage
}

// Evictable are the placements on a node that a claim of a precedence may evict, in no order:
// those of lower precedence of which nobody else awaits the end; whether equals give way is
// for a reclaim to say (see Reclaims). An heir that has not started
// gives way with what it was given: its own victims are then the claim's (L5).
func (s *Snapshot) Evictable(n *Node, precedence int) []Evictable {
	var out []Evictable
	all := n.Unsorted()
	for _, p := range all {
		if int(p.GetPrecedence()) >= precedence || p.GetEvictedBy() != "" {
			continue
		}
		e := Evictable{Placement: p}
		e.Frees.add(p.GetResources(), p.GetGpus())
		e.Frees.addPorts(p.Slot, p.GetPorts())
		if len(p.GetVictims()) > 0 && !s.started(p) {
			if slices.ContainsFunc(all, func(o *Placement) bool { return o != p && o.GetTxn() == p.GetTxn() }) {
				continue // it cannot go without the others of its transaction
			}
			e.Frees = *charge(append(victimsOf(all, p.GetTxn()), p))
		}
		out = append(out, e)
	}
	return out
}

// victimsOf are the placements that end for a transaction.
func victimsOf(all []*Placement, txn string) (victims []*Placement) {
	for _, p := range all {
		if p.GetEvictedBy() == txn {
			victims = append(victims, p)
		}
	}
	return victims
}
