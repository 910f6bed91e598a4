package storetest

import (
	"fmt"
	"sync"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Quotas: no revision adds to a scope beyond its quota, whoever has not seen what.
func quotaLaws() []law {
	scope := celltest.Namespace("default")
	account := celltest.Account(scope, "test")
	setup := func(c *cell) {
		for i := 1; i <= 6; i++ {
			c.Node(celltest.Node{Name: fmt.Sprint("n", i), CPU: 64_000})
		}
		c.Job(celltest.Job{Name: "a", Count: 3, CPU: 2000})
		c.Job(celltest.Job{Name: "b", Count: 3, CPU: 2000})
		c.Job(celltest.Job{Name: "g", Count: 3, CPU: 2000, Kind: "ml", Scheduler: "batch", Gang: true})
	}
	share := func(c *cell, milli int64) {
		c.Quota(scope, celltest.CPU(10_000))
		c.Share(account, celltest.CPU(milli))
	}
	three := func(job string, mode cellstate.Mode) func(*cellstate.Snapshot) *cellstate.Txn {
		return func(s *cellstate.Snapshot) *cellstate.Txn {
			return celltest.Txn(s, mode, claim(s, job, 0, "n1"), claim(s, job, 1, "n2"), claim(s, job, 2, "n3"))
		}
	}
	elsewhere := func(job string) func(*cellstate.Snapshot) *cellstate.Txn { // no fence that three moves is in its way
		return func(s *cellstate.Snapshot) *cellstate.Txn {
			return celltest.Txn(s, cellstate.Incremental, claim(s, job, 0, "n4"), claim(s, job, 1, "n5"), claim(s, job, 2, "n6"))
		}
	}
	return []law{
		{"quotas/the writes of one request spend no more than the share", func(c *cell) {
			setup(c)
			share(c, 5000)
			s := c.side()
			r := c.commit(s, three("a", cellstate.Incremental)(s.Snapshot()))
			if len(r.Committed) != 2 || len(r.Conflicts) != 1 {
				c.Fatalf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
			if got := r.Conflicts[0]; got.Reason != cellstate.ReasonQuota || got.Dimension != "cpu of namespace default" || got.Wanted != "2" || got.Free != "1" {
				c.Errorf("conflict %+v", got)
			}
		}},
		{"quotas/a gang that is too large for the share leaves it whole", func(c *cell) {
			setup(c)
			share(c, 5000)
			s := c.side()
			now := s.Snapshot()
			r, err := s.Commit(c.ctx, three("g", cellstate.Atomic)(now), one("a", 0, "n1")(now), one("b", 0, "n2")(now))
			if err != nil {
				c.Fatal(err)
			}
			c.lost(r[0], cellstate.ReasonQuota)
			c.committed(r[1])
			c.committed(r[2])
		}},
		{"quotas/a share that was lowered meanwhile", func(c *cell) {
			setup(c)
			share(c, 4000)
			s := c.side()
			c.committed(c.commit(s, one("b", 0, "n1")(s.Snapshot()))) // the share is this side's
			decided := one("a", 0, "n2")(c.sync(s))
			s.link.hold()
			c.Share(account, celltest.CPU(2000))
			c.lost(c.commit(s, decided), cellstate.ReasonQuota)
			c.refusedOnce(s)
		}},
		{"quotas/a quota that was set meanwhile", func(c *cell) {
			setup(c)
			r, s := c.late(three("a", cellstate.Incremental), func() { c.Quota(scope, celltest.CPU(10_000)) })
			c.lost(r, cellstate.ReasonQuota)
			c.refusedOnce(s)
		}},
		{"quotas/a quota that was set meanwhile, one write", func(c *cell) {
			setup(c)
			r, s := c.late(one("a", 0, "n1"), func() { c.Quota(scope, celltest.CPU(10_000)) })
			c.lost(r, cellstate.ReasonQuota)
			c.refusedOnce(s)
		}},
		{"quotas/a quota that is lowered takes its shares back", func(c *cell) {
			setup(c)
			share(c, 10_000)
			s := c.side()
			c.committed(c.commit(s, one("b", 0, "n1")(s.Snapshot()))) // the share is this side's
			decided := one("a", 0, "n2")(c.sync(s))
			s.link.hold()
			c.Quota(scope, celltest.CPU(8000))
			c.lost(c.commit(s, decided), cellstate.ReasonQuota)
			c.refusedOnce(s)
		}},
		{"quotas/requests that a side has not seen applied count", func(c *cell) {
			setup(c)
			share(c, 10_000)
			s := c.side()
			c.committed(c.commit(s, one("g", 0, "n1")(s.Snapshot()))) // the share is this side's
			now := c.sync(s)
			s.link.holdOn()
			c.committed(c.commit(s, three("a", cellstate.Incremental)(now)))
			r := c.commit(s, elsewhere("b")(now))
			if len(r.Committed) != 1 || len(r.Conflicts) != 2 || r.Conflicts[0].Reason != cellstate.ReasonQuota {
				c.Errorf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
			if s.Snapshot().Revision() != now.Revision() {
				c.Error("the side has seen what it should not")
			}
		}},
		{"quotas/many requests under way at once", func(c *cell) {
			setup(c)
			share(c, 10_000)
			s := c.side()
			now := s.Snapshot()
			var done sync.WaitGroup
			for _, job := range []string{"a", "b", "g"} {
				for i := range 3 {
					done.Go(func() {
						if _, err := s.Commit(c.ctx, one(job, i, "n1")(now)); err != nil {
							c.Error(err)
						}
					})
				}
			}
			done.Wait()
			// What shows already while its answer is on its way counts twice: too few may commit
			// at first, never too many.
			if n := len(c.Snapshot().Node("n1").Placements()); n > 5 {
				c.Errorf("%d placements, want 5", n)
			}
			for _, job := range []string{"a", "b", "g"} {
				for i := range 3 {
					if _, err := s.Commit(c.ctx, one(job, i, "n1")(c.sync(s))); err != nil {
						c.Error(err)
					}
				}
			}
			if n := len(c.Snapshot().Node("n1").Placements()); n != 5 {
				c.Errorf("%d placements in the end, want 5", n)
			}
		}},
		{"quotas/a request of unknown fate is settled before the share is spent again", func(c *cell) {
			setup(c)
			share(c, 6000)
			s := c.side()
			c.committed(c.commit(s, one("g", 0, "n1")(s.Snapshot()))) // the share is this side's
			now := c.sync(s)
			was := c.Snapshot().Quota(scope).Share(account.Spender).Revision
			s.link.holdOn()
			s.link.dropReply()
			_, err := s.Commit(c.ctx, one("a", 0, "n1")(now))
			c.is(err, cellstate.ErrUnknown)
			s.link.release()
			r := c.commit(s, three("b", cellstate.Incremental)(now))
			if len(r.Committed) != 1 || len(r.Conflicts) != 2 {
				c.Errorf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
			if is := c.Snapshot().Quota(scope).Share(account.Spender).Revision; is == was {
				c.Error("the share was not put again: the request could still apply")
			}
		}},
		{"quotas/a process takes the share over from one of the same name", func(c *cell) {
			setup(c)
			share(c, 4000)
			r, s := c.late(elsewhere("b"), func() {
				other := c.side()
				c.committed(c.commit(other, one("a", 0, "n1")(other.Snapshot())))
			})
			if len(r.Committed) != 1 || len(r.Conflicts) != 2 || r.Conflicts[0].Reason != cellstate.ReasonQuota {
				c.Errorf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
			c.refusedOnce(s)
		}},
		{"quotas/what has ended may be spent again, a victim's room when it ends", func(c *cell) {
			setup(c)
			share(c, 2000)
			c.Job(celltest.Job{Name: "high", CPU: 2000, Precedence: celltest.Production})
			s := c.side()
			c.committed(c.commit(s, one("a", 0, "n1")(s.Snapshot())))
			now := c.sync(s)
			evicting := claim(now, "high", 0, "n1")
			evicting.Victims = []*ohmv1.Victim{celltest.Victim(c.live(slot(now, "a", 0)))}
			c.lost(c.commit(s, celltest.Txn(now, cellstate.Incremental, evicting)), cellstate.ReasonQuota)
			c.Release(slot(now, "a", 0), task.Succeeded)
			now = c.sync(s)
			if used := now.Quota(scope).Used(); used != (cellstate.Amounts{}) {
				c.Errorf("used %v", used)
			}
			c.committed(c.commit(s, one("b", 0, "n1")(now)))
		}},
		{"quotas/a scheduler's limit holds over namespaces", func(c *cell) {
			setup(c)
			c.Job(celltest.Job{Name: "a", Namespace: "other", Count: 3, CPU: 2000})
			limit := cellstate.Scope{Kind: cellstate.SchedulerScope, Name: "batch"}
			c.Quota(limit, celltest.CPU(4000))
			c.Share(celltest.Account(limit, "test"), celltest.CPU(4000))
			s := c.side()
			now := s.Snapshot()
			other := celltest.Slot(now, cellstate.JobName{Namespace: "other", Name: "a"}, "main", 0)
			r := c.commit(s, celltest.Txn(now, cellstate.Incremental, claim(now, "a", 0, "n1"), celltest.Claim(now, other, "n1"), claim(now, "a", 1, "n2")))
			if len(r.Committed) != 2 || len(r.Conflicts) != 1 || r.Conflicts[0].Dimension != "cpu of scheduler batch" {
				c.Errorf("committed %v, conflicts %+v", r.Committed, r.Conflicts)
			}
		}},
		{"quotas/a quota that is removed binds nobody, and binds again when it is back", func(c *cell) {
			setup(c)
			share(c, 2000)
			s := c.side()
			c.Write(cellstate.QuotaRemoval(c.Snapshot().Quota(scope)))
			now := c.sync(s)
			if now.HasQuotas() {
				c.Error("there are quotas still")
			}
			c.committed(c.commit(s, three("a", cellstate.Incremental)(now)))
			r, _ := c.late(one("b", 0, "n1"), func() { c.Quota(scope, celltest.CPU(8000)) })
			c.lost(r, cellstate.ReasonQuota)
			if used := c.Snapshot().Quota(scope).Used(); used[0] != 6000 {
				c.Errorf("used %v", used)
			}
		}},
		{"quotas/what a mirror counts as used is what a load counts", func(c *cell) {
			setup(c)
			s := c.side()
			share(c, 10_000)
			c.sync(s)
			c.committed(c.commit(s, three("a", cellstate.Incremental)(s.Snapshot())))
			c.Release(slot(c.Snapshot(), "a", 1), task.Failed)
			c.committed(c.commit(s, one("b", 2, "n3")(c.sync(s))))
			seen, loaded := c.sync(s).Quota(scope).Share(account.Spender), c.Snapshot().Quota(scope).Share(account.Spender)
			if seen.Used != loaded.Used || seen.Tasks != 3 || loaded.Tasks != 3 || seen.Used[0] != 6000 {
				c.Errorf("followed %+v, loaded %+v", seen, loaded)
			}
		}},
	}
}
