package cellstate_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What namespaces hold and are due is counted from the records, however they came: one by one,
// or all at once at a load.
func TestFairFollowsTheRecords(t *testing.T) {
	store := memstore.New()
	cell := celltest.New(t, store)
	cell.Node(celltest.Node{Name: "n1", CPU: 4000})
	job := func(namespace string, count int) {
		cell.Job(celltest.Job{Namespace: namespace, Name: "j", Count: count, CPU: 1000, Memory: 1 << 30})
	}
	place := func(namespace string, index int) cellstate.Slot {
		s := cell.Snapshot()
		slot := celltest.Slot(s, cellstate.JobName{Namespace: namespace, Name: "j"}, "main", index)
		cell.Commit(s, celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, slot, "n1")))
		return slot
	}
	job("a", 3)
	place("a", 0)
	if cell.Snapshot().Fair() != nil {
		t.Fatal("namespaces share the cell by weights that nobody has set")
	}
	followed := cell.Snapshot()
	follow := func() *cellstate.Fair {
		t.Helper()
		for _, b := range batches(t, store, followed.Revision()) {
			next, gaps, err := followed.Apply(b)
			if err != nil || len(gaps) > 0 {
				t.Fatal(gaps, err)
			}
			followed = next
		}
		loaded := cell.Snapshot()
		if (followed.Fair() == nil) != (loaded.Fair() == nil) {
			t.Fatal("a mirror and a load differ")
		}
		if followed.Fair() == nil {
			return nil
		}
		for q := range loaded.Fair().Queues() {
			if got := followed.Fair().Queue(q.Namespace); got != q || followed.Fair().Due(q.Namespace) != loaded.Fair().Due(q.Namespace) {
				t.Fatalf("a mirror has %v, a load %v", got, q)
			}
		}
		return followed.Fair()
	}
	expect := func(namespace string, share, due float64, code string) {
		t.Helper()
		v := follow().View(namespace)
		if v.GetShare() != share || v.GetDue() != due || v.GetCode() != code {
			t.Errorf("%s: %v; want a share of %v, due %v, %s", namespace, v, share, due, code)
		}
	}
	cell.Weigh("b", 3)
	expect("a", 0.25, 1, cellstate.FairBelow) // b has no work
	job("b", 2)
	expect("a", 0.25, 0.25, cellstate.FairAtDue)
	expect("b", 0, 0.75, cellstate.FairBelow)
	slot := place("a", 1)
	place("b", 0)
	expect("a", 0.5, 0.25, cellstate.FairBorrowing)
	cell.Release(slot, task.Succeeded)
	expect("a", 0.25, 0.25, cellstate.FairAtDue)
	cell.Node(celltest.Node{Name: "n2", CPU: 4000})
	expect("b", 0.125, 0.75, cellstate.FairBelow)
	cell.Mark(cellstate.JobName{Namespace: "a", Name: "j"}, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{} })
	expect("a", 0.125, 0.25, cellstate.FairBelow) // it holds something still
	averages := func(all ...*ohmv1.Average) {
		_, read := cell.Snapshot().Meta(cellstate.AveragesMeta)
		cell.Put(cellstate.Record{Key: cellstate.MetaKey(cellstate.AveragesMeta), Read: read, Value: &ohmv1.Meta{Averages: all}})
	}
	averages(&ohmv1.Average{Namespace: "a", Share: 0.5}, &ohmv1.Average{Namespace: "b", Share: 0.1})
	averages(&ohmv1.Average{Namespace: "a", Share: 0.4})
	if f := follow(); f.Queue("a").Average != 0.4 || f.Queue("b").Average != 0 {
		t.Errorf("the averages of a and b are %v and %v", f.Queue("a").Average, f.Queue("b").Average)
	}
	cell.Write(cellstate.QuotaRemoval(cell.Snapshot().Quota(celltest.Namespace("b"))))
	if follow() != nil {
		t.Error("namespaces share the cell by weights although the only one is gone")
	}
}

// batches are what a store has seen since a revision.
func batches(t *testing.T, store *memstore.Store, after cellstate.Revision) (all []cellstate.Batch) {
	t.Helper()
	s, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for last := after; last < s.Revision(); {
		for b, err := range store.Changes(t.Context(), last) {
			if err != nil {
				t.Fatal(err)
			}
			all, last = append(all, b), b.Revision
			break
		}
	}
	return all
}

// The example of docs/fairness.md.
func TestFairnessPage(t *testing.T) {
	page, err := os.ReadFile("../docs/fairness.md")
	if err != nil {
		t.Fatal(err)
	}
	cell := celltest.New(t, memstore.New())
	cell.Node(celltest.Node{Name: "n1", CPU: 100_000, Memory: 400 << 30})
	for _, n := range []struct {
		name   string
		weight int32
		cores  int64
		gib    int64
		says   string
	}{
		{"prod", 3, 30, 40, "| prod | 3 | 30 cores, 40 GiB | 30% | 60% | | 0.10 | 1 |"},
		{"research", 1, 50, 40, "| research | 1 | 50 cores, 40 GiB | 50% | 20% | 30% | 0.50 | 3 |"},
		{"tests", 0, 10, 80, "| tests | none: 1 | 10 cores, 80 GiB | 20% | 20% | | 0.20 | 2 |"},
	} {
		if n.weight > 0 {
			cell.Weigh(n.name, n.weight)
		}
		cell.Job(celltest.Job{Namespace: n.name, Name: "j", Count: 2, CPU: n.cores * 1000, Memory: n.gib << 30})
		s := cell.Snapshot()
		slot := celltest.Slot(s, cellstate.JobName{Namespace: n.name, Name: "j"}, "main", 0)
		cell.Commit(s, celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, slot, "n1")))
		if !strings.Contains(string(page), n.says) {
			t.Errorf("the page does not say %q", n.says)
		}
	}
	f := cell.Snapshot().Fair()
	for name, row := range map[string]string{"prod": "30% 60% 0% 0.10 1 BelowDue", "research": "50% 20% 30% 0.50 3 Borrowing", "tests": "20% 20% 0% 0.20 2 AtDue"} {
		v := f.View(name)
		if got := fmt.Sprintf("%.0f%% %.0f%% %.0f%% %.2f %d %s", 100*v.Share, 100*v.Due, 100*v.Borrowed, f.Turn(name, cellstate.Amounts{}), v.Position, v.Code); got != row {
			t.Errorf("%s: %s, the page has %s", name, got, row)
		}
	}
	if text := f.View("research").GetText(); !strings.Contains(string(page), "\n"+text+"\n") {
		t.Errorf("the page does not say %q", text)
	}
}
