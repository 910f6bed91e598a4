package storetest

import (
	"maps"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// zones writes nodes a1, a2 in zone a and b1, b2 in zone b.
func (c *cell) zones() {
	c.Helper()
	for _, name := range []string{"a1", "a2", "b1", "b2"} {
		c.Node(celltest.Node{Name: name, Attributes: map[string]string{"zone": name[:1]}})
		c.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(name)), Value: &ohmv1.Alive{Node: name}})
	}
}

func near(within string, to *ohmv1.Selector) []*ohmv1.Affinity {
	return []*ohmv1.Affinity{{To: to, Within: within, Required: true}}
}

// L7: no commit adds a task against a required rule between tasks, within a node or wider.
func ruleLaws() []law {
	app := map[string]string{"app": "db"}
	apart := near("zone", &ohmv1.Selector{Labels: app})
	// race places one of two after the other has been placed, unseen, and must lose.
	race := func(c *cell, won, late func(*cellstate.Snapshot) *cellstate.Txn) cellstate.Conflict {
		first := c.side()
		var winner cellstate.Result
		r, s := c.late(late, func() { winner = c.committed(c.commit(first, won(first.Snapshot()))) })
		c.refusedOnce(s)
		lost := c.lost(r, cellstate.ReasonRule)
		if lost.Winner == nil || lost.Winner.TxnID() != winner.Txn.ID {
			c.Errorf("winner %v, want transaction %s", lost.Winner, winner.Txn.ID)
		}
		return lost
	}
	return []law{
		{"L7/race of two apart within a node", func(c *cell) {
			c.zones()
			for _, name := range []string{"x", "y"} {
				c.Job(celltest.Job{Name: name, Labels: app, AntiAffinity: near("node", &ohmv1.Selector{Labels: app})})
			}
			race(c, one("x", 0, "a1"), one("y", 0, "a1"))
		}},
		{"L7/race of two apart within a zone, on different nodes", func(c *cell) {
			c.zones()
			for _, name := range []string{"x", "y"} {
				c.Job(celltest.Job{Name: name, Labels: app, AntiAffinity: apart})
			}
			lost := race(c, one("x", 0, "a1"), one("y", 0, "a2"))
			if want := "antiAffinity to jobs with app=db within zone"; lost.Dimension != want {
				c.Errorf("the rule is %q, want %q", lost.Dimension, want)
			}
		}},
		{"L7/apart within a zone, both at once in two zones", func(c *cell) {
			c.zones()
			for _, name := range []string{"x", "y"} {
				c.Job(celltest.Job{Name: name, Labels: app, AntiAffinity: apart})
			}
			first := c.side()
			r, s := c.late(one("y", 0, "b1"), func() { c.committed(c.commit(first, one("x", 0, "a1")(first.Snapshot()))) })
			c.refusedOnce(s)
			c.committed(r)
		}},
		{"L7/a newcomer whom the rule of a standing task forbids", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "quiet", AntiAffinity: near("zone", &ohmv1.Selector{Job: "loud"})})
			c.Job(celltest.Job{Name: "loud"})
			race(c, one("quiet", 0, "a1"), one("loud", 0, "a2"))
		}},
		{"L7/the same job in another namespace is another", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "x", Labels: app, AntiAffinity: apart})
			other := c.Job(celltest.Job{Name: "x", Namespace: "other", Labels: app, AntiAffinity: apart})
			s := c.side()
			c.committed(c.commit(s, one("x", 0, "a1")(s.Snapshot())))
			now := c.sync(s)
			c.committed(c.commit(s, celltest.Txn(now, cellstate.Incremental, celltest.Claim(now, celltest.Slot(now, other, "main", 0), "a1"))))
		}},
		{"L7/race against a spread", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "x", Count: 2, Spread: &ohmv1.Spread{Over: "zone", MaxSkew: 1, Required: true}})
			race(c, one("x", 0, "a1"), one("x", 1, "a2"))
		}},
		{"L7/a spread of one transaction", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "x", Count: 4, Spread: &ohmv1.Spread{Over: "zone", MaxSkew: 1, Required: true}})
			s := c.side()
			now := s.Snapshot()
			r := c.commit(s, celltest.Txn(now, cellstate.Incremental, claim(now, "x", 0, "a1"), claim(now, "x", 1, "b1"), claim(now, "x", 2, "a2"), claim(now, "x", 3, "a2")))
			if len(r.Committed) != 3 || len(r.Conflicts) != 1 || r.Conflicts[0].Claim != 3 {
				c.Errorf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
		}},
		{"L7/a share of a spread that is spent", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "x", Count: 4, Spread: &ohmv1.Spread{Over: "zone", MaxSkew: 1, Required: true, Shares: map[string]int32{"a": 3, "b": 1}}})
			race(c, one("x", 0, "b1"), one("x", 1, "b2"))
		}},
		{"L7/a task to be near to that ends meanwhile", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "web"})
			c.Job(celltest.Job{Name: "cache", Affinity: near("zone", &ohmv1.Selector{Job: "web"})})
			p := c.Place("web", 0, "a1")
			r, s := c.late(one("cache", 0, "a2"), func() { c.Release(p.Slot, task.Failed) })
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonRule)
		}},
		{"L7/race of the first two to be together", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "x", Count: 2, Affinity: near("zone", &ohmv1.Selector{})})
			first := c.side()
			r, s := c.late(one("x", 1, "b1"), func() { c.committed(c.commit(first, one("x", 0, "a1")(first.Snapshot()))) })
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonRule)
		}},
		{"L7/a rule that came meanwhile", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "loud"})
			r, s := c.late(one("loud", 0, "a2"), func() {
				c.Job(celltest.Job{Name: "quiet", AntiAffinity: near("zone", &ohmv1.Selector{Job: "loud"})})
				c.Place("quiet", 0, "a1")
			})
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonRule)
		}},
		{"L7/a commit on a snapshot that missed an event of its scope", func(c *cell) {
			c.zones()
			for _, name := range []string{"x", "y"} {
				c.Job(celltest.Job{Name: name, Labels: app, AntiAffinity: apart})
			}
			s := c.side()
			s.link.loses(func(ch cellstate.Change) bool { return ch.Key.Parse().Kind == cellstate.KindPlacement })
			c.Place("x", 0, "a1")
			c.sync(s)
			if s.Snapshot().Node("a1").Count() > 0 {
				c.Fatal("the event was not lost")
			}
			s.link.loses(nil)
			c.lost(c.commit(s, one("y", 0, "a2")(s.Snapshot())), cellstate.ReasonRule)
		}},
		{"L7/a scope that was lost track of is noticed at its next bump", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "x", Count: 2, Spread: &ohmv1.Spread{Over: "zone", MaxSkew: 1, Required: true}})
			s := c.side()
			s.link.loses(func(ch cellstate.Change) bool { return ch.Key.Parse().Kind == cellstate.KindPlacement })
			c.Place("x", 0, "a1")
			c.sync(s)
			s.link.loses(nil)
			c.Place("x", 1, "b1")
			c.eventually("the mirror has loaded again", func() bool { return s.Loads() == 2 })
			c.sameScopes(s)
		}},
		{"L7/a mirror that follows knows the scopes that a load knows", func(c *cell) {
			s := c.side()
			c.zones()
			for _, name := range []string{"x", "y"} {
				c.Job(celltest.Job{Name: name, Labels: app, AntiAffinity: apart, Count: 2})
			}
			c.Place("x", 0, "a1")
			c.Place("y", 0, "b1")
			c.sameScopes(s)
			if n := s.Loads(); n != 1 {
				c.Errorf("the mirror loaded %d times", n)
			}
		}},
		{"L7/claims that no rule is about bump no scope", func(c *cell) {
			c.zones()
			c.Job(celltest.Job{Name: "quiet", AntiAffinity: near("zone", &ohmv1.Selector{Job: "loud"})})
			c.Place("quiet", 0, "a1")
			before := maps.Collect(c.Snapshot().Scopes())
			c.Job(celltest.Job{Name: "plain"})
			c.Place("plain", 0, "a1")
			if after := maps.Collect(c.Snapshot().Scopes()); len(before) != 1 || !maps.Equal(before, after) {
				c.Errorf("the scopes went from %v to %v", before, after)
			}
		}},
		{"L7/a job's own scopes go with it", func(c *cell) {
			c.zones()
			job := celltest.Job{Name: "x", Count: 2, Spread: &ohmv1.Spread{Over: "zone", MaxSkew: 1, Required: true}}
			name := c.Job(job)
			s := c.side()
			p := c.Place("x", 0, "a1")
			c.Release(p.Slot, task.Succeeded)
			now := c.Snapshot()
			from, end := cellstate.TasksKeys(name)
			c.Write(cellstate.Write{
				Guards:  []cellstate.Guard{{Key: from, End: end, Revision: now.Revision(), NotNewer: true, Delete: true}},
				Fences:  cellstate.DropScopes(now, name),
				Records: []cellstate.Record{{Key: cellstate.JobKey(name), Read: now.Job(name).Revision}},
			})
			c.sameScopes(s)
			if left := maps.Collect(c.Snapshot().Scopes()); len(left) > 0 {
				c.Errorf("left are %v", left)
			}
			c.Job(job)
			c.sync(s)
			c.committed(c.commit(s, one("x", 0, "b1")(s.Snapshot())))
			c.sameScopes(s)
		}},
	}
}

// sameScopes asserts that a side knows the scopes' fences that stand in the store.
func (c *cell) sameScopes(s *side) {
	c.Helper()
	seen, stored := maps.Collect(c.sync(s).Scopes()), maps.Collect(c.Snapshot().Scopes())
	if !maps.Equal(seen, stored) {
		c.Errorf("the mirror knows %v, the store has %v", seen, stored)
	}
}
