package storetest

import (
	"fmt"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Holds: room that is kept for a transaction which keeps losing.
func holdLaws() []law {
	// cores is a cell of two nodes of 4 cores, jobs of two tasks of 3, of which the third is
	// more important, and one of tasks of 1.
	cores := func(c *cell) {
		c.Node(celltest.Node{Name: "n1"})
		c.Node(celltest.Node{Name: "n2"})
		c.Job(celltest.Job{Name: "a", Count: 2, CPU: 3000, Precedence: celltest.BatchLevel})
		c.Job(celltest.Job{Name: "b", Count: 2, CPU: 3000, Precedence: celltest.BatchLevel})
		c.Job(celltest.Job{Name: "high", Count: 2, CPU: 3000, Precedence: celltest.BatchLevel + 1})
		c.Job(celltest.Job{Name: "small", Count: 2, CPU: 1000, Precedence: celltest.BatchLevel})
	}
	gang := func(s *cellstate.Snapshot, job string) *cellstate.Txn {
		return celltest.Txn(s, cellstate.Atomic, claim(s, job, 0, "n1"), claim(s, job, 1, "n2"))
	}
	return []law{
		{"holds/one is charged to others", func(c *cell) {
			cores(c)
			s := c.side()
			owner := one("a", 0, "n1")(s.Snapshot())
			other := one("b", 0, "n1")(s.Snapshot())
			at := c.hold(owner, 0)
			c.sync(s)
			lost := c.lost(c.commit(s, other), cellstate.ReasonHold)
			if lost.Dimension != "cpu" || lost.Wanted != "3" || lost.Free != "1" {
				c.Errorf("conflict %+v", lost)
			}
			if w := lost.Winner; w == nil || w.TxnID() != owner.ID || w.Revision != at || w.Slot != owner.Claims[0].Slot {
				c.Errorf("winner %+v, want the hold of %s at %d", w, owner.ID, at)
			}
			c.committed(c.commit(s, one("small", 0, "n1")(c.sync(s)))) // beside it there is room
			c.committed(c.commit(s, one("b", 0, "n2")(c.sync(s))))
		}},
		{"holds/one is not charged to strictly higher precedence", func(c *cell) {
			cores(c)
			s := c.side()
			c.hold(one("a", 0, "n1")(s.Snapshot()), 0)
			c.committed(c.commit(s, one("high", 0, "n1")(c.sync(s))))
		}},
		{"holds/one ends with its owner's commit, in the same revision", func(c *cell) {
			cores(c)
			s := c.side()
			owner := one("a", 0, "n1")(s.Snapshot())
			c.hold(owner, 0)
			c.sync(s)
			r := c.committed(c.commit(s, owner))
			c.replay(r.Revision, func(at *cellstate.Snapshot) {
				n := at.Node("n1")
				if at.Revision() == r.Revision && (len(n.Holds) > 0 || len(n.Placements()) != 1) {
					c.Errorf("after the commit: holds %v, placements %v", n.Holds, n.Placements())
				}
			})
			c.sameFences(s)
			c.Release(slot(c.Snapshot(), "a", 0), task.Succeeded)
			c.committed(c.commit(s, one("b", 0, "n1")(c.sync(s))))
		}},
		{"holds/those of a gang end with its commit", func(c *cell) {
			cores(c)
			s := c.side()
			owner := gang(s.Snapshot(), "a")
			c.hold(owner, 0)
			c.sync(s)
			c.committed(c.commit(s, owner))
			for n := range c.Snapshot().Nodes() {
				if len(n.Holds) > 0 {
					c.Errorf("node %s has %v", n.Name, n.Holds)
				}
			}
		}},
		{"holds/a claim decided before one was placed is refused", func(c *cell) {
			cores(c)
			r, s := c.late(one("b", 0, "n1"), func() { c.hold(one("a", 0, "n1")(c.Snapshot()), 0) })
			c.lost(r, cellstate.ReasonHold)
			c.refusedOnce(s)
		}},
		{"holds/one that is placed late takes no room that is gone", func(c *cell) {
			cores(c)
			w, conflicts := cellstate.PlanHold(c.Snapshot(), time.Now(), one("a", 0, "n1")(c.Snapshot()), 0)
			if len(conflicts) > 0 {
				c.Fatalf("conflicts %v", conflicts)
			}
			c.Place("b", 0, "n1")
			c.refuses(w)
			if _, conflicts = cellstate.PlanHold(c.Snapshot(), time.Now(), one("a", 0, "n1")(c.Snapshot()), 0); len(conflicts) != 1 || conflicts[0].Reason != cellstate.ReasonResources {
				c.Errorf("without room: conflicts %+v", conflicts)
			}
		}},
		{"holds/those of a gang stand all or not at all", func(c *cell) {
			cores(c)
			before := c.Snapshot()
			w, _ := cellstate.PlanHold(before, time.Now(), gang(before, "a"), 0)
			c.Place("small", 0, "n2") // it bumps the fence of one of them
			c.refuses(w)
			if n := c.Snapshot().Node("n1"); len(n.Holds) > 0 {
				c.Errorf("a half of a gang holds %v", n.Holds)
			}
			c.hold(gang(c.Snapshot(), "a"), 0)
			for n := range c.Snapshot().Nodes() {
				if len(n.Holds) != 1 {
					c.Errorf("node %s has holds %v", n.Name, n.Holds)
				}
			}
		}},
		{"holds/those of the largest gang that may have some stand and end with it", func(c *cell) {
			n := min(c.store.Limits().Held(), c.store.Limits().Nodes, 150)
			c.Job(celltest.Job{Name: "a", Count: n, CPU: 3000})
			var claims []cellstate.Claim
			for i := range n {
				name := fmt.Sprintf("n%d", i)
				c.Node(celltest.Node{Name: name})
				claims = append(claims, claim(c.Snapshot(), "a", i, cellstate.NodeName(name)))
			}
			s := c.side()
			owner := celltest.Txn(s.Snapshot(), cellstate.Atomic, claims...)
			c.hold(owner, 0)
			c.sync(s)
			c.committed(c.commit(s, owner))
			for n := range c.Snapshot().Nodes() {
				if len(n.Holds) > 0 || len(n.Placements()) != 1 {
					c.Errorf("node %s has holds %v, placements %v", n.Name, n.Holds, n.Placements())
				}
			}
		}},
		{"holds/none is placed for a job that was stopped meanwhile", func(c *cell) {
			cores(c)
			w, _ := cellstate.PlanHold(c.Snapshot(), time.Now(), one("a", 0, "n1")(c.Snapshot()), 0)
			c.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Stopped = true })
			c.refuses(w)
		}},
	}
}

// Holds whose owner is gone.
func leasedHoldLaws() []law {
	held := func(c *cell) (*side, *cellstate.Txn, func()) {
		c.Node(celltest.Node{Name: "n1"})
		c.Job(celltest.Job{Name: "a", CPU: 3000})
		c.Job(celltest.Job{Name: "b", CPU: 3000})
		leaser := c.store.(cellstate.Leaser)
		lease, err := leaser.Grant(c.ctx, time.Minute)
		if err != nil {
			c.Fatal(err)
		}
		s := c.side()
		owner := one("a", 0, "n1")(s.Snapshot())
		c.hold(owner, lease)
		c.sync(s)
		return s, owner, func() {
			if err := leaser.Revoke(c.ctx, lease); err != nil {
				c.Fatal(err)
			}
		}
	}
	return []law{
		{"holds/one ends with its lease", func(c *cell) {
			s, _, end := held(c)
			c.lost(c.commit(s, one("b", 0, "n1")(s.Snapshot())), cellstate.ReasonHold)
			end()
			c.committed(c.commit(s, one("b", 0, "n1")(c.sync(s))))
		}},
		{"holds/its owner may commit after its end, if nobody took the room", func(c *cell) {
			s, owner, end := held(c)
			s.link.hold() // it still sees the hold
			end()
			c.committed(c.commit(s, owner))
		}},
		{"holds/after its end its owner has no right to the room", func(c *cell) {
			s, owner, end := held(c)
			s.link.hold()
			end()
			c.Place("b", 0, "n1")
			c.lost(c.commit(s, owner), cellstate.ReasonResources)
			c.refusedOnce(s)
		}},
	}
}

// hold places the holds of a transaction.
func (c *cell) hold(txn *cellstate.Txn, l cellstate.Lease) cellstate.Revision {
	c.Helper()
	w, conflicts := cellstate.PlanHold(c.Snapshot(), time.Now(), txn, l)
	if len(conflicts) > 0 {
		c.Fatalf("no hold: %+v", conflicts)
	}
	return c.Write(w)
}
