package storetest

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// L4: no claim commits for a job that was stopped, finished or changed since the
// snapshot, or whose scheduler or precedence differs from the claim's. A job's record
// bumps no fence, so only the compare of that record can refuse the late claims.
func jobLaws() []law {
	a := celltest.Name("a")
	var laws []law
	for _, l := range []struct {
		name      string
		meanwhile func(*cell)
		reason    cellstate.Reason
	}{
		{"was stopped", func(c *cell) { c.Mark(a, func(j *ohmv1.Job) { j.Stopped = true }) }, cellstate.ReasonJobStopped},
		{"is done", func(c *cell) { c.Mark(a, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Failed"} }) }, cellstate.ReasonJobStopped},
		{"was updated", func(c *cell) { c.Job(celltest.Job{Name: "a", CPU: 200}) }, cellstate.ReasonJobChanged},
		{"was written again", func(c *cell) { c.Mark(a, func(j *ohmv1.Job) { j.RequestId = "again" }) }, cellstate.ReasonJobChanged},
		{"waits for another", func(c *cell) {
			c.Mark(a, func(j *ohmv1.Job) { j.After = []*ohmv1.Dependency{{Job: "b", Run: 1, On: "ok"}} })
		}, cellstate.ReasonJobWaits},
		{"was removed", func(c *cell) {
			c.Put(cellstate.Record{Key: cellstate.JobKey(a), Read: c.Snapshot().Job(a).Revision})
		}, cellstate.ReasonJobGone},
		{"moved to another scheduler", func(c *cell) { c.Job(celltest.Job{Name: "a", Scheduler: "other"}) }, cellstate.ReasonJobChanged},
	} {
		laws = append(laws, law{"L4/a job that " + l.name, func(c *cell) {
			c.Node(celltest.Node{Name: "n1"})
			c.Job(celltest.Job{Name: "a", CPU: 100})
			r, s := c.late(one("a", 0, "n1"), func() { l.meanwhile(c) })
			c.refusedOnce(s)
			c.lost(r, l.reason)
			if n := c.Snapshot().Node("n1"); n.Count() > 0 {
				c.Errorf("%v was placed", n.Placements())
			}
		}})
	}
	for _, l := range []struct {
		name   string
		change func(*cellstate.Txn)
		reason cellstate.Reason
	}{
		{"another scheduler", func(t *cellstate.Txn) { t.Scheduler = "other" }, cellstate.ReasonScheduler},
		{"a higher precedence", func(t *cellstate.Txn) { t.Claims[0].Precedence = 399 }, cellstate.ReasonPrecedence},
		{"a lower precedence", func(t *cellstate.Txn) { t.Claims[0].Precedence = -1 }, cellstate.ReasonPrecedence},
	} {
		laws = append(laws, law{"L4/a claim with " + l.name, func(c *cell) {
			c.Node(celltest.Node{Name: "n1"})
			c.Job(celltest.Job{Name: "a", CPU: 100})
			s := c.side()
			txn := one("a", 0, "n1")(s.Snapshot())
			l.change(txn)
			c.lost(c.commit(s, txn), l.reason)
		}})
	}
	return laws
}
