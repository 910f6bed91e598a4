package storetest

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
)

// Releases (L2, L6): a release is of one placement, known by its revision; it writes
// the ended attempt in the same revision and bumps no fence.
func releaseLaws() []law {
	setup := func(c *cell) *cellstate.Placement {
		c.Node(celltest.Node{Name: "n1"})
		c.Job(celltest.Job{Name: "a", CPU: 100})
		return c.Place("a", 0, "n1")
	}
	row := func(c *cell, s cellstate.Slot) *cellstate.Task { return c.Snapshot().Job(s.JobName()).Task(s) }
	release := func(t *cellstate.Task) cellstate.Write {
		return cellstate.Write{Records: cellstate.ReleaseRecords(t, celltest.StatusOf(t.Placement, task.Failed))}
	}
	return []law{
		{"release/writes the ended attempt in the same revision and bumps no fence", func(c *cell) {
			p := setup(c)
			c.Status(p.Slot, task.Running)
			fence := c.Snapshot().Node("n1").Fence
			at := c.Write(release(row(c, p.Slot)))
			kinds := map[cellstate.Kind]bool{}
			for _, ch := range c.changes(at-1, at) {
				kinds[ch.Key.Parse().Kind] = ch.Deleted
			}
			gone, placed := kinds[cellstate.KindPlacement]
			kept, ended := kinds[cellstate.KindEnded]
			if !placed || !gone || !ended || kept || !kinds[cellstate.KindStatus] {
				c.Errorf("revision %d deleted %v", at, kinds)
			}
			if now := c.Snapshot().Node("n1").Fence; now != fence {
				c.Errorf("fence %d, was %d", now, fence)
			}
			e := row(c, p.Slot).Ended
			if len(e) != 1 || e[0].GetPlacement().GetTxn() != p.GetTxn() || e[0].GetPlacementRevision() != int64(p.Revision) {
				c.Errorf("ended %v", e)
			}
		}},
		{"release/takes a status with it that was written since it was planned", func(c *cell) {
			p := setup(c)
			planned := row(c, p.Slot)
			c.Status(p.Slot, task.Running)
			c.Write(release(planned))
			if now := row(c, p.Slot); now.Status != nil || now.Placement != nil || len(now.Ended) != 1 {
				c.Errorf("left is %+v", now)
			}
		}},
		{"release/a late report of an earlier attempt releases nothing", func(c *cell) {
			p := setup(c)
			first := row(c, p.Slot)
			c.Release(p.Slot, task.Failed)
			second := c.Place("a", 0, "n1")
			c.refuses(release(first))
			if now := c.live(p.Slot); now == nil || now.GetTxn() != second.GetTxn() {
				c.Errorf("live is %v", now)
			}
		}},
		{"release/a late report from before the job's name was used again", func(c *cell) {
			p := setup(c)
			old := row(c, p.Slot)
			c.Release(p.Slot, task.Failed)
			c.remove("a")
			c.Job(celltest.Job{Name: "a", CPU: 100})
			again := c.Place("a", 0, "n1")
			if again.Slot != p.Slot || again.GetAttempt() != p.GetAttempt() {
				c.Fatalf("the slot is %v attempt %d, was %v attempt %d", again.Slot, again.GetAttempt(), p.Slot, p.GetAttempt())
			}
			c.refuses(release(old))
			if c.live(p.Slot) == nil {
				c.Error("the new placement was released")
			}
		}},
		{"release/a status of an earlier placement is refused", func(c *cell) {
			p := setup(c)
			status := cellstate.Write{
				Guards:  []cellstate.Guard{{Key: p.Slot.PlacementKey(), Revision: p.Revision}},
				Records: []cellstate.Record{{Key: p.Slot.StatusKey(), Value: celltest.StatusOf(p, task.Running)}},
			}
			c.Release(p.Slot, task.Failed)
			c.Place("a", 0, "n1")
			c.refuses(status)
		}},
		{"release/removal by range takes exactly the job's records, if none is newer", func(c *cell) {
			p := setup(c)
			c.Job(celltest.Job{Name: "ab", CPU: 100})
			other := c.Place("ab", 0, "n1")
			read := c.Snapshot().Revision()
			c.Release(p.Slot, task.Failed)
			from, end := cellstate.TasksKeys(celltest.Name("a"))
			c.refuses(cellstate.Write{Guards: []cellstate.Guard{{Key: from, End: end, Revision: read, NotNewer: true, Delete: true}}})
			if len(row(c, p.Slot).Ended) != 1 {
				c.Error("a refused removal removed something")
			}
			c.remove("a")
			if j := c.Snapshot().Job(celltest.Name("a")); j != nil {
				c.Errorf("%v is left", j)
			}
			if c.live(other.Slot) == nil {
				c.Error("another job's placement is gone")
			}
		}},
	}
}

// remove removes a job and all records of its tasks.
func (c *cell) remove(job string) {
	c.Helper()
	s := c.Snapshot()
	name := celltest.Name(job)
	from, end := cellstate.TasksKeys(name)
	c.Write(cellstate.Write{
		Guards:  []cellstate.Guard{{Key: from, End: end, Revision: s.Revision(), NotNewer: true, Delete: true}},
		Records: []cellstate.Record{{Key: cellstate.JobKey(name), Read: s.Job(name).Revision}},
	})
}
