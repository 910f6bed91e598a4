package storetest

import (
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
)

// L2 and L3 for gangs of more tasks than a request of etcd's may have operations. Whether
// each slot is free is then one condition on all of them.
func gangLaws() []law {
	laws := []law{
		{"L3/a gang over as many nodes as the store allows", func(c *cell) {
			g := newLargeGang(c, 300, min(250, c.store.Limits().Nodes))
			r := c.committed(g.commit(c.side()))
			c.whole(r.Revision, r.Txn)
		}},
		{"L3/a large gang of which one node lost the race commits nothing", func(c *cell) {
			g := newLargeGang(c, 200, 50)
			c.Job(celltest.Job{Name: "one", CPU: 1_000_000})
			r, s := c.late(g.txn, func() { c.Place("one", 0, "n017") })
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonResources)
			g.placed(0)
		}},
		{"L3/a gang of which nothing stands begins with its minimum or not at all", func(c *cell) {
			g := newLargeGang(c, 150, 10)
			g.count = 99 // of at least 100
			c.lost(g.commit(c.side()), cellstate.ReasonGang)
			g.placed(0)
			g.count = 100
			c.committed(g.commit(c.side()))
			s := c.side()
			c.committed(c.commit(s, celltest.Txn(s.Snapshot(), cellstate.Atomic, claim(s.Snapshot(), "g", 120, "n000"))))
			g.placed(101)
		}},
		{"L2/a part of a large gang starts again after the end of all of it", func(c *cell) {
			g := newLargeGang(c, 200, 50)
			c.committed(g.commit(c.side()))
			g.release()
			g.count = 150 // the others stay ended
			c.committed(g.commit(c.side()))
			g.placed(150)
		}},
		{"L2/a large gang on a snapshot that missed an event takes no slot twice", func(c *cell) {
			g := newLargeGang(c, 201, 50)
			g.count = 200
			s := c.side()
			s.link.loses(func(ch cellstate.Change) bool { return ch.Key.Parse().Kind == cellstate.KindPlacement })
			c.Place("g", 123, "n050") // a node that the gang does not use
			c.present()
			c.sync(s) // it is newer than what it has missed
			r := c.commit(s, g.txn(s.Snapshot()))
			c.refusedOnce(s)
			if len(r.Committed) > 0 {
				c.Errorf("committed %v", r.Committed)
			}
			g.placed(1)
		}},
	}
	for _, n := range []int{127, 128, 129, 500} {
		laws = append(laws, law{fmt.Sprintf("L3/a gang of %d tasks commits at one revision, and again after its end", n), func(c *cell) {
			g := newLargeGang(c, n, 100)
			for attempt := 1; attempt <= 3; attempt++ {
				r := c.committed(g.commit(c.side()))
				if p := c.live(slot(c.Snapshot(), "g", n-1)); int(p.GetAttempt()) != attempt || p.Revision != r.Revision {
					c.Fatalf("attempt %d is live since %d, want %d since %d", p.GetAttempt(), p.Revision, attempt, r.Revision)
				}
				c.whole(r.Revision, r.Txn)
				g.release()
			}
			c.Job(g.job()) // a new version, whose slots lie between those of the one before
			r := c.committed(g.commit(c.side()))
			c.whole(r.Revision, r.Txn)
		}})
	}
	// The first, one within and the last of the range of keys: 9@ sorts after 99@.
	// A job that is claimed whole, for the first time, compares more than its slots.
	for _, index := range []int{0, 123, 9} {
		laws = append(laws,
			law{fmt.Sprintf("L2/a large job of which slot %d was taken meanwhile", index), func(c *cell) {
				g := newLargeGang(c, 200, 50)
				r, s := c.late(g.txn, func() { c.Place("g", index, "n050") })
				c.refusedOnce(s)
				c.lost(r, cellstate.ReasonSlotTaken)
				g.placed(1)
			}},
			law{fmt.Sprintf("L2/a large gang of which slot %d was taken meanwhile", index), func(c *cell) {
				g := newLargeGang(c, 201, 50)
				g.count = 200
				r, s := c.late(g.txn, func() { c.Place("g", index, "n050") })
				c.refusedOnce(s)
				c.lost(r, cellstate.ReasonSlotTaken)
				g.placed(1)
			}},
			law{fmt.Sprintf("L2/a large gang of which an attempt of slot %d was used meanwhile", index), func(c *cell) {
				g := newLargeGang(c, 201, 50)
				g.count = 200
				r, s := c.late(g.txn, func() {
					c.Place("g", index, "n050")
					c.Release(slot(c.Snapshot(), "g", index), task.Failed)
				})
				c.refusedOnce(s)
				if got := c.lost(r, cellstate.ReasonSlotTaken); got.Dimension != "attempt" {
					c.Errorf("conflict %+v, want one over the attempt", got)
				}
				g.placed(0)
			}})
	}
	return laws
}

// largeGang is the job g, of identical tasks that are dealt out to the nodes n000, n001, …,
// of which there is one more than it uses.
type largeGang struct {
	*cell
	count, nodes int
}

func newLargeGang(c *cell, count, nodes int) *largeGang {
	g := &largeGang{c, count, nodes}
	var writes []cellstate.Write
	for i := range nodes + 1 {
		n := celltest.Node{Name: fmt.Sprintf("n%03d", i), CPU: 1_000_000}
		writes = append(writes, cellstate.NodeWrite(cellstate.NodeName(n.Name), nil, cellstate.Record{Key: cellstate.NodeKey(cellstate.NodeName(n.Name)), Value: n.Proto()}))
	}
	g.all(writes)
	c.Job(g.job())
	return g
}

func (g *largeGang) job() celltest.Job {
	return celltest.Job{Name: "g", Kind: "ml", Gang: true, Min: 100, Count: g.count, CPU: 1000}
}

// txn claims a node for each task.
func (g *largeGang) txn(s *cellstate.Snapshot) *cellstate.Txn {
	var claims []cellstate.Claim
	for i := range g.count {
		claims = append(claims, claim(s, "g", i, cellstate.NodeName(fmt.Sprintf("n%03d", i%g.nodes))))
	}
	return celltest.Txn(s, cellstate.Atomic, claims...)
}

func (g *largeGang) commit(s *side) cellstate.Result { return g.cell.commit(s, g.txn(s.Snapshot())) }

// release ends all tasks, one by one.
func (g *largeGang) release() {
	g.Helper()
	var writes []cellstate.Write
	for _, t := range g.Snapshot().Job(celltest.Name("g")).Tasks {
		if t.Placement != nil {
			writes = append(writes, cellstate.Write{Records: cellstate.ReleaseRecords(t, celltest.StatusOf(t.Placement, task.Failed))})
		}
	}
	g.all(writes)
}

// all commits writes, each of which must apply.
func (g *largeGang) all(writes []cellstate.Write) {
	g.Helper()
	out, err := g.store.Commit(g.ctx, writes...)
	if err != nil {
		g.Fatal(err)
	}
	for i, at := range out.Applied {
		if at == 0 {
			g.Fatalf("write %d did not apply", i)
		}
	}
}

// placed asserts how many of its tasks have a live placement, in the store.
func (g *largeGang) placed(want int) {
	g.Helper()
	got := 0
	for _, t := range g.Snapshot().Job(celltest.Name("g")).Tasks {
		if t.Placement != nil {
			got++
		}
	}
	if got != want {
		g.Errorf("%d placements, want %d", got, want)
	}
}
