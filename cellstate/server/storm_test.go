package server

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// counting is a store of which the gate can be shut, and which counts what goes through.
type counting struct {
	*memstore.Store
	gate chan struct{} // closed: open

	mu       sync.Mutex
	requests int
	most     int // writes of one
}

func (c *counting) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	select {
	case <-c.gate:
	case <-ctx.Done():
		return cellstate.Outcome{}, fmt.Errorf("%w: the gate is shut", cellstate.ErrUnreachable)
	}
	c.mu.Lock()
	c.requests++
	c.most = max(c.most, len(writes))
	c.mu.Unlock()
	return c.Store.Commit(ctx, writes...)
}

// All tasks of 5,000 nodes end while the store stands still, and their agents say so again
// and again: what waits is one report of each, it is committed in few requests of bounded
// size, and every end is stored.
func TestStatusStorm(t *testing.T) {
	const nodes, jobs, perJob, repeats = 5000, 100, 100, 3 // two tasks a node
	store := &counting{Store: memstore.New(), gate: make(chan struct{})}
	cell := celltest.New(t, store.Store)
	for i := range jobs {
		cell.Job(celltest.Job{Name: fmt.Sprintf("j%02d", i), Count: perJob, CPU: 1})
	}
	var facts []cellstate.Write
	for i := range nodes {
		node := celltest.Node{Name: fmt.Sprintf("n%04d", i)}.Proto()
		name := cellstate.NodeName(node.GetName())
		facts = append(facts, cellstate.NodeWrite(name, nil, cellstate.Record{Key: cellstate.NodeKey(name), Value: node}))
	}
	if _, err := store.Store.Commit(t.Context(), facts...); err != nil {
		t.Fatal(err)
	}
	s := cell.Snapshot()
	var claims []cellstate.Claim
	for i := range jobs * perJob {
		slot := celltest.Slot(s, celltest.Name(fmt.Sprintf("j%02d", i/perJob)), "main", i%perJob)
		claims = append(claims, celltest.Claim(s, slot, cellstate.NodeName(fmt.Sprintf("n%04d", i%nodes))))
	}
	cell.Commit(s, celltest.Txn(s, cellstate.Incremental, claims...))
	placed := cell.Snapshot()

	ctx, cancel := context.WithCancel(t.Context())
	m := mirror.New(store, zap.NewNop())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	running.Go(func() { _ = m.Run(ctx) })
	if _, err := m.WaitSnapshot(ctx, placed.Revision()); err != nil {
		t.Fatal(err)
	}
	r := newReports(New(Config{Store: store, Mirror: m, Cell: "test", Name: "s"}))
	running.Go(func() { _ = r.run(ctx) })
	for range repeats {
		for n := range placed.Nodes() {
			var ends []*ohmv1.Status
			for _, p := range n.Placements() {
				end := celltest.StatusOf(p, task.Succeeded)
				end.Cause = task.Exited
				ends = append(ends, end)
			}
			r.add(n.Name, ends)
		}
		r.mu.Lock()
		if waits := len(r.waiting); waits > jobs*perJob {
			t.Errorf("%d reports wait for %d tasks", waits, jobs*perJob)
		}
		r.mu.Unlock()
	}
	close(store.gate)
	for snapshot, newer := m.Watch(); ; snapshot, newer = m.Watch() {
		ended, live := 0, 0
		for j := range snapshot.Jobs() {
			for _, row := range j.Tasks {
				ended += len(row.Ended)
				if row.Placement != nil {
					live++
				}
			}
		}
		if ended == jobs*perJob && live == 0 {
			break
		}
		select {
		case <-newer:
		case <-t.Context().Done():
			t.Fatalf("%d of %d ends are stored", ended, jobs*perJob)
		}
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	if store.most > reportWrites || store.requests > 4*jobs*perJob/reportWrites {
		t.Errorf("%d requests, of up to %d writes", store.requests, store.most)
	}
}
