package storetest

import (
	"fmt"
	"sync"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
)

// L3: atomic is all or nothing at every revision; incremental commits what fits.
func modeLaws() []law {
	setup := func(c *cell, gangs ...string) {
		for i := 1; i <= 3; i++ {
			c.Node(celltest.Node{Name: fmt.Sprint("n", i), CPU: 2000})
		}
		for _, g := range gangs {
			c.Job(celltest.Job{Name: g, Kind: "ml", Gang: true, Count: 3, CPU: 2000})
		}
		c.Job(celltest.Job{Name: "one", CPU: 1000})
	}
	txn := func(job string, mode cellstate.Mode) func(*cellstate.Snapshot) *cellstate.Txn {
		return func(s *cellstate.Snapshot) *cellstate.Txn {
			return celltest.Txn(s, mode, claim(s, job, 0, "n1"), claim(s, job, 1, "n2"), claim(s, job, 2, "n3"))
		}
	}
	return []law{
		{"L3/more claims for one node than a write may hold all commit", func(c *cell) {
			c.Node(celltest.Node{Name: "n1", CPU: 200_000})
			c.Job(celltest.Job{Name: "a", Count: 150, CPU: 1000})
			s := c.side()
			now := s.Snapshot()
			var claims []cellstate.Claim
			for i := range 150 {
				claims = append(claims, claim(now, "a", i, "n1"))
			}
			c.committed(c.commit(s, celltest.Txn(now, cellstate.Incremental, claims...)))
			if n := len(c.Snapshot().Node("n1").Placements()); n != 150 {
				c.Errorf("%d placements of 150", n)
			}
		}},
		{"L3/a gang that fits commits at one revision", func(c *cell) {
			setup(c, "g")
			s := c.side()
			r := c.committed(c.commit(s, txn("g", cellstate.Atomic)(s.Snapshot())))
			c.whole(r.Revision, r.Txn)
		}},
		{"L3/a gang of which one node lost the race commits nothing", func(c *cell) {
			setup(c, "g")
			r, s := c.late(txn("g", cellstate.Atomic), func() { c.Place("one", 0, "n2") })
			c.refusedOnce(s)
			got := c.lost(r, cellstate.ReasonResources)
			if got.Claim != 1 || got.Winner.GetSlot().GetJob() != "one" {
				c.Errorf("conflict of claim %d, winner %v", got.Claim, got.Winner)
			}
			c.whole(c.present(), r.Txn)
			if j := c.Snapshot().Job(celltest.Name("g")); len(j.Tasks) > 0 {
				c.Errorf("%d tasks of the gang are stored", len(j.Tasks))
			}
		}},
		{"L3/an incremental transaction keeps what fits", func(c *cell) {
			setup(c, "g")
			r, s := c.late(txn("g", cellstate.Incremental), func() { c.Place("one", 0, "n2") })
			c.refusedOnce(s)
			if fmt.Sprint(r.Committed) != "[0 2]" || len(r.Conflicts) != 1 || r.Conflicts[0].Claim != 1 {
				c.Errorf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
		}},
		{"L3/of two gangs for the same nodes one commits whole", func(c *cell) {
			setup(c, "g", "h")
			a, b := c.side(), c.side()
			now := c.sync(a, b)
			txns := []*cellstate.Txn{txn("g", cellstate.Atomic)(now), txn("h", cellstate.Atomic)(now)}
			results := make([]cellstate.Result, 2)
			errs := make([]error, 2)
			var both sync.WaitGroup
			for i, s := range []*side{a, b} {
				both.Go(func() {
					r, err := s.Commit(c.ctx, txns[i])
					results[i], errs[i] = r[0], err
				})
			}
			both.Wait()
			if errs[0] != nil || errs[1] != nil {
				c.Fatal(errs)
			}
			if len(results[0].Committed)+len(results[1].Committed) != 3 || len(results[0].Committed)%3 != 0 {
				c.Errorf("committed %v and %v", results[0].Committed, results[1].Committed)
			}
			c.whole(c.present(), txns...)
		}},
		{"L3/two gangs in one call for the same node both commit", func(c *cell) {
			setup(c)
			c.Job(celltest.Job{Name: "g", Kind: "ml", Gang: true, Count: 2, CPU: 500})
			c.Job(celltest.Job{Name: "h", Kind: "ml", Gang: true, Count: 2, CPU: 500})
			s := c.side()
			now := s.Snapshot()
			g := celltest.Txn(now, cellstate.Atomic, claim(now, "g", 0, "n1"), claim(now, "g", 1, "n2"))
			h := celltest.Txn(now, cellstate.Atomic, claim(now, "h", 0, "n2"), claim(now, "h", 1, "n3"))
			results, err := s.Commit(c.ctx, g, h)
			if err != nil {
				c.Fatal(err)
			}
			c.committed(results[0])
			c.committed(results[1])
			c.whole(c.present(), g, h)
		}},
	}
}

// whole asserts that no revision up to one shows a part of an atomic transaction.
func (c *cell) whole(upTo cellstate.Revision, txns ...*cellstate.Txn) {
	c.Helper()
	c.replay(upTo, func(s *cellstate.Snapshot) {
		for _, txn := range txns {
			placed := 0
			for n := range s.Nodes() {
				for _, p := range n.Placements() {
					if p.TxnID() == txn.ID {
						placed++
					}
				}
			}
			if placed != 0 && placed != len(txn.Claims) {
				c.Errorf("revision %d shows %d of %d claims of %s", s.Revision(), placed, len(txn.Claims), txn.ID)
			}
		}
	})
}
