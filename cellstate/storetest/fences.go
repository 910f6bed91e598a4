package storetest

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// The fence chain: a mirror that follows events knows the same fences as a fresh load,
// and notices when it has missed one.
func fenceLaws() []law {
	busy := func(c *cell) {
		c.Node(celltest.Node{Name: "n1"})
		c.Node(celltest.Node{Name: "n2"})
		c.Job(celltest.Job{Name: "a", Count: 4, CPU: 100})
		c.Job(celltest.Job{Name: "b", Count: 2, CPU: 3900, Precedence: celltest.Production})
	}
	return []law{
		{"fences/a mirror that follows knows what a load knows", func(c *cell) {
			s := c.side()
			busy(c)
			p := c.Place("a", 0, "n1")
			c.Intent(&ohmv1.Intent{Node: "n2", Labels: map[string]string{"zone": "z1"}})
			c.Hold(&ohmv1.Hold{Node: "n2", Txn: "starving", Resources: &ohmv1.Resources{CpuMilli: 100}})
			now := c.Snapshot()
			c.Commit(now, celltest.Txn(now, cellstate.Incremental, claim(now, "a", 1, "n1"), claim(now, "a", 2, "n1"), claim(now, "a", 3, "n2")))
			c.Node(celltest.Node{Name: "n1", CPU: 5000})
			c.Release(p.Slot, task.Succeeded)
			c.sameFences(s)
			if n := s.Loads(); n != 1 {
				c.Errorf("the mirror loaded %d times", n)
			}
		}},
		{"fences/an eviction counts the victims' records", func(c *cell) {
			s := c.side()
			victim := evictable(c)
			c.evict("mid", victim)
			c.sameFences(s)
			if n := s.Loads(); n != 1 {
				c.Errorf("the mirror loaded %d times", n)
			}
		}},
		{"fences/an event that was lost whole is noticed at the next one", func(c *cell) {
			busy(c)
			s := c.side()
			s.link.loses(func(ch cellstate.Change) bool { return ch.Key.Parse().Kind == cellstate.KindPlacement })
			c.Place("a", 0, "n1")
			c.sync(s)
			if n := s.Snapshot().Node("n1"); n.Count() > 0 || s.Loads() != 1 {
				c.Fatalf("the event was not lost: %v", n.Placements())
			}
			s.link.loses(nil)
			c.Place("a", 1, "n1")
			c.eventually("the mirror has loaded again", func() bool { return s.Loads() == 2 })
			c.sameFences(s)
			if n := s.Snapshot().Node("n1"); n.Count() != 2 {
				c.Errorf("the mirror shows %v", n.Placements())
			}
		}},
		{"fences/an event of which a part was lost is noticed at once", func(c *cell) {
			busy(c)
			s := c.side()
			s.link.loses(func(ch cellstate.Change) bool { return ch.Key.Parse().Slot.Index == 1 })
			now := c.Snapshot()
			c.Commit(now, celltest.Txn(now, cellstate.Incremental, claim(now, "a", 0, "n1"), claim(now, "a", 1, "n1")))
			c.eventually("the mirror has loaded again", func() bool { return s.Loads() == 2 })
			c.sameFences(s)
		}},
		{"fences/a commit on a snapshot that missed an event takes no room twice", func(c *cell) {
			busy(c)
			s := c.side()
			s.link.loses(func(ch cellstate.Change) bool { return ch.Key.Parse().Kind == cellstate.KindPlacement })
			c.Place("b", 0, "n1")
			c.sync(s)
			r := c.commit(s, one("b", 1, "n1")(s.Snapshot()))
			if len(r.Committed) > 0 {
				c.Errorf("committed %v", r)
			}
			if n := c.Snapshot().Node("n1"); n.Count() != 1 {
				c.Errorf("the node has %v", n.Placements())
			}
			c.refusedOnce(s)
			c.eventually("the mirror has loaded again", func() bool { return s.Loads() > 1 })
		}},
		{"fences/a node that goes and comes back", func(c *cell) {
			busy(c)
			s := c.side()
			c.Put(cellstate.Record{Key: cellstate.NodeKey("n1"), Read: c.Snapshot().Node("n1").FactsRevision})
			c.sync(s)
			c.lost(c.commit(s, one("a", 0, "n1")(s.Snapshot())), cellstate.ReasonNodeGone)
			n := s.Snapshot().Node("n1")
			c.Write(cellstate.NodeWrite("n1", n, cellstate.Record{Key: cellstate.NodeKey("n1"), Value: celltest.Node{Name: "n1"}.Proto()}))
			c.sameFences(s)
			c.committed(c.commit(s, one("a", 0, "n1")(s.Snapshot())))
		}},
		{"a store that was restored is loaded again", func(c *cell) {
			busy(c)
			s := c.side()
			_, read := c.Snapshot().Meta("incarnation")
			c.Put(cellstate.Record{Key: cellstate.MetaKey("incarnation"), Value: &ohmv1.Meta{Value: "another"}, Read: read})
			c.eventually("the mirror has loaded again", func() bool { return s.Loads() == 2 })
			if got := s.Snapshot().Incarnation(); got != "another" {
				c.Errorf("incarnation %q", got)
			}
			c.committed(c.commit(s, one("a", 0, "n1")(c.sync(s))))
		}},
	}
}

// sameFences asserts that a mirror and a load agree on every node's fence.
func (c *cell) sameFences(s *side) {
	c.Helper()
	seen, stored := c.sync(s), c.Snapshot()
	for n := range stored.Nodes() {
		if got := seen.Node(n.Name); got == nil || got.Fence != n.Fence || n.Fence == 0 {
			c.Errorf("node %s: the mirror knows %v, the store fence %d", n.Name, got, n.Fence)
		}
	}
}
