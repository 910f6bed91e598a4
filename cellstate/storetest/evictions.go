package storetest

import (
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// L5: an eviction and the claim that needs it are one commit; a victim has lower
// precedence and keeps its record until its exit; an heir that has not started can be
// released at once.
func evictionLaws() []law {
	return []law{
		{"L5/a victim keeps its record, marked in the same commit", func(c *cell) {
			victim := evictable(c)
			r := c.evict("mid", victim)
			now := c.Snapshot().Node("n1")
			if len(now.Placements()) != 2 || c.live(victim.Slot).GetEvictedBy() != string(r.Txn.ID) {
				c.Errorf("the node has %v", now.Placements())
			}
			if used := now.Used().CPUMilli; used != 3000 {
				c.Errorf("charged %d milli, want the larger of both, 3000", used)
			}
			c.replay(r.Revision, func(s *cellstate.Snapshot) {
				marked, placed := 0, 0
				if n := s.Node("n1"); n != nil {
					for _, p := range n.Placements() {
						if p.GetEvictedBy() == string(r.Txn.ID) {
							marked++
						}
						if p.TxnID() == r.Txn.ID {
							placed++
						}
					}
				}
				if marked != placed {
					c.Errorf("revision %d: %d victims marked, %d heirs placed", s.Revision(), marked, placed)
				}
			})
		}},
		{"L5/victims and heirs are charged as the larger of both", func(c *cell) {
			c.evict("mid", evictable(c)) // 3000 of 4000 milli
			s := c.side()
			c.Job(celltest.Job{Name: "big", CPU: 1001})
			c.Job(celltest.Job{Name: "fits", CPU: 1000})
			c.sync(s)
			c.lost(c.commit(s, one("big", 0, "n1")(s.Snapshot())), cellstate.ReasonResources)
			c.committed(c.commit(s, one("fits", 0, "n1")(s.Snapshot())))
		}},
		{"L5/a victim of the same precedence refuses", func(c *cell) {
			victim := evictable(c)
			c.Job(celltest.Job{Name: "peer", CPU: 2000, Precedence: celltest.Free})
			s := c.side()
			c.lost(c.commit(s, evicting(s.Snapshot(), "peer", victim)), cellstate.ReasonPrecedence)
			if c.live(victim.Slot).GetEvictedBy() != "" {
				c.Error("the victim is marked")
			}
		}},
		{"L5/a victim that ends meanwhile", func(c *cell) {
			victim := evictable(c)
			r, s := c.late(func(s *cellstate.Snapshot) *cellstate.Txn { return evicting(s, "mid", victim) },
				func() { c.Release(victim.Slot, task.Succeeded) })
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonVictimGone)
		}},
		{"L5/a victim that ends after the same transaction has marked it", func(c *cell) {
			// Two claims share a victim; the second is sent when the first has committed. That
			// the victim has ended since bumps no fence: only its record tells.
			victim := evictable(c)
			first := c.evict("mid", victim)
			c.Job(celltest.Job{Name: "more", CPU: 100, Precedence: 200})
			r, s := c.late(func(s *cellstate.Snapshot) *cellstate.Txn {
				second := evicting(s, "more", victim)
				second.ID = first.Txn.ID
				return second
			}, func() { c.Release(victim.Slot, task.Succeeded) })
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonVictimGone)
		}},
		{"L5/two evictions of one victim", func(c *cell) {
			victim := evictable(c)
			var won cellstate.Result
			r, s := c.late(func(s *cellstate.Snapshot) *cellstate.Txn { return evicting(s, "high", victim) },
				func() { won = c.evict("mid", victim) })
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonVictimGone)
			if by := c.live(victim.Slot).GetEvictedBy(); by != string(won.Txn.ID) {
				c.Errorf("evicted by %s, want %s", by, won.Txn.ID)
			}
		}},
		{"L5/an heir that has not started is released and its victims taken over", func(c *cell) {
			victim := evictable(c)
			heir := c.live(c.slotOf(c.evict("mid", victim)))
			r := c.evict("high", heir)
			if c.live(heir.Slot) != nil {
				c.Error("the heir that had not started is still there")
			}
			ended := c.Snapshot().Job(heir.Slot.JobName()).Task(heir.Slot).Ended
			if len(ended) != 1 || ended[0].Revision != r.Revision || ended[0].GetStatus().GetCause() != task.Preempted {
				c.Errorf("ended %v, want one at revision %d", ended, r.Revision)
			}
			if by := c.live(victim.Slot).GetEvictedBy(); by != string(r.Txn.ID) {
				c.Errorf("the first victim is evicted by %s, want %s", by, r.Txn.ID)
			}
			if used := c.Snapshot().Node("n1").Used().CPUMilli; used != 4000 {
				c.Errorf("charged %d milli, want 4000", used)
			}
		}},
		{"L5/an heir that has not started gives way to several claims of one transaction", func(c *cell) {
			for _, mode := range []cellstate.Mode{cellstate.Incremental, cellstate.Atomic} {
				node := fmt.Sprintf("two-%d", mode)
				c.Node(celltest.Node{Name: node, CPU: 4000})
				name := func(job string) string { return fmt.Sprintf("%s-%d", job, mode) }
				c.Job(celltest.Job{Name: name("low"), CPU: 4000, Precedence: celltest.Free})
				c.Job(celltest.Job{Name: name("mid"), CPU: 4000, Precedence: celltest.BatchLevel})
				c.Job(celltest.Job{Name: name("pair"), Count: 2, CPU: 2000, Precedence: celltest.Production})
				heir := c.live(c.slotOf(c.evict(name("mid"), c.Place(name("low"), 0, node))))
				side := c.side()
				s := side.Snapshot()
				txn := celltest.Txn(s, mode)
				for i := range 2 {
					claim := celltest.Claim(s, celltest.Slot(s, celltest.Name(name("pair")), "main", i), cellstate.NodeName(node))
					claim.Victims = []*ohmv1.Victim{celltest.Victim(heir)}
					txn.Claims = append(txn.Claims, claim)
				}
				if r := c.committed(c.commit(side, txn)); len(r.Committed) != 2 || c.live(heir.Slot) != nil {
					c.Errorf("%v: %d of 2 claims committed, the heir is %v", mode, len(r.Committed), c.live(heir.Slot))
				}
			}
		}},
		{"L5/an heir that starts meanwhile is an ordinary victim", func(c *cell) {
			victim := evictable(c)
			heir := c.live(c.slotOf(c.evict("mid", victim)))
			r, s := c.late(func(s *cellstate.Snapshot) *cellstate.Txn { return evicting(s, "high", heir) }, func() {
				c.Release(victim.Slot, task.Stopped)
				c.Status(heir.Slot, task.Running)
			})
			c.refusedOnce(s)
			c.committed(r)
			if by := c.live(heir.Slot).GetEvictedBy(); by != string(r.Txn.ID) {
				c.Errorf("the heir is evicted by %q, want %s", by, r.Txn.ID)
			}
		}},
		{"L5/an heir that starts meanwhile is not released", func(c *cell) {
			heir := c.live(c.slotOf(c.evict("mid", evictable(c))))
			r, s := c.late(func(s *cellstate.Snapshot) *cellstate.Txn { return evicting(s, "high", heir) },
				func() { c.Status(heir.Slot, task.Running) }) // bumps no fence
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonResources) // both are there now, and neither makes room at once
			if p := c.live(heir.Slot); p == nil || p.GetEvictedBy() != "" {
				c.Errorf("the heir is %v", p)
			}
		}},
		{"L5/the room of a victim whose heir went stays charged until its exit", func(c *cell) {
			victim := evictable(c)
			heir := c.slotOf(c.evict("mid", victim))
			c.Release(heir, task.Stopped)
			if used := c.Snapshot().Node("n1").Used().CPUMilli; used != 3000 {
				c.Errorf("charged %d milli, want the victim's 3000", used)
			}
			c.Release(victim.Slot, task.Stopped)
			if used := c.Snapshot().Node("n1").Used().CPUMilli; used != 0 {
				c.Errorf("charged %d milli, want 0", used)
			}
		}},
	}
}

// evictable is a node with one placement that others may evict: 3 of 4 cores.
func evictable(c *cell) *cellstate.Placement {
	c.Node(celltest.Node{Name: "n1", CPU: 4000})
	c.Job(celltest.Job{Name: "low", CPU: 3000, Precedence: celltest.Free})
	c.Job(celltest.Job{Name: "mid", CPU: 2000, Precedence: celltest.BatchLevel})
	c.Job(celltest.Job{Name: "high", CPU: 4000, Precedence: celltest.Production})
	return c.Place("low", 0, "n1")
}

func evicting(s *cellstate.Snapshot, job string, victim *cellstate.Placement) *cellstate.Txn {
	t := one(job, 0, cellstate.NodeName(victim.GetNode()))(s)
	t.Claims[0].Victims = []*ohmv1.Victim{celltest.Victim(victim)}
	return t
}

func (c *cell) evict(job string, victim *cellstate.Placement) cellstate.Result {
	c.Helper()
	s := c.side()
	return c.committed(c.commit(s, evicting(s.Snapshot(), job, victim)))
}

func (c *cell) slotOf(r cellstate.Result) cellstate.Slot { return r.Txn.Claims[0].Slot }
