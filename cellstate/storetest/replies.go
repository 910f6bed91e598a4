package storetest

import (
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
)

// L6: a request whose reply was lost is never applied twice; its fate can be learnt.
func replyLaws() []law {
	setup := func(c *cell) {
		c.Node(celltest.Node{Name: "n1"})
		c.Node(celltest.Node{Name: "n2"})
		c.Job(celltest.Job{Name: "a", CPU: 100})
		c.Job(celltest.Job{Name: "g", Kind: "ml", Gang: true, Count: 2, CPU: 100})
	}
	gang := func(s *cellstate.Snapshot) *cellstate.Txn {
		return celltest.Txn(s, cellstate.Atomic, claim(s, "g", 0, "n1"), claim(s, "g", 1, "n2"))
	}
	// lose commits a transaction whose reply is lost.
	lose := func(c *cell, s *side, txn *cellstate.Txn) {
		s.link.dropReply()
		_, err := s.Commit(c.ctx, txn)
		c.is(err, cellstate.ErrUnknown)
	}
	return []law{
		{"L6/a lost reply: the same transaction again is the same commit", func(c *cell) {
			setup(c)
			s := c.side()
			txn := one("a", 0, "n1")(s.Snapshot())
			lose(c, s, txn)
			placed := c.live(txn.Claims[0].Slot)
			r := c.committed(c.commit(s, txn))
			if r.Revision != placed.Revision {
				c.Errorf("committed at %d, the placement says %d", r.Revision, placed.Revision)
			}
			c.putOnce(txn)
		}},
		{"L6/a lost reply of a gang", func(c *cell) {
			setup(c)
			s := c.side()
			txn := gang(s.Snapshot())
			lose(c, s, txn)
			c.committed(c.commit(s, txn))
			c.putOnce(txn)
		}},
		{"L6/a lost reply, asked after when the attempt has ended", func(c *cell) {
			setup(c)
			s := c.side()
			txn := one("a", 0, "n1")(s.Snapshot())
			lose(c, s, txn)
			placed := c.live(txn.Claims[0].Slot)
			c.Release(placed.Slot, task.Succeeded)
			c.sync(s)
			if r := c.committed(c.commit(s, txn)); r.Revision != placed.Revision {
				c.Errorf("committed at %d, the placement stood at %d", r.Revision, placed.Revision)
			}
			c.putOnce(txn)
		}},
		{"L6/a request that arrives twice applies once", func(c *cell) {
			setup(c)
			now := c.Snapshot()
			plan := cellstate.MakePlan(now, time.Now(), 1000, []*cellstate.Txn{one("a", 0, "n1")(now)}, func(cellstate.ClaimRef) bool { return false })
			c.Write(plan.Writes[0])
			c.refuses(plan.Writes[0])
			c.Release(slot(now, "a", 0), task.Failed)
			c.refuses(plan.Writes[0])
			if n := c.Snapshot().Node("n1"); n.Count() != 0 {
				c.Errorf("placed again: %v", n.Placements())
			}
		}},
	}
}

// dropperLaws are about a store that itself loses its reply.
func dropperLaws() []law {
	return []law{{"L6/the store's own reply is lost", func(c *cell) {
		c.Node(celltest.Node{Name: "n1"})
		c.Job(celltest.Job{Name: "a", CPU: 100})
		s := c.side()
		txn := one("a", 0, "n1")(s.Snapshot())
		c.store.(ReplyDropper).DropReply()
		if _, err := s.Commit(c.ctx, txn); err != nil {
			c.is(err, cellstate.ErrUnknown)
		}
		c.committed(c.commit(s, txn))
		c.putOnce(txn)
	}}}
}

// putOnce asserts that history shows each claim of the transaction put once.
func (c *cell) putOnce(txn *cellstate.Txn) {
	c.Helper()
	puts := map[cellstate.Key]int{}
	for _, ch := range c.changes(c.start.Revision(), c.present()) {
		if ch.Key.Parse().Kind == cellstate.KindPlacement && !ch.Deleted {
			puts[ch.Key]++
		}
	}
	for _, cl := range txn.Claims {
		if n := puts[cl.Slot.PlacementKey()]; n != 1 {
			c.Errorf("%s was put %d times", cl.Slot, n)
		}
	}
}
