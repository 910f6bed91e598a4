package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// story writes a little of everything and returns the last revision.
func (c *cell) story() cellstate.Revision {
	c.Helper()
	c.Node(celltest.Node{Name: "n1"})
	c.Node(celltest.Node{Name: "n2"})
	c.Job(celltest.Job{Name: "a", Count: 4, CPU: 100})
	now := c.Snapshot()
	c.Commit(now, celltest.Txn(now, cellstate.Incremental, claim(now, "a", 0, "n1"), claim(now, "a", 1, "n2")))
	c.Status(slot(now, "a", 0), task.Running)
	c.Release(slot(now, "a", 0), task.Succeeded)
	c.Place("a", 2, "n1")
	return c.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Stopped = true })
}

// Changes yields whole revisions, in order, none lost or repeated.
func historyLaws() []law {
	return []law{
		{"changes/whole revisions, from any revision on", func(c *cell) {
			last := c.story()
			all := c.changes(c.start.Revision(), last)
			if len(all) < 10 {
				c.Fatalf("only %d changes", len(all))
			}
			if !slices.IsSortedFunc(all, func(a, b cellstate.Change) int { return int(a.Revision - b.Revision) }) {
				c.Errorf("not in order: %v", all)
			}
			for after := c.start.Revision(); after < last; after += 3 { // a watch may take a moment to begin
				want := slices.DeleteFunc(slices.Clone(all), func(ch cellstate.Change) bool { return ch.Revision <= after })
				got := c.changes(after, last)
				if !slices.Equal(names(got), names(want)) {
					c.Errorf("after %d: %v, want %v", after, names(got), names(want))
				}
			}
		}},
		{"changes/replayed they are what a load shows", func(c *cell) {
			last := c.story()
			var replayed *cellstate.Snapshot
			c.replay(last, func(s *cellstate.Snapshot) { replayed = s })
			stored := c.Snapshot()
			for j := range stored.Jobs() {
				got := replayed.Job(j.Name)
				if got == nil || got.Revision != j.Revision || !proto.Equal(got.Record, j.Record) || len(got.Tasks) != len(j.Tasks) {
					c.Errorf("job %s: replayed %v, stored %v", j.Name, got, j)
				}
			}
			for n := range stored.Nodes() {
				got := replayed.Node(n.Name)
				if got == nil || got.Fence != n.Fence || got.Count() != n.Count() || got.Used().CPUMilli != n.Used().CPUMilli {
					c.Errorf("node %s: replayed %v, stored %v", n.Name, got, n)
				}
			}
		}},
		{"changes/a revision is never split over two batches", func(c *cell) {
			ctx, cancel := context.WithCancel(c.ctx)
			defer cancel()
			seen := make(chan error, 1)
			target := make(chan cellstate.Revision, 1)
			go func() {
				reached, last := c.start.Revision(), cellstate.Revision(0)
				for batch, err := range c.store.Changes(ctx, reached) {
					if err != nil {
						seen <- err
						return
					}
					for _, ch := range batch.Changes {
						if ch.Revision <= reached || ch.Revision > batch.Revision {
							seen <- fmt.Errorf("a change of revision %d in the batch (%d, %d]", ch.Revision, reached, batch.Revision)
							return
						}
					}
					reached = max(reached, batch.Revision)
					if last == 0 {
						select {
						case last = <-target:
						default:
						}
					}
					if last > 0 && reached >= last {
						seen <- nil
						return
					}
				}
				seen <- errors.New("the changes ended")
			}()
			c.Node(celltest.Node{Name: "n1"})
			c.Job(celltest.Job{Name: "a", Count: 40, CPU: 1})
			for range 10 {
				now := c.Snapshot()
				next := now.Node("n1").Count()
				var claims []cellstate.Claim
				for i := range 4 {
					claims = append(claims, claim(now, "a", next+i, "n1"))
				}
				c.Commit(now, celltest.Txn(now, cellstate.Incremental, claims...))
			}
			target <- c.Snapshot().Revision()
			c.Node(celltest.Node{Name: "n2"}) // one more batch, so that target is looked at
			if err := <-seen; err != nil {
				c.Error(err)
			}
		}},
		{"changes/an idle watcher learns the present revision on request", func(c *cell) {
			s := c.side()
			c.Put(cellstate.Record{Key: cellstate.MetaKey("x"), Value: &ohmv1.Meta{Value: "1"}})
			if got := c.sync(s); got.Revision() < c.Snapshot().Revision() {
				c.Errorf("revision %d", got.Revision())
			}
			for range 3 {
				if err := c.store.Progress(c.ctx); err != nil {
					c.Fatal(err)
				}
			}
			c.sync(s)
		}},
		{"changes/end with their context", func(c *cell) {
			ctx, cancel := context.WithCancel(c.ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range c.store.Changes(ctx, c.start.Revision()) {
				}
			}()
			cancel()
			select {
			case <-ended:
			case <-c.ctx.Done():
				c.Error("the watch goes on")
			}
		}},
	}
}

// names are revision, key and kind of each change.
func names(changes []cellstate.Change) []string {
	var out []string
	for _, ch := range changes {
		out = append(out, fmt.Sprint(ch.Revision, " ", ch.Key, " ", ch.Deleted))
	}
	slices.Sort(out)
	return out
}
