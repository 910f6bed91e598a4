package cellstate_test

import (
	"fmt"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
)

// benchCell has 1000 nodes with ten tasks each, and a job of a hundred tasks that wait.
func benchCell(b *testing.B) (*memstore.Store, *cellstate.Snapshot, *cellstate.Txn) {
	store := memstore.New()
	cell := celltest.New(b, store)
	for i := range 1000 {
		cell.Write(cellstate.NodeWrite(node(i), nil, cellstate.Record{Key: cellstate.NodeKey(node(i)), Value: celltest.Node{Name: string(node(i)), CPU: 64_000}.Proto()}))
	}
	for j := range 10 {
		name := cell.Job(celltest.Job{Name: fmt.Sprint("full", j), Count: 1000, CPU: 100})
		s := cell.Snapshot()
		var claims []cellstate.Claim
		for i := range 1000 {
			claims = append(claims, celltest.Claim(s, celltest.Slot(s, name, "main", i), node(i)))
		}
		cell.Commit(s, celltest.Txn(s, cellstate.Incremental, claims...))
	}
	cell.Job(celltest.Job{Name: "waits", Count: 100, CPU: 100})
	s := cell.Snapshot()
	var claims []cellstate.Claim
	for i := range 100 {
		claims = append(claims, claim(s, "waits", i, node(i)))
	}
	return store, s, celltest.Txn(s, cellstate.Incremental, claims...)
}

func node(i int) cellstate.NodeName { return cellstate.NodeName(fmt.Sprintf("n%04d", i)) }

// BenchmarkValidate judges 100 claims on a cell of 1000 nodes and 10,000 tasks.
func BenchmarkValidate(b *testing.B) {
	_, s, txn := benchCell(b)
	b.ReportAllocs()
	for b.Loop() {
		if fit, _ := cellstate.Validate(s, txn); len(fit) != 100 {
			b.Fatal(len(fit))
		}
	}
}

// BenchmarkApply applies one revision of 100 placements to a cell of 1000 nodes and 10,000 tasks.
func BenchmarkApply(b *testing.B) {
	store, s, txn := benchCell(b)
	at := celltest.New(b, store).Commit(s, txn)
	var batch cellstate.Batch
	for got, err := range store.Changes(b.Context(), s.Revision()) {
		if err != nil {
			b.Fatal(err)
		}
		batch = got
		break
	}
	if batch.Revision != at || len(batch.Changes) != 100 {
		b.Fatalf("revision %d, %d changes", batch.Revision, len(batch.Changes))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, gaps, err := s.Apply(batch); err != nil || len(gaps) > 0 {
			b.Fatal(gaps, err)
		}
	}
}
