package keeper

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// noting is a store that notes what is asked of it.
type noting struct {
	*memstore.Store
	mu     sync.Mutex
	writes []cellstate.Write
}

func (n *noting) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	n.mu.Lock()
	n.writes = append(n.writes, writes...)
	n.mu.Unlock()
	return n.Store.Commit(ctx, writes...)
}

// Field case 68: whatever only the leader may write compares the leadership key at the revision
// at which this leader took it, in the same write. Each kind of write is provoked here.
func TestEveryWriteIsGuarded(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(8)
		store := &noting{Store: h.store}
		k := New(Config{Store: store, Mirror: h.mirror, Server: "s1", Limits: Limits{DoneAfter: time.Minute, Sweep: time.Second}})
		h.run(k)
		h.pass(time.Minute)
		_, lead := h.Snapshot().Meta(leaderMeta)

		h.Job(celltest.Job{Name: "ends"}) // marked done, then removed
		h.Place("ends", 0, "n5")
		h.Release(celltest.Slot(h.Snapshot(), celltest.Name("ends"), "main", 0), task.Succeeded)
		h.Put(cellstate.Record{Key: cellstate.IntentKey("n6"), Value: &ohmv1.Intent{ // its deadline removed
			Node: "n6", Drain: true, DrainDeadline: timestamppb.New(time.Now().Add(time.Second))}})
		j := h.Snapshot().Job(celltest.Name("web")) // its task makes way
		record := proto.CloneOf(j.Record)
		record.Spec.Stop = &ohmv1.StopPolicy{Replace: "atOnce"}
		h.Put(cellstate.Record{Key: cellstate.JobKey(j.Name), Value: record, Read: j.Revision})
		p := h.Snapshot().Node("n6").Placements()[0]
		h.Put(cellstate.Record{Key: p.Slot.StatusKey(), Value: celltest.StatusOf(p, task.Stopping)})
		for _, n := range []string{"n0", "n1", "n2"} { // the brake, and its end
			h.away(n)
		}
		h.pass(45 * time.Second)
		h.alive("n0")
		h.pass(time.Minute) // the others are given up
		h.pass(2 * time.Minute)

		store.mu.Lock()
		writes := store.writes
		store.mu.Unlock()
		kinds := map[string]bool{}
		for _, w := range writes {
			guarded := false
			for _, g := range w.Guards {
				guarded = guarded || g.Key == cellstate.MetaKey(leaderMeta) && g.Revision == lead
			}
			for _, r := range w.Records {
				if r.Key == cellstate.MetaKey(leaderMeta) {
					guarded = true // it is the leadership itself
				}
				kind, _, _ := strings.Cut(string(r.Key), "/")
				if kind == "meta" {
					kind = string(r.Key)
				}
				kinds[kind] = true
			}
			if !guarded {
				t.Errorf("a write without the leadership: %v", w)
			}
		}
		for _, want := range []string{"jobs", "tasks", "intents", "meta/brake", "meta/leader/keeper"} {
			if !kinds[want] {
				t.Errorf("nothing was written of %s: %v", want, kinds)
			}
		}

		// A leader that was paused comes back with what it had decided: nothing of it applies.
		s := h.Snapshot()
		h.Put(cellstate.Record{Key: cellstate.MetaKey(leaderMeta), Value: &ohmv1.Meta{Value: "s2"}, Read: lead})
		stale := lostWrites(s, loss{s.Node("n5"), s.Node("n5").Placements()}, time.Now())
		h.away("n5")
		if len(stale) == 0 {
			t.Fatal("there is nothing to be given up")
		}
		applied, err := k.commit(h.ctx, cellstate.Guard{Key: cellstate.MetaKey(leaderMeta), Revision: lead}, stale)
		if err != nil || applied[0] {
			t.Errorf("a deposed leader's write applied: %v, %v", applied, err)
		}
	})
}
