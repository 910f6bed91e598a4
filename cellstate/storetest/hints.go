package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A watch is a hint: what it repeats, mixes up or leaves out does not last in a mirror.
func hintLaws() []law {
	return []law{
		{"hints/what is repeated changes nothing", func(c *cell) {
			s := c.side()
			var earlier []cellstate.Batch
			s.link.bends(func(b cellstate.Batch) []cellstate.Batch {
				twice := b
				twice.Changes = nil
				for _, ch := range b.Changes {
					twice.Changes = append(twice.Changes, ch, ch)
				}
				out := []cellstate.Batch{twice, b}
				if len(earlier) > 0 {
					out = append(out, cellstate.Batch{Revision: earlier[0].Revision}) // older than what was seen
				}
				if len(b.Changes) > 0 {
					earlier = append(earlier, b)
				}
				return out
			})
			c.story()
			c.Job(celltest.Job{Name: "b", Count: 2, CPU: 100})
			now := c.Snapshot()
			c.Commit(now, celltest.Txn(now, cellstate.Incremental, claim(now, "b", 0, "n2"), claim(now, "b", 1, "n2")))
			c.same(s)
			if n := s.Loads(); n != 1 {
				c.Errorf("the mirror loaded %d times", n)
			}
		}},
		{"hints/what is old news does not come back", func(c *cell) {
			s := c.side()
			busy := c.story()
			c.sync(s)
			old := c.changes(c.start.Revision(), busy)
			released := slices.IndexFunc(old, func(ch cellstate.Change) bool { return ch.Deleted })
			for _, past := range [][]cellstate.Change{old, old[:released]} { // all of it once more, and without its ends
				once := true
				s.link.bends(func(b cellstate.Batch) []cellstate.Batch {
					if !once || len(b.Changes) == 0 {
						return []cellstate.Batch{b}
					}
					once = false
					return []cellstate.Batch{b, {Revision: busy, Changes: past}}
				})
				c.Node(celltest.Node{Name: fmt.Sprint("later-", len(past))})
				c.same(s)
				if n := s.Loads(); n != 1 && len(past) == len(old) {
					c.Errorf("the mirror loaded %d times", n)
				}
			}
			c.Node(celltest.Node{Name: "n3"})
			c.same(s)
		}},
		{"hints/a batch in the wrong order is put in order", func(c *cell) {
			s := c.side()
			s.link.hold()
			s.link.bends(func(b cellstate.Batch) []cellstate.Batch {
				slices.Reverse(b.Changes)
				return []cellstate.Batch{b}
			})
			c.story()
			s.link.release()
			c.same(s)
			if n := s.Loads(); n != 1 {
				c.Errorf("the mirror loaded %d times", n)
			}
		}},
		{"hints/a change that comes late is not forgotten", func(c *cell) {
			c.Node(celltest.Node{Name: "n1"})
			name := c.Job(celltest.Job{Name: "a", CPU: 100})
			s := c.side()
			var kept []cellstate.Change
			s.link.bends(func(b cellstate.Batch) []cellstate.Batch {
				late := kept
				kept = nil
				b.Changes = slices.DeleteFunc(b.Changes, func(ch cellstate.Change) bool {
					if ch.Key.Parse().Kind == cellstate.KindJob {
						kept = append(kept, ch)
						return true
					}
					return false
				})
				b.Changes = append(b.Changes, late...)
				return []cellstate.Batch{b}
			})
			c.Mark(name, func(j *ohmv1.Job) { j.Stopped = true })
			c.sync(s)
			c.Node(celltest.Node{Name: "n2"})
			c.eventually("the mirror has loaded again", func() bool { return s.Loads() > 1 })
			c.same(s)
		}},
		{"hints/a store that refuses what holds on the snapshot is loaded again", func(c *cell) {
			c.Node(celltest.Node{Name: "n1"})
			name := c.Job(celltest.Job{Name: "a", Count: 2, CPU: 100})
			s := c.side(mirror.CheckEvery(0))
			s.link.loses(func(ch cellstate.Change) bool { return ch.Key.Parse().Kind == cellstate.KindJob })
			c.Mark(name, func(j *ohmv1.Job) { j.Stopped, j.Version = false, 2 })
			c.sync(s)
			c.lost(c.commit(s, one("a", 0, "n1")(s.Snapshot())), cellstate.ReasonJobChanged)
			if n := s.Loads(); n != 2 || s.link.sent.Load() != 1 {
				c.Errorf("the mirror loaded %d times, %d writes were sent", n, s.link.sent.Load())
			}
			c.same(s)
			c.committed(c.commit(s, one("a", 0, "n1")(s.Snapshot())))
		}},
	}
}

// The check finds what no event tells.
func checkLaws() []law {
	type loss struct {
		name string
		do   func(*cell)
	}
	var laws []law
	for _, l := range []loss{
		{"a release", func(c *cell) { c.Release(slot(c.Snapshot(), "a", 1), task.Succeeded) }},
		{"a placement", func(c *cell) { c.Place("a", 3, "n2") }},
		{"a status", func(c *cell) { c.Status(slot(c.Snapshot(), "a", 1), task.Running) }},
		{"a placement and its release", func(c *cell) { c.Place("a", 3, "n2"); c.Release(slot(c.Snapshot(), "a", 3), task.Succeeded) }},
		{"a new job", func(c *cell) { c.Job(celltest.Job{Name: "b"}) }},
		{"a job's mark", func(c *cell) { c.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Stopped = true }) }},
		{"a node's facts", func(c *cell) { c.Node(celltest.Node{Name: "n1", CPU: 1000}) }},
		{"an intent", func(c *cell) { c.Intent(&ohmv1.Intent{Node: "n1", Ineligible: true}) }},
		{"a hold", func(c *cell) { c.Hold(&ohmv1.Hold{Node: "n1", Txn: "t"}) }},
		{"a session", func(c *cell) {
			c.Put(cellstate.Record{Key: cellstate.AliveKey("n1"), Value: &ohmv1.Alive{Node: "n1"}})
		}},
		{"a node's end", func(c *cell) {
			c.Put(cellstate.Record{Key: cellstate.NodeKey("n2"), Read: c.Snapshot().Node("n2").FactsRevision})
		}},
		{"a scheduler", func(c *cell) {
			c.Put(cellstate.Record{Key: cellstate.SchedulerKey("s"), Value: &ohmv1.Scheduler{Name: "s"}},
				cellstate.Record{Key: cellstate.InstanceKey("s", "i"), Value: &ohmv1.SchedulerInstance{Scheduler: "s", Instance: "i"}})
		}},
		{"an instance's end", func(c *cell) {
			row := c.Snapshot().Scheduler("batch")
			c.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", "i"), Read: row.Instances[0].Revision})
		}},
		{"a journal entry", func(c *cell) {
			c.Put(cellstate.Record{Key: cellstate.ConflictKey("batch", "1"), Value: &ohmv1.Conflict{Scheduler: "batch"}})
		}},
		{"a word on a waiting job", func(c *cell) {
			c.Put(cellstate.Record{Key: cellstate.WaitingKey(celltest.Name("a")), Value: &ohmv1.Waiting{}})
		}},
		{"a meta record", func(c *cell) {
			c.Put(cellstate.Record{Key: cellstate.MetaKey("leader/x"), Value: &ohmv1.Meta{Value: "x"}})
		}},
	} {
		laws = append(laws, law{"check/finds that it has missed " + l.name, func(c *cell) {
			c.Put(cellstate.Record{Key: cellstate.SchedulerKey("batch"), Value: &ohmv1.Scheduler{Name: "batch"}},
				cellstate.Record{Key: cellstate.InstanceKey("batch", "i"), Value: &ohmv1.SchedulerInstance{Scheduler: "batch", Instance: "i"}})
			c.Node(celltest.Node{Name: "n1"})
			c.Node(celltest.Node{Name: "n2"})
			c.Job(celltest.Job{Name: "a", Count: 4, CPU: 100})
			c.Place("a", 1, "n1")
			s := c.side(mirror.CheckEvery(100 * time.Millisecond))
			var lost atomic.Int64
			s.link.loses(func(ch cellstate.Change) bool { lost.Add(1); return true })
			l.do(c)
			c.eventually("the mirror has loaded again", func() bool { return s.Loads() == 2 && lost.Load() > 0 })
			s.link.loses(nil)
			c.same(s)
			if s.Differed() != 1 {
				c.Errorf("%d differences", s.Differed())
			}
		}})
	}
	return append(laws, law{"check/lists what a load shows, at any revision", func(c *cell) {
		lister := c.store.(cellstate.Lister)
		last := c.story()
		c.replay(last, func(s *cellstate.Snapshot) {
			for _, most := range []int{2, 1000} {
				seen := 0
				for from, more := cellstate.Key(""), true; more; {
					page, rest, err := lister.List(c.ctx, s.Revision(), from, "", most)
					if err != nil || rest && len(page) != most {
						c.Fatalf("%d keys, more %v, error %v", len(page), rest, err)
					}
					for _, p := range page {
						if p.Key < from || s.RecordRevision(p.Key) != p.Revision {
							c.Errorf("%s stands at %d, listed at %d", p.Key, s.RecordRevision(p.Key), p.Revision)
						}
						seen, from = seen+1, p.Key+"\x00"
					}
					more = rest
				}
				stand := 0
				for range s.Records("", "") {
					stand++
				}
				if seen != stand {
					c.Errorf("revision %d: %d keys, %d listed", s.Revision(), stand, seen)
				}
			}
			fences, err := lister.Fences(c.ctx, s.Revision())
			for n := range s.Nodes() {
				if err != nil || fences[n.Name] != n.Fence {
					c.Errorf("revision %d, node %s: fence %d, listed %d, error %v", s.Revision(), n.Name, n.Fence, fences[n.Name], err)
				}
			}
		})
		page, _, err := lister.List(c.ctx, last, "nodes/", "nodes/n2", 10)
		if err != nil || len(page) != 1 || page[0].Key != "nodes/n1" {
			c.Errorf("%v, error %v", page, err)
		}
		_, _, err = lister.List(c.ctx, last+1000, "", "", 10)
		c.is(err, cellstate.ErrIncarnation)
		if compactor, ok := c.store.(Compactor); ok {
			if err := compactor.Compact(c.ctx, last); err != nil {
				c.Fatal(err)
			}
			_, _, err = lister.List(c.ctx, last-1, "", "", 10)
			c.is(err, cellstate.ErrCompacted)
		}
	}})
}

// same asserts that a mirror comes to show what a load shows.
func (c *cell) same(s *side) {
	c.Helper()
	seen, stored := c.sync(s), c.Snapshot()
	for _, line := range celltest.Differ(seen, stored) {
		c.Errorf("the mirror: %s", line)
	}
}
