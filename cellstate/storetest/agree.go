package storetest

import (
	"math/rand/v2"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
)

// case10: what Validate says of random node states is what a commit does, all in one
// request; package cellstate has the 10^5 states of field case 10.
func case10(c *cell) {
	const count = 100
	rng := rand.New(rand.NewPCG(10, 10))
	states := make([]celltest.State, count)
	for i := range states {
		states[i] = celltest.RandomState(rng, i)
		for _, r := range states[i].Records { // one by one: limits of a request
			if r.Key != cellstate.NodeKey(states[i].Node) {
				c.Put(r)
				continue
			}
			c.Write(cellstate.NodeWrite(states[i].Node, nil, r))
		}
	}
	c.unruly = true // what was put there is over-committed in every way
	s := c.side()
	now := s.Snapshot()
	txns := make([]*cellstate.Txn, count)
	for i, st := range states {
		txns[i] = st.Txn(now)
	}
	results, err := s.Commit(c.ctx, txns...)
	if err != nil {
		c.Fatal(err)
	}
	after, fitted := c.Snapshot(), 0
	for i, txn := range txns {
		fit, conflicts := cellstate.Validate(now, txn)
		fitted += len(fit)
		var stands []int
		for k, claim := range txn.Claims {
			if row := after.Job(claim.Slot.JobName()).Task(claim.Slot); row != nil && row.Placement != nil {
				stands = append(stands, k)
			}
		}
		if !slices.Equal(stands, fit) || !slices.Equal(results[i].Committed, fit) || len(results[i].Conflicts) != len(conflicts) {
			c.Errorf("state %d: Validate says %v, %+v; the commit %v, %+v; the store has %v", i, fit, conflicts, results[i].Committed, results[i].Conflicts, stands)
		}
		for k := range min(len(conflicts), len(results[i].Conflicts)) {
			if got, want := results[i].Conflicts[k], conflicts[k]; got.Claim != want.Claim || got.Reason != want.Reason || got.Dimension != want.Dimension || got.Free != want.Free {
				c.Errorf("state %d: conflict %+v, want %+v", i, got, want)
			}
		}
	}
	if fitted < count/4 || fitted > 3*count {
		c.Errorf("%d claims fit in %d states", fitted, count)
	}
}
