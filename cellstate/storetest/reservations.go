package storetest

import (
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Reservations: holds of room that is not free yet.
func reservationLaws() []law {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	until := func(txn *cellstate.Txn, after time.Duration) *cellstate.Txn {
		for i := range txn.Claims {
			txn.Claims[i].Ends = now.Add(after)
		}
		return txn
	}
	// full is a cell of two nodes of 4 cores: on n1 stand two tasks of 1 core, one that is over
	// in 30 s and one of which nobody knows; on n2 nothing.
	full := func(c *cell) *side {
		c.Node(celltest.Node{Name: "n1"})
		c.Node(celltest.Node{Name: "n2"})
		c.Job(celltest.Job{Name: "runs", Count: 2, CPU: 1000})
		c.Job(celltest.Job{Name: "large", Count: 2, CPU: 4000, Precedence: celltest.BatchLevel})
		c.Job(celltest.Job{Name: "medium", Count: 2, CPU: 3000, Precedence: celltest.BatchLevel})
		c.Job(celltest.Job{Name: "high", CPU: 1000, Precedence: celltest.BatchLevel + 1})
		c.Job(celltest.Job{Name: "small", Count: 4, CPU: 1000, Precedence: celltest.BatchLevel})
		s := c.side()
		c.committed(c.commit(s, until(one("runs", 0, "n1")(s.Snapshot()), 30*time.Second)))
		c.committed(c.commit(s, one("runs", 1, "n1")(c.sync(s))))
		return s
	}
	reserve := func(c *cell, txn *cellstate.Txn, starts time.Duration) {
		c.Helper()
		r := cellstate.Reservation{}
		if starts > 0 {
			r.Starts = now.Add(starts)
		}
		w, conflicts := cellstate.PlanReservation(c.Snapshot(), now, txn, r)
		if len(conflicts) > 0 {
			c.Fatalf("no reservation: %+v", conflicts)
		}
		c.Write(w)
	}
	return []law{
		{"reservations/one keeps room that is not free, and what comes free", func(c *cell) {
			s := full(c)
			reserve(c, one("large", 0, "n1")(s.Snapshot()), 30*time.Second)
			c.lost(c.commit(s, one("small", 0, "n1")(c.sync(s))), cellstate.ReasonHold)
			c.Release(slot(c.Snapshot(), "runs", 0), task.Succeeded)
			c.lost(c.commit(s, one("small", 0, "n1")(c.sync(s))), cellstate.ReasonHold)
			c.committed(c.commit(s, one("small", 0, "n2")(c.sync(s))))
		}},
		{"reservations/what is over before one starts passes", func(c *cell) {
			s := full(c)
			reserve(c, one("large", 0, "n1")(s.Snapshot()), 30*time.Second)
			c.lost(c.commit(s, until(one("small", 0, "n1")(c.sync(s)), 31*time.Second)), cellstate.ReasonHold)
			r := c.committed(c.commit(s, until(one("small", 1, "n1")(c.sync(s)), 30*time.Second)))
			if end := c.live(r.Txn.Claims[0].Slot).GetLatestEnd(); !end.AsTime().Equal(now.Add(30 * time.Second)) {
				c.Errorf("the placement is over by %v", end.AsTime())
			}
		}},
		{"reservations/nothing passes one that starts nobody knows when", func(c *cell) {
			s := full(c)
			reserve(c, one("large", 0, "n1")(s.Snapshot()), 0)
			c.lost(c.commit(s, until(one("small", 0, "n1")(c.sync(s)), time.Second)), cellstate.ReasonHold)
		}},
		{"reservations/one keeps no more than it needs when it starts", func(c *cell) {
			s := full(c)
			// 3 of 4 cores: one is left now, and will be when one of the two that run has ended.
			reserve(c, one("medium", 0, "n1")(s.Snapshot()), 30*time.Second)
			c.lost(c.commit(s, one("small", 0, "n1")(c.sync(s))), cellstate.ReasonHold) // the other runs on
			c.Release(slot(c.Snapshot(), "runs", 1), task.Succeeded)
			c.committed(c.commit(s, one("small", 0, "n1")(c.sync(s))))
			c.lost(c.commit(s, one("small", 1, "n1")(c.sync(s))), cellstate.ReasonHold)
		}},
		{"reservations/one does not bind strictly higher precedence", func(c *cell) {
			s := full(c)
			reserve(c, one("large", 0, "n1")(s.Snapshot()), 0)
			c.committed(c.commit(s, one("high", 0, "n1")(c.sync(s))))
		}},
		{"reservations/one is for any claim of its job, and ends with it", func(c *cell) {
			s := full(c)
			reserve(c, one("medium", 0, "n1")(s.Snapshot()), 30*time.Second)
			c.Release(slot(c.Snapshot(), "runs", 0), task.Succeeded)
			r := c.committed(c.commit(s, one("medium", 1, "n1")(c.sync(s)))) // its id is not the reservation's
			c.replay(r.Revision, func(at *cellstate.Snapshot) {
				if n := at.Node("n1"); at.Revision() == r.Revision && (len(n.Holds) > 0 || len(n.Placements()) != 2) {
					c.Errorf("after the commit: holds %v, placements %v", n.Holds, n.Placements())
				}
			})
			c.sameFences(s)
		}},
		{"reservations/two of equal precedence keep no more than a node has", func(c *cell) {
			s := full(c)
			reserve(c, one("medium", 0, "n1")(s.Snapshot()), 30*time.Second)
			small := one("small", 0, "n1")(c.sync(s))
			large := one("large", 0, "n1")(c.sync(s))
			if _, conflicts := cellstate.PlanReservation(c.Snapshot(), now, large, cellstate.Reservation{}); len(conflicts) != 1 || conflicts[0].Reason != cellstate.ReasonHold {
				c.Errorf("a second one of all: conflicts %+v", conflicts)
			}
			reserve(c, small, 0)
		}},
		{"reservations/nothing is evicted where one binds", func(c *cell) {
			s := full(c)
			reserve(c, one("large", 0, "n1")(s.Snapshot()), 30*time.Second)
			evicts := one("small", 0, "n1")(c.sync(s))
			evicts.Claims[0].Victims = []*ohmv1.Victim{celltest.Victim(c.live(slot(s.Snapshot(), "runs", 0)))}
			c.lost(c.commit(s, evicts), cellstate.ReasonHold)
			own := one("large", 0, "n1")(c.sync(s))
			own.Claims[0].Victims = []*ohmv1.Victim{celltest.Victim(c.live(slot(s.Snapshot(), "runs", 0))), celltest.Victim(c.live(slot(s.Snapshot(), "runs", 1)))}
			c.committed(c.commit(s, own))
		}},
		{"reservations/what a plan from before one would add is refused", func(c *cell) {
			full(c)
			r, s := c.late(one("small", 0, "n1"), func() { reserve(c, one("large", 0, "n1")(c.Snapshot()), 30*time.Second) })
			c.lost(r, cellstate.ReasonHold)
			c.refusedOnce(s)
		}},
		{"reservations/those of a gang stand all or not at all", func(c *cell) {
			s := full(c)
			gang := celltest.Txn(s.Snapshot(), cellstate.Atomic, claim(s.Snapshot(), "large", 0, "n1"), claim(s.Snapshot(), "large", 1, "n2"))
			w, _ := cellstate.PlanReservation(c.Snapshot(), now, gang, cellstate.Reservation{})
			c.Place("small", 0, "n2") // it bumps the fence of one of them
			c.refuses(w)
			if n := c.Snapshot().Node("n1"); len(n.Holds) > 0 {
				c.Errorf("a half of a gang reserves %v", n.Holds)
			}
		}},
	}
}
