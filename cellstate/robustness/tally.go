package robustness

import (
	"github.com/ohmcell/ohm/cellstate"
)

// tally counts what becomes of quotas and holds.
type tally struct {
	Moved  int // puts of a share that grant another amount
	Bound  int // times that a quota came to be used up
	Placed int // holds on a node
	Ended  int
}

// see takes in a batch between two states.
func (t *tally) see(before, after *cellstate.Snapshot, b cellstate.Batch) {
	for _, c := range b.Changes {
		switch k := c.Key.Parse(); {
		case k.Kind == cellstate.KindHold && c.Deleted:
			t.Ended++
		case k.Kind == cellstate.KindHold:
			t.Placed++
		case k.Kind == cellstate.KindShare && granted(before, k) != granted(after, k):
			t.Moved++
		}
	}
	for q := range after.Quotas() {
		if usedUp(q) && !usedUp(before.Quota(q.Scope)) {
			t.Bound++
		}
	}
}

// granted is what the owner of a share may use.
func granted(s *cellstate.Snapshot, k cellstate.Parsed) cellstate.Amounts {
	q := s.Quota(k.Scope)
	if q == nil {
		return cellstate.Amounts{}
	}
	return q.Share(k.Spender).Granted()
}

func usedUp(q *cellstate.Quota) bool {
	if q == nil || q.Record == nil {
		return false
	}
	used := q.Used()
	for d, limit := range q.Limit() {
		if limit != cellstate.Unlimited && used[d] >= limit {
			return true
		}
	}
	return false
}
