package storetest

import (
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// array is a job of ten tasks, of which so many may be live at a time, and three nodes.
func array(c *cell, most int) {
	c.Helper()
	c.Job(celltest.Job{Name: "a", Count: 10, CPU: 100, MaxParallel: most})
	for i := range 3 {
		c.Node(celltest.Node{Name: fmt.Sprint("n", i+1), CPU: 4000})
	}
}

// L9: no commit makes more tasks of a job live than it allows, wherever they are.
func parallelLaws() []law {
	return []law{
		{"L9/two commits at once, on two nodes, take one place", func(c *cell) {
			array(c, 2)
			c.Place("a", 0, "n1")
			first := c.side()
			var winner cellstate.Result
			r, s := c.late(one("a", 2, "n2"), func() { winner = c.committed(c.commit(first, one("a", 1, "n3")(first.Snapshot()))) })
			c.refusedOnce(s)
			lost := c.lost(r, cellstate.ReasonParallel)
			if lost.Winner == nil || lost.Winner.GetTxn() != string(winner.Txn.ID) {
				c.Errorf("winner %v, want that of %s", lost.Winner, winner.Txn.ID)
			}
		}},
		{"L9/of one transaction as many fit as there are places", func(c *cell) {
			array(c, 3)
			c.Place("a", 0, "n1")
			s := c.side()
			txn := one("a", 1, "n1")(s.Snapshot())
			txn.Claims = append(txn.Claims, claim(s.Snapshot(), "a", 2, "n2"), claim(s.Snapshot(), "a", 3, "n3"))
			r := c.commit(s, txn)
			if len(r.Committed) != 2 || len(r.Conflicts) != 1 || r.Conflicts[0].Reason != cellstate.ReasonParallel {
				c.Errorf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
		}},
		{"L9/an atomic transaction that loses has taken no place", func(c *cell) {
			array(c, 2)
			s := c.side()
			all := one("a", 1, "n1")(s.Snapshot())
			all.Mode = cellstate.Atomic
			all.Claims = append(all.Claims, claim(s.Snapshot(), "a", 2, "n2"), claim(s.Snapshot(), "a", 3, "n3"))
			some := one("a", 4, "n1")(s.Snapshot())
			some.Claims = append(some.Claims, claim(s.Snapshot(), "a", 5, "n2"))
			r, err := s.Commit(c.ctx, all, some)
			if err != nil {
				c.Fatal(err)
			}
			c.lost(r[0], cellstate.ReasonParallel)
			if len(r[1].Committed) != 2 {
				c.Errorf("committed %v, conflicts %+v", r[1].Committed, r[1].Conflicts)
			}
		}},
		{"L9/a place is free once a task has been released, and not before", func(c *cell) {
			array(c, 1)
			p := c.Place("a", 0, "n1")
			s := c.side()
			c.Status(p.Slot, task.Stopping)
			c.lost(c.commit(s, one("a", 1, "n2")(c.sync(s))), cellstate.ReasonParallel)
			c.Release(p.Slot, task.Succeeded)
			c.committed(c.commit(s, one("a", 1, "n2")(c.sync(s))))
		}},
		{"L9/a limit that was lowered meanwhile", func(c *cell) {
			array(c, 2)
			c.Place("a", 0, "n1")
			r, _ := c.late(one("a", 1, "n2"), func() {
				c.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Spec.MaxParallel = 1 })
			})
			c.lost(r, cellstate.ReasonJobChanged)
			s := c.side()
			c.lost(c.commit(s, one("a", 1, "n2")(s.Snapshot())), cellstate.ReasonParallel)
		}},
	}
}
