package audit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/storetest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// replay audits the whole history of a store.
func replay(t *testing.T, store *memstore.Store) *ohmv1.AuditResponse {
	t.Helper()
	oldest, present, err := store.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := audit.New(oldest)
	for batch, err := range store.Changes(t.Context(), oldest.Revision()) {
		if err == nil {
			err = a.Observe(batch)
		}
		if err != nil {
			t.Fatal(err)
		}
		if batch.Revision >= present {
			break
		}
	}
	return a.Report()
}

func TestEachViolationIsFound(t *testing.T) {
	for _, c := range plants() {
		t.Run(c.name, func(t *testing.T) {
			p := newPlant(t)
			c.plant(p)
			report := replay(t, p.store)
			found := report.GetViolations()
			if len(found) != 1 || found[0].GetLaw() != c.law || !strings.Contains(found[0].GetDetail(), c.detail) {
				t.Fatalf("found %v, want one of %s: %s", found, c.law, c.detail)
			}
			if got := found[0]; got.GetRevision() != report.GetToRevision() || got.GetKey() == "" {
				t.Errorf("at revision %d, key %q; planted at revision %d", got.GetRevision(), got.GetKey(), report.GetToRevision())
			}
		})
	}
}

// What is older than the history is checked as far as one state can show.
func TestOldestStateIsChecked(t *testing.T) {
	visible := map[string]bool{"cpu": true, "memory": true, "disk": true, "two that do not fit together": true, "device shares": true,
		"unknown device": true, "a share below nothing": true, "port with two owners": true, "a record of another slot": true,
		"shares beyond a quota": true, "beyond a share, within a quota": false, "attempt 0": false, "attempt used again": true, "ended and live": true}
	for _, c := range plants() {
		want, listed := visible[c.name]
		if !listed {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			p := newPlant(t)
			c.plant(p)
			if err := p.store.Compact(t.Context(), p.Snapshot().Revision()); err != nil {
				t.Fatal(err)
			}
			found := replayNothing(t, p).GetViolations()
			if (len(found) == 1) != want {
				t.Errorf("found %v", found)
			}
		})
	}
}

func replayNothing(t *testing.T, p *plant) *ohmv1.AuditResponse {
	t.Helper()
	oldest, present, err := p.store.History(t.Context())
	if err != nil || oldest.Revision() != present {
		t.Fatalf("history from %d to %d, error %v", oldest.Revision(), present, err)
	}
	return audit.New(oldest).Report()
}

func TestCleanHistories(t *testing.T) {
	t.Run("random", func(t *testing.T) { // Random audits what it has played
		rapid.Check(t, func(t *rapid.T) { storetest.Random(t, memstore.New()) })
	})
	t.Run("a node that shrank is no violation", func(t *testing.T) {
		p := newPlant(t)
		p.Place("a", 0, "n1")
		p.Node(celltest.Node{Name: "n1", CPU: 10})
		for _, report := range []*ohmv1.AuditResponse{replay(t, p.store), audit.New(p.Snapshot()).Report()} {
			if len(report.GetViolations()) > 0 {
				t.Errorf("found %v", report.GetViolations())
			}
		}
	})
}

func TestCounts(t *testing.T) {
	p := newPlant(t)
	s := p.Snapshot()
	claim := func(i int) cellstate.Claim {
		return celltest.Claim(s, celltest.Slot(s, celltest.Name("a"), "main", i), "n1")
	}
	p.Commit(s, celltest.Txn(s, cellstate.Atomic, claim(0), claim(1)))
	p.Release(claim(0).Slot, task.Succeeded)
	if err := p.store.Compact(t.Context(), p.Snapshot().Revision()); err != nil {
		t.Fatal(err)
	}
	from := p.Snapshot().Revision()
	p.Place("low", 0, "n1")
	got := replay(t, p.store)
	want := &ohmv1.AuditResponse{FromRevision: int64(from), ToRevision: int64(from) + 1, Revisions: 1, Transactions: 2, Placements: 2}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestObserveRefusesWhatDoesNotFollow(t *testing.T) {
	p := newPlant(t)
	a := audit.New(p.Snapshot())
	at := p.Snapshot().Revision()
	change := cellstate.Change{Key: cellstate.MetaKey("x"), Value: &ohmv1.Meta{}, Revision: at}
	if err := a.Observe(cellstate.Batch{Revision: at, Changes: []cellstate.Change{change}}); err == nil {
		t.Error("an old revision was taken")
	}
	if err := a.Observe(cellstate.Batch{Revision: at + 5}); err != nil || a.Report().GetToRevision() != int64(at)+5 {
		t.Errorf("error %v, report %v", err, a.Report())
	}
}

// The work grows with what changes: a history of n commits to a cell of n tasks.
func BenchmarkObserve(b *testing.B) {
	store := memstore.New()
	cell := celltest.New(b, store)
	for i := range 100 {
		cell.Node(celltest.Node{Name: fmt.Sprint("n", i), CPU: 64_000})
	}
	for i := range 20 {
		cell.Job(celltest.Job{Name: fmt.Sprint("j", i), Count: 50, CPU: 1})
	}
	start := cell.Snapshot()
	for i := range 20 {
		s := cell.Snapshot()
		for t := range 50 {
			name := celltest.Name(fmt.Sprint("j", i))
			cell.Commit(s, celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, name, "main", t), cellstate.NodeName(fmt.Sprint("n", t)))))
		}
	}
	var batches []cellstate.Batch
	present := cell.Snapshot().Revision()
	for batch, err := range store.Changes(b.Context(), start.Revision()) {
		if err != nil {
			b.Fatal(err)
		}
		if batches = append(batches, batch); batch.Revision >= present {
			break
		}
	}
	began := time.Now()
	for b.Loop() {
		a := audit.New(start)
		for _, batch := range batches {
			if err := a.Observe(batch); err != nil {
				b.Fatal(err)
			}
		}
		if r := a.Report(); r.GetPlacements() != 1000 || len(r.GetViolations()) > 0 {
			b.Fatal(r)
		}
	}
	b.ReportMetric(float64(b.N)*1000/time.Since(began).Seconds(), "placements/s")
}
