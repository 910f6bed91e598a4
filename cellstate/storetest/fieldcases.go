package storetest

import (
	"fmt"
	"sync"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// fieldCases are what people have met with several schedulers over one cluster.
func fieldCases() []law {
	return []law{{"TestCase10", case10}, {"TestCase12", case12}, {"TestCase15", case15}, {"TestCase16", case16}}
}

// case12: two schedulers commit a 3-CPU task to a 4-CPU node from one revision. One
// commits; the other loses a race: it is told to whom and over what, spends no attempt,
// and commits once there is another node.
func case12(c *cell) {
	c.Node(celltest.Node{Name: "n1", CPU: 4000})
	c.Job(celltest.Job{Name: "a", Kind: "service", CPU: 3000})
	c.Job(celltest.Job{Name: "b", CPU: 3000})
	s1, s2 := c.side(), c.side()
	now := c.sync(s1, s2)
	txns := []*cellstate.Txn{one("a", 0, "n1")(now), one("b", 0, "n1")(now)}
	results := make([]cellstate.Result, 2)
	errs := make([]error, 2)
	var both sync.WaitGroup
	for i, s := range []*side{s1, s2} {
		both.Go(func() {
			r, err := s.Commit(c.ctx, txns[i])
			results[i], errs[i] = r[0], err
		})
	}
	both.Wait()
	if errs[0] != nil || errs[1] != nil {
		c.Fatal(errs)
	}
	won, lost := results[0], results[1]
	if len(won.Committed) == 0 {
		won, lost = lost, won
	}
	c.committed(won)
	got := c.lost(lost, cellstate.ReasonResources)
	if got.Dimension != "cpu" || got.Wanted != "3" || got.Free != "1" {
		c.Errorf("conflict over %s, wanted %s, free %s; want cpu, 3, 1", got.Dimension, got.Wanted, got.Free)
	}
	if got.Winner == nil || got.Winner.TxnID() != won.Txn.ID || got.Winner.Revision != won.Revision || len(got.Between) != 0 {
		c.Errorf("winner %v between %v, want %s at %d", got.Winner, got.Between, won.Txn.ID, won.Revision)
	}
	slot := lost.Txn.Claims[0].Slot
	if t := c.Snapshot().Job(slot.JobName()).Task(slot); t != nil {
		c.Errorf("the loser's slot has %v", t)
	}
	c.Node(celltest.Node{Name: "n2", CPU: 4000})
	now = c.sync(s1, s2)
	c.committed(c.commit(s2, celltest.Txn(now, cellstate.Incremental, celltest.Claim(now, slot, "n2"))))
	if p := c.live(slot); p.GetAttempt() != 1 {
		c.Errorf("the loser runs as attempt %d", p.GetAttempt())
	}
}

// case15: the node's fence has moved, but the second task still fits: no conflict.
func case15(c *cell) {
	c.Node(celltest.Node{Name: "n1", CPU: 64_000})
	c.Job(celltest.Job{Name: "a", CPU: 1000})
	c.Job(celltest.Job{Name: "b", CPU: 1000})
	first := c.side()
	r, s := c.late(one("b", 0, "n1"), func() {
		c.committed(c.commit(first, one("a", 0, "n1")(first.Snapshot())))
	})
	c.refusedOnce(s) // the coarse check did see the fence move
	c.committed(r)
}

// case16: 500 nodes are rewritten as agents do while two schedulers commit 1,000 tasks:
// no write is refused on that account.
func case16(c *cell) {
	const nodes, perSide, batch = 500, 500, 50
	write := func(writes []cellstate.Write) {
		out, err := c.store.Commit(c.ctx, writes...)
		if err != nil {
			c.Error(err)
			return
		}
		for i, at := range out.Applied {
			if at == 0 {
				c.Errorf("write %d of the agents did not apply", i)
			}
		}
	}
	name := func(i int) cellstate.NodeName { return cellstate.NodeName(fmt.Sprintf("n%03d", i)) }
	var writes []cellstate.Write
	for i := range nodes {
		writes = append(writes, cellstate.NodeWrite(name(i), nil, cellstate.Record{Key: cellstate.NodeKey(name(i)), Value: celltest.Node{Name: string(name(i))}.Proto()}))
	}
	write(writes)
	c.Job(celltest.Job{Name: "a", Count: perSide, CPU: 1000})
	c.Job(celltest.Job{Name: "b", Count: perSide, CPU: 1000})
	jobs := []string{"a", "b"}
	sides := []*side{c.side(), c.side()}
	agents := c.side()
	c.sync(sides...)

	done := make(chan struct{})
	var beating, committing sync.WaitGroup
	beating.Go(func() {
		for round := 0; ; round++ {
			select {
			case <-done:
				if round > 0 {
					return
				}
			default:
			}
			write(heartbeats(c.sync(agents), round, name, nodes, batch))
		}
	})
	for side, s := range sides {
		committing.Go(func() {
			for from := 0; from < perSide; from += batch {
				now := s.Snapshot()
				var claims []cellstate.Claim
				for i := from; i < from+batch; i++ {
					claims = append(claims, claim(now, jobs[side], i, name((2*i+side)%nodes))) // nodes of its own
				}
				r, err := s.Commit(c.ctx, celltest.Txn(now, cellstate.Incremental, claims...))
				if err != nil || len(r[0].Committed) != batch || len(r[0].Conflicts) > 0 {
					c.Errorf("committed %d of %d, conflicts %v, error %v", len(r[0].Committed), batch, r[0].Conflicts, err)
				}
				c.sync(s)
			}
		})
	}
	committing.Wait()
	close(done)
	beating.Wait()
	for i, s := range sides {
		if n := s.link.refused.Load(); n > 0 {
			c.Errorf("side %d: %d writes refused", i, n)
		}
	}
	placed := 0
	for n := range c.Snapshot().Nodes() {
		placed += n.Count()
		if n.Alive == nil {
			c.Errorf("node %s never beat", n.Name)
		}
	}
	if placed != 2*perSide {
		c.Errorf("%d placed", placed)
	}
}

// heartbeats rewrites alive/ of all nodes, and writes the status of what was placed since.
func heartbeats(s *cellstate.Snapshot, round int, name func(int) cellstate.NodeName, nodes, batch int) []cellstate.Write {
	var writes []cellstate.Write
	var records []cellstate.Record
	flush := func() {
		if len(records) > 0 {
			writes = append(writes, cellstate.Write{Records: records})
			records = nil
		}
	}
	add := func(r cellstate.Record) {
		if records = append(records, r); len(records) == batch {
			flush()
		}
	}
	for i := range nodes {
		n := s.Node(name(i))
		add(cellstate.Record{Key: cellstate.AliveKey(n.Name), Read: n.AliveRevision, Value: &ohmv1.Alive{Node: string(n.Name), Session: fmt.Sprint(round)}})
		for _, p := range n.Placements() {
			if t := s.Job(p.Slot.JobName()).Task(p.Slot); t.Status == nil {
				add(cellstate.Record{Key: p.Slot.StatusKey(), Value: celltest.StatusOf(p, task.Running)})
			}
		}
	}
	flush()
	return writes
}
