package storetest

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
)

// A Historian's past leads to the present.
func historianLaws() []law {
	return []law{{"history/leads from the oldest state to the present one", func(c *cell) {
		c.story()
		oldest, present, err := c.store.(cellstate.Historian).History(c.ctx)
		if err != nil {
			c.Fatal(err)
		}
		if oldest.Revision() >= present || present < c.Snapshot().Revision() {
			c.Errorf("from %d to %d", oldest.Revision(), present)
		}
		got := oldest
		for batch, err := range c.store.Changes(c.ctx, oldest.Revision()) {
			if err != nil {
				c.Fatal(err)
			}
			var gaps []cellstate.NodeName
			if got, gaps, err = got.Apply(batch); err != nil || len(gaps) > 0 {
				c.Fatalf("gaps %v, error %v", gaps, err)
			}
			if got.Node("n2") != nil && got.Job(celltest.Name("a")) != nil && got.Job(celltest.Name("a")).Record.GetStopped() {
				break
			}
		}
		if n := got.Node("n1"); n.Fence != c.Snapshot().Node("n1").Fence || n.Count() != 1 {
			c.Errorf("replayed %v", n)
		}
	}}}
}

// History that is gone is said to be gone, and a mirror loads again.
func compactionLaws() []law {
	return []law{
		{"compaction/changes after it are refused, later ones are not", func(c *cell) {
			last := c.story()
			if err := c.store.(Compactor).Compact(c.ctx, last-1); err != nil {
				c.Fatal(err)
			}
			for _, err := range c.store.Changes(c.ctx, c.start.Revision()) {
				c.is(err, cellstate.ErrCompacted)
				break
			}
			if got := c.changes(last-1, last); len(got) != 1 {
				c.Errorf("changes %v", got)
			}
		}},
		{"compaction/a mirror whose place is gone loads again", func(c *cell) {
			last := c.story()
			if err := c.store.(Compactor).Compact(c.ctx, last); err != nil {
				c.Fatal(err)
			}
			s := c.sideOver(&link{Store: c.store, stale: c.start.Revision()})
			c.eventually("the mirror has loaded again", func() bool { return s.Loads() == 2 })
			c.Node(celltest.Node{Name: "n3"})
			if c.sync(s).Node("n3") == nil {
				c.Error("the mirror does not follow")
			}
		}},
	}
}
