package storetest

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
)

// L2: a slot has at most one live placement; an attempt number is used once. The late
// claims go to a node of which no fence has moved, so that only the slot's range can
// refuse them.
func slotLaws() []law {
	setup := func(c *cell) cellstate.Slot {
		c.Node(celltest.Node{Name: "n1"})
		c.Node(celltest.Node{Name: "n2"})
		c.Job(celltest.Job{Name: "a", CPU: 100})
		return slot(c.Snapshot(), "a", 0)
	}
	again := func(c *cell, s cellstate.Slot) {
		c.Place("a", 0, "n1")
		c.Release(s, task.Failed)
	}
	return []law{
		{"L2/one slot claimed on two nodes", func(c *cell) {
			s := setup(c)
			var won *cellstate.Placement
			r, side := c.late(one("a", 0, "n2"), func() { won = c.Place("a", 0, "n1") })
			c.refusedOnce(side)
			got := c.lost(r, cellstate.ReasonSlotTaken)
			if got.Winner == nil || got.Winner.GetTxn() != won.GetTxn() {
				c.Errorf("winner %v, want %s", got.Winner, won.GetTxn())
			}
			if p := c.live(s); p.GetNode() != "n1" {
				c.Errorf("the live placement is on %s", p.GetNode())
			}
		}},
		{"L2/an attempt that was used and has ended", func(c *cell) {
			s := setup(c)
			r, side := c.late(one("a", 0, "n2"), func() { again(c, s) })
			c.refusedOnce(side)
			if got := c.lost(r, cellstate.ReasonSlotTaken); got.Dimension != "attempt" || got.Free != "2" {
				c.Errorf("conflict %+v, want the next attempt, 2", got)
			}
			if p := c.live(s); p != nil {
				c.Errorf("a placement of attempt %d is live", p.GetAttempt())
			}
		}},
		{"L2/an attempt below one that retention has kept", func(c *cell) {
			s := setup(c)
			r, side := c.late(one("a", 0, "n2"), func() {
				again(c, s)
				again(c, s)
				first := c.Snapshot().Job(s.JobName()).Task(s).Ended[0]
				c.Put(cellstate.Record{Key: s.EndedKey(1), Read: first.Revision})
			})
			c.refusedOnce(side)
			c.lost(r, cellstate.ReasonSlotTaken)
			next := c.side()
			c.committed(c.commit(next, one("a", 0, "n2")(next.Snapshot())))
			if p := c.live(s); p.GetAttempt() != 3 {
				c.Errorf("attempt %d is live, want 3", p.GetAttempt())
			}
		}},
		{"L2/another version is another slot", func(c *cell) {
			setup(c)
			before := c.Place("a", 0, "n1")
			c.Job(celltest.Job{Name: "a", CPU: 200})
			after := c.Place("a", 0, "n2")
			if c.live(before.Slot) == nil || after.Slot.Version != before.Slot.Version+1 || after.GetAttempt() != 1 {
				c.Errorf("before %v, after %v", before, after)
			}
		}},
		{"L2/a slot twice in one transaction", func(c *cell) {
			setup(c)
			side := c.side()
			now := side.Snapshot()
			r := c.commit(side, celltest.Txn(now, cellstate.Incremental, claim(now, "a", 0, "n1"), claim(now, "a", 0, "n2")))
			if len(r.Committed) != 1 || len(r.Conflicts) != 1 || r.Conflicts[0].Reason != cellstate.ReasonMalformed {
				c.Errorf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
		}},
	}
}
