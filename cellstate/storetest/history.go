package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
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
				if got == nil || got.Fence != n.Fence || len(got.Placements) != len(n.Placements) || got.Used().CPUMilli != n.Used().CPUMilli {
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
				next := len(now.Node("n1").Placements)
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
		if n := got.Node("n1"); n.Fence != c.Snapshot().Node("n1").Fence || len(n.Placements) != 1 {
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

// Records with a lease end with it.
func leaseLaws() []law {
	alive := func(l cellstate.Lease) cellstate.Record {
		return cellstate.Record{Key: cellstate.AliveKey("n1"), Value: &ohmv1.Alive{Node: "n1"}, Lease: l}
	}
	grant := func(c *cell) (cellstate.Leaser, cellstate.Lease) {
		l := c.store.(cellstate.Leaser)
		id, err := l.Grant(c.ctx, time.Minute)
		if err != nil || id == 0 {
			c.Fatalf("lease %d, error %v", id, err)
		}
		return l, id
	}
	return []law{
		{"leases/a revoked lease takes its records, as an event", func(c *cell) {
			leaser, id := grant(c)
			c.Node(celltest.Node{Name: "n1"})
			c.Put(alive(id))
			s := c.side()
			if s.Snapshot().Node("n1").Alive == nil {
				c.Fatal("the record is not there")
			}
			if err := leaser.Revoke(c.ctx, id); err != nil {
				c.Fatal(err)
			}
			c.eventually("the mirror shows it gone", func() bool { return s.Snapshot().Node("n1").Alive == nil })
			if c.Snapshot().Node("n1").Alive != nil {
				c.Error("the record is still there")
			}
		}},
		{"leases/a record put again without lease stays", func(c *cell) {
			leaser, id := grant(c)
			again := alive(0)
			again.Read = c.Put(alive(id))
			c.Put(again)
			if err := leaser.Revoke(c.ctx, id); err != nil {
				c.Fatal(err)
			}
			if n := c.Snapshot().Node("n1"); n == nil || n.Alive == nil {
				c.Error("the record is gone")
			}
		}},
		{"leases/one that has ended holds nothing", func(c *cell) {
			leaser, id := grant(c)
			if err := leaser.Revoke(c.ctx, id); err != nil {
				c.Fatal(err)
			}
			if out, err := c.store.Commit(c.ctx, cellstate.Write{Records: []cellstate.Record{alive(id)}}); err == nil {
				c.Errorf("outcome %+v", out)
			}
			if err := leaser.KeepAlive(c.ctx, id); err == nil || c.ctx.Err() != nil {
				c.Errorf("keepalive: %v, context: %v", err, c.ctx.Err())
			}
		}},
		{"leases/keeping one alive ends with the context", func(c *cell) {
			leaser, id := grant(c)
			ctx, cancel := context.WithCancel(c.ctx)
			kept := make(chan error, 1)
			go func() { kept <- leaser.KeepAlive(ctx, id) }()
			cancel()
			if err := <-kept; err != nil {
				c.Error(err)
			}
			c.Put(alive(id))
		}},
	}
}

// What this release does not know is kept and left alone.
func unknownLaws() []law {
	return []law{
		{"unknown/keys of a later release disturb nobody", func(c *cell) {
			s := c.side()
			raw := c.store.(RawWriter)
			keys := []cellstate.Key{"future/thing", "tasks/default/a/main/0@1/zone", "tasks/default/a/main/x/placement", "nodes/n1/more"}
			for _, key := range keys {
				if err := raw.PutRaw(c.ctx, key, []byte("\xff not a message")); err != nil {
					c.Fatal(err)
				}
			}
			c.Node(celltest.Node{Name: "n1"})
			c.Job(celltest.Job{Name: "a", CPU: 100})
			c.committed(c.commit(s, one("a", 0, "n1")(c.sync(s))))
			c.sameFences(s)
			seen := map[cellstate.Key]cellstate.Change{}
			for _, ch := range c.changes(c.start.Revision(), c.present()) {
				seen[ch.Key] = ch
			}
			for _, key := range keys {
				if ch := seen[key]; ch.Revision == 0 || ch.Deleted || ch.Value != nil {
					c.Errorf("%s: %+v", key, ch)
				}
				c.refuses(cellstate.Write{Records: []cellstate.Record{{Key: key, Value: &ohmv1.Meta{}}}}) // it is still there
			}
		}},
		{"unknown/fields of a later release survive a rewrite", func(c *cell) {
			field := protowire.AppendString(protowire.AppendTag(nil, 9999, protowire.BytesType), "future")
			job, err := proto.Marshal(&ohmv1.Job{Spec: celltest.Job{Name: "a"}.Proto(), Version: 1})
			if err != nil {
				c.Fatal(err)
			}
			if err := c.store.(RawWriter).PutRaw(c.ctx, cellstate.JobKey(celltest.Name("a")), append(job, field...)); err != nil {
				c.Fatal(err)
			}
			c.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Stopped = true })
			if got := c.Snapshot().Job(celltest.Name("a")).Record.ProtoReflect().GetUnknown(); string(got) != string(field) {
				c.Errorf("unknown fields %q, want %q", got, field)
			}
		}},
	}
}
