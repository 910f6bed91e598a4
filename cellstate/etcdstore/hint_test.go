package etcdstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
)

// follower is a mirror of a cell that sees it through a proxy.
func follower(t *testing.T, b *bent, cell string, options ...mirror.Option) *mirror.Mirror {
	t.Helper()
	s, err := Open(t.Context(), Config{Endpoints: []string{b.address}, Cell: cell})
	if err != nil {
		t.Fatal(err)
	}
	m := mirror.New(s, zap.NewNop(), options...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return m
}

// converges waits until a mirror shows what the store holds.
func converges(t *testing.T, m *mirror.Mirror, store *Store, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		stored, err := store.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen, err := m.WaitSnapshot(ctx, stored.Revision())
		if err != nil {
			t.Fatalf("not within %v: %v", within, err)
		}
		lines := celltest.Differ(seen, stored)
		if len(lines) == 0 {
			return
		}
		if seen.Revision() == stored.Revision() && ctx.Err() != nil {
			t.Fatalf("not within %v: %s", within, strings.Join(lines, "\n"))
		}
		_, newer := m.Watch()
		select {
		case <-newer:
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Field case 96: a reader that was paused for 1,000 writes and a compaction. It shows what
// is stored within 5 s, whether its connection has kept the events or was lost.
func TestCase96(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("connection lost=%v", lost), func(t *testing.T) {
			direct := open(t, Config{})
			cell := celltest.New(t, direct.Store)
			cell.Node(celltest.Node{Name: "n1", CPU: 1000_000})
			cell.Job(celltest.Job{Name: "a", Count: 1000, CPU: 10})
			b := newBent(t)
			m := follower(t, b, direct.cfg.Cell, mirror.CheckEvery(0))
			converges(t, m, direct.Store, time.Minute)
			b.hold()
			before := m.Snapshot()
			for i := range 1000 {
				out, err := direct.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{numbered(i)}})
				if err != nil || out.Applied[0] == 0 {
					t.Fatal(out, err)
				}
			}
			cell.Place("a", 0, "n1")
			if err := direct.Compact(t.Context(), cell.Snapshot().Revision()); err != nil {
				t.Fatal(err)
			}
			if at := m.Snapshot().Revision(); at != before.Revision() {
				t.Fatalf("the mirror was not paused: it is at %d", at)
			}
			if lost {
				b.sever()
			}
			b.release()
			converges(t, m, direct.Store, 5*time.Second)
			if want := map[bool]int64{false: 1, true: 2}[lost]; m.Loads() != want {
				t.Errorf("%d loads, want %d", m.Loads(), want)
			}
			cell.Place("a", 1, "n1")
			converges(t, m, direct.Store, 5*time.Second)
		})
	}
}

// faults are what a proxy does to the events of a watch, with what chance each.
type faults struct {
	rng                          *rand.Rand
	drop, repeat, late           float64
	dropped, repeated, reordered int
	events                       int
	kept                         []*mvccpb.Event // to come later
	mu                           sync.Mutex
}

func (f *faults) bend(r *pb.WatchResponse) []*pb.WatchResponse {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(r.Events) == 0 {
		return []*pb.WatchResponse{r}
	}
	late := f.kept
	f.kept = nil
	var out []*mvccpb.Event
	for _, e := range r.Events {
		f.events++
		switch p := f.rng.Float64(); {
		case p < f.drop:
			f.dropped++
		case p < f.drop+f.repeat:
			f.repeated++
			out = append(out, e, e)
			f.kept = append(f.kept, e)
		case p < f.drop+f.repeat+f.late:
			f.reordered++
			f.kept = append(f.kept, e)
		default:
			out = append(out, e)
		}
	}
	if f.late > 0 {
		f.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	with := func(events []*mvccpb.Event) *pb.WatchResponse {
		copied := proto.CloneOf(r)
		copied.Events = events
		return copied
	}
	replies := []*pb.WatchResponse{with(append(out, late...))}
	if len(replies[0].Events) == 0 { // would be a promise that nothing is missing
		return nil
	}
	return replies
}

// Field case 98: a watch that loses 1 % of the events, repeats 1 %, mixes them up, or all
// of that. Two schedulers work meanwhile, one of them on what it sees through that watch.
// No promise is broken, and in the end it sees what is stored.
func TestCase98(t *testing.T) {
	for _, c := range []struct {
		name               string
		drop, repeat, late float64
	}{
		{"loses", 0.01, 0, 0},
		{"repeats", 0, 0.01, 0},
		{"mixes up", 0, 0, 0.01},
		{"all of it", 0.01, 0.01, 0.01},
	} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s/%d", c.name, seed), func(t *testing.T) {
				t.Parallel()
				direct := open(t, Config{})
				start := celltest.New(t, direct.Store).Snapshot()
				f := &faults{rng: rand.New(rand.NewPCG(98, seed)), drop: c.drop, repeat: c.repeat, late: c.late}
				b := newBent(t)
				m := follower(t, b, direct.cfg.Cell, mirror.CheckEvery(time.Second))
				b.bends(f.bend)
				live(t, direct.Store, m)
				converges(t, m, direct.Store, time.Minute)
				if f.events < 1000 || (f.dropped > 0) != (c.drop > 0) || (f.repeated > 0) != (c.repeat > 0) || (f.reordered > 0) != (c.late > 0) {
					t.Errorf("of %d events %d were dropped, %d repeated, %d late", f.events, f.dropped, f.repeated, f.reordered)
				}
				t.Logf("%d events, %d dropped, %d repeated, %d late: %d loads, %d differences", f.events, f.dropped, f.repeated, f.reordered, m.Loads(), m.Differed())
				audited(t, start, direct.Store)
			})
		}
	}
}

// live lets two schedulers place, one on the store and one on a mirror of it, and an agent
// report, end and release what they placed.
func live(t *testing.T, store *Store, m *mirror.Mirror) {
	cell := celltest.New(t, store)
	const nodes, rounds, each = 20, 25, 10
	for i := range nodes {
		cell.Node(celltest.Node{Name: fmt.Sprintf("n%02d", i), CPU: 4000})
	}
	for _, job := range []string{"a", "b"} {
		cell.Job(celltest.Job{Name: job, Count: rounds * each, CPU: 500})
	}
	// decide claims nodes for the tasks of a round, as far as they fit on a snapshot.
	decide := func(now *cellstate.Snapshot, job string, round int) *cellstate.Txn {
		var claims []cellstate.Claim
		for i := range each {
			n := cellstate.NodeName(fmt.Sprintf("n%02d", (round+i*(1+len(claims)))%nodes))
			claims = append(claims, celltest.Claim(now, celltest.Slot(now, celltest.Name(job), "main", round*each+i), n))
		}
		txn := celltest.Txn(now, cellstate.Incremental, claims...)
		fit, _ := cellstate.Validate(now, txn)
		txn.Claims = nil
		for _, i := range fit {
			txn.Claims = append(txn.Claims, claims[i])
		}
		return txn
	}
	for round := range rounds {
		now := cell.Snapshot()
		cell.Commit(now, decide(now, "a", round))
		if now = m.Snapshot(); now.Job(celltest.Name("b")) != nil {
			if _, err := m.Commit(t.Context(), decide(now, "b", round)); err != nil {
				t.Fatal(err)
			}
		}
		report(t, store, cell.Snapshot())
	}
}

// report writes a status for whatever has none, and releases the rest.
func report(t *testing.T, store *Store, now *cellstate.Snapshot) {
	t.Helper()
	var writes []cellstate.Write
	for n := range now.Nodes() {
		for _, p := range n.Placements() {
			row := now.Job(p.Slot.JobName()).Task(p.Slot)
			w := cellstate.Write{
				Guards:  []cellstate.Guard{{Key: p.Slot.PlacementKey(), Revision: p.Revision}},
				Records: []cellstate.Record{{Key: p.Slot.StatusKey(), Value: celltest.StatusOf(p, task.Running)}},
			}
			if row.Status != nil {
				w = cellstate.Write{Records: cellstate.ReleaseRecords(row, celltest.StatusOf(p, task.Succeeded))}
			}
			writes = append(writes, w)
		}
	}
	if len(writes) == 0 {
		return
	}
	if _, err := store.Commit(t.Context(), writes...); err != nil {
		t.Fatal(err)
	}
}

// audited asserts that no revision of the store broke a promise.
func audited(t *testing.T, start *cellstate.Snapshot, store *Store) {
	t.Helper()
	present, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := audit.New(start)
	for batch, err := range store.Changes(t.Context(), start.Revision()) {
		if err == nil {
			err = a.Observe(batch)
		}
		if err != nil {
			t.Fatal(err)
		}
		if batch.Revision >= present.Revision() {
			break
		}
		if err := store.Progress(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if v := a.Report().GetViolations(); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
}
