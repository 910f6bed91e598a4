package storetest

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// budgeted is a service of three tasks, each on a node of its own and running, of which one may be
// down at a time, and two jobs that evict.
func budgeted(c *cell, most int) (tasks []*cellstate.Placement) {
	c.Helper()
	c.Job(celltest.Job{Name: "web", Kind: "service", Count: 3, CPU: 3000, Disruption: &ohmv1.Disruption{MaxUnavailable: int32(most)}})
	for i, node := range []string{"n1", "n2", "n3"} {
		c.Node(celltest.Node{Name: node, CPU: 4000})
		tasks = append(tasks, c.Place("web", i, node))
		c.Status(tasks[i].Slot, task.Running)
	}
	for _, name := range []string{"x", "y"} {
		c.Job(celltest.Job{Name: name, CPU: 2000, Count: 2, Precedence: celltest.Production})
	}
	return tasks
}

// drain gives up a task of web as the keeper does, on the state that a side has.
func drained(s *cellstate.Snapshot, p *cellstate.Placement) cellstate.Write {
	j := s.Job(p.Slot.JobName())
	b, _ := s.Budget(j, p.Slot.Group)
	return cellstate.GiveUp(s, b, []*cellstate.Placement{j.Task(p.Slot).Placement})
}

// L8: an eviction or a drain gives up no task of a group that is up, if that leaves more of
// them down than its job's disruption budget allows.
func budgetLaws() []law {
	return []law{
		{"L8/two evictions at once spend one budget", func(c *cell) {
			web := budgeted(c, 1)
			first := c.side()
			var winner cellstate.Result
			r, s := c.late(func(s *cellstate.Snapshot) *cellstate.Txn { return evicting(s, "y", web[1]) },
				func() { winner = c.committed(c.commit(first, evicting(first.Snapshot(), "x", web[0]))) })
			c.refusedOnce(s)
			lost := c.lost(r, cellstate.ReasonBudget)
			if lost.Winner == nil || lost.Winner.GetEvictedBy() != string(winner.Txn.ID) {
				c.Errorf("winner %v, want the victim of %s", lost.Winner, winner.Txn.ID)
			}
		}},
		{"L8/an eviction and a drain at once spend one budget", func(c *cell) {
			web := budgeted(c, 1)
			r, s := c.late(func(s *cellstate.Snapshot) *cellstate.Txn { return evicting(s, "y", web[1]) },
				func() { c.Write(drained(c.Snapshot(), web[0])) })
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonBudget)
		}},
		{"L8/a drain decided before an eviction is refused", func(c *cell) {
			web := budgeted(c, 1)
			late := drained(c.Snapshot(), web[0])
			s := c.side()
			c.committed(c.commit(s, evicting(s.Snapshot(), "y", web[1])))
			c.refuses(late)
		}},
		{"L8/two victims of one transaction", func(c *cell) {
			web := budgeted(c, 1)
			s := c.side()
			txn := evicting(s.Snapshot(), "x", web[0])
			second := claim(s.Snapshot(), "x", 1, "n2")
			second.Victims = []*ohmv1.Victim{celltest.Victim(web[1])}
			txn.Claims = append(txn.Claims, second)
			r := c.commit(s, txn)
			if len(r.Committed) != 1 || len(r.Conflicts) != 1 || r.Conflicts[0].Reason != cellstate.ReasonBudget {
				c.Errorf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
			txn = evicting(s.Snapshot(), "y", web[2])
			txn.Mode = cellstate.Atomic
			c.lost(c.commit(s, txn), cellstate.ReasonBudget)
		}},
		{"L8/an atomic transaction that loses has spent nothing", func(c *cell) {
			web := budgeted(c, 2)
			s := c.side()
			gang := evicting(s.Snapshot(), "x", web[0])
			gang.Mode = cellstate.Atomic
			second := claim(s.Snapshot(), "x", 1, "n2") // no room without a victim
			gang.Claims = append(gang.Claims, second)
			txns := []*cellstate.Txn{gang, evicting(s.Snapshot(), "y", web[1])}
			third := claim(s.Snapshot(), "y", 1, "n3")
			third.Victims = []*ohmv1.Victim{celltest.Victim(web[2])}
			txns[1].Claims = append(txns[1].Claims, third)
			r, err := s.Commit(c.ctx, txns...)
			if err != nil {
				c.Fatal(err)
			}
			c.lost(r[0], cellstate.ReasonResources)
			c.committed(r[1])
		}},
		{"L8/a budget is whole again when the next attempt runs", func(c *cell) {
			web := budgeted(c, 1)
			s := c.side()
			c.committed(c.commit(s, evicting(s.Snapshot(), "x", web[0])))
			next := func() cellstate.Result { return c.commit(s, evicting(c.sync(s), "y", web[1])) }
			c.End(web[0].Slot, task.Preempted)
			c.lost(next(), cellstate.ReasonBudget)
			c.Node(celltest.Node{Name: "n4", CPU: 4000})
			again := c.Place("web", 0, "n4")
			c.lost(next(), cellstate.ReasonBudget)
			c.Status(again.Slot, task.Running)
			c.committed(next())
		}},
		{"L8/what is down already spends nothing", func(c *cell) {
			web := budgeted(c, 1)
			c.Status(web[0].Slot, task.Stopping)
			s := c.side()
			c.committed(c.commit(s, evicting(s.Snapshot(), "x", web[0])))
		}},
		{"L8/what was down comes up meanwhile", func(c *cell) {
			web := budgeted(c, 1)
			c.Release(web[0].Slot, task.Failed)
			c.Release(web[1].Slot, task.Failed)
			starts := c.Place("web", 1, "n2")
			r, s := c.late(func(s *cellstate.Snapshot) *cellstate.Txn { return evicting(s, "y", starts) },
				func() { c.Status(starts.Slot, task.Running) })
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonBudget)
		}},
		{"L8/a budget that was set meanwhile", func(c *cell) {
			web := budgeted(c, 3)
			c.Release(web[0].Slot, task.Failed)
			r, s := c.late(func(s *cellstate.Snapshot) *cellstate.Txn { return evicting(s, "y", web[1]) }, func() {
				// By a write that changes nothing else: a new version has tasks of its own.
				row := c.Snapshot().Job(web[0].Slot.JobName())
				c.Mark(row.Name, func(j *ohmv1.Job) { j.Spec.Disruption.MaxUnavailable = 1 })
				c.Put(cellstate.Barrier(c.Snapshot(), "web"))
			})
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonBudget)
		}},
		{"L8/tasks of an older version are bound by nothing", func(c *cell) {
			web := budgeted(c, 1)
			c.Job(celltest.Job{Name: "web", Kind: "service", Count: 3, CPU: 3000, Disruption: &ohmv1.Disruption{MaxUnavailable: 1}})
			s := c.side()
			c.committed(c.commit(s, evicting(s.Snapshot(), "x", web[0])))
			c.committed(c.commit(s, evicting(s.Snapshot(), "y", web[1])))
		}},
		{"L8/a mirror that follows knows the scopes that a load knows", func(c *cell) {
			web := budgeted(c, 2)
			s := c.side()
			c.Write(drained(c.Snapshot(), web[0]))
			c.committed(c.commit(s, evicting(c.sync(s), "y", web[1])))
			c.sameScopes(s)
			c.Write(drained(c.sync(s), web[2])) // by the budget it may not: the store compares the scope alone
			c.sameScopes(s)
			if n := s.Loads(); n != 1 {
				c.Errorf("the mirror loaded %d times", n)
			}
			c.unruly = true
		}},
	}
}
