package etcdstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
)

// TestJoinedWrites commits writes that share a guard: each applies alone if it holds, and
// none if it does not, also when the reply is lost.
func TestJoinedWrites(t *testing.T) {
	for _, drops := range []int64{0, 1, 2} {
		t.Run(fmt.Sprintf("%d replies lost", drops), func(t *testing.T) {
			s := open(t, Config{})
			stands, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{numbered(0)}})
			if err != nil {
				t.Fatal(err)
			}
			shared := []cellstate.Guard{{Key: numbered(0).Key, Revision: stands.Revision}, {Key: "tasks/a/b/", End: "tasks/a/b0"}}
			broken := []cellstate.Guard{{Key: numbered(0).Key, Revision: stands.Revision - 1}}
			guarded := func(guards []cellstate.Guard, i int) cellstate.Write {
				return cellstate.Write{Guards: guards, Records: []cellstate.Record{numbered(i)}}
			}
			moved := guarded(shared, 3)
			moved.Fences = []cellstate.FenceBump{{Node: "n1", Compared: 17}}
			writes := []cellstate.Write{
				guarded(nil, 1),
				guarded(shared, 2), moved, guarded(shared, 4), // joined
				guarded(broken, 5), guarded(broken, 6), // joined
				guarded(shared, 7),
			}
			if n := s.joined(writes[1:]); n != 3 {
				t.Fatalf("%d writes are joined", n)
			}
			s.drop.Store(drops)
			out, err := s.Commit(t.Context(), writes...)
			if err != nil {
				t.Fatal(err)
			}
			after, err := s.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{true, true, false, true, false, false, true} {
				_, rev := after.Meta(fmt.Sprintf("n/%05d", i+1))
				if rev != out.Applied[i] || (rev > 0) != want {
					t.Errorf("record %d stands at %d, the commit said %d; want it there: %v", i+1, rev, out.Applied[i], want)
				}
			}
		})
	}
}

// TestJoinedByWhatIsSharedMost: writes that all begin with one guard are joined with those
// with which they share more.
func TestJoinedByWhatIsSharedMost(t *testing.T) {
	s := &Store{cfg: Config{MaxTxnOps: 128, MaxRequestBytes: 1 << 20}}
	of := func(jobs ...string) (writes []cellstate.Write) {
		for _, job := range jobs {
			writes = append(writes, cellstate.Write{Guards: []cellstate.Guard{{Key: "meta/quotas"}, {Key: cellstate.Key("jobs/a/" + job), Revision: 7}}})
		}
		return writes
	}
	for _, c := range []struct {
		writes []cellstate.Write
		want   []int
	}{
		{of("a", "b", "c"), []int{3}},
		{of("a", "a", "b", "b", "b"), []int{2, 3}},
		{of("a", "b", "b", "b"), []int{1, 3}},
		{of("a", "b", "c", "c"), []int{2, 2}},
		{of("a", "a", "b", "c"), []int{2, 2}},
	} {
		var got []int
		for left := c.writes; len(left) > 0; {
			n := s.joined(left)
			got, left = append(got, n), left[n:]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("joined %v, want %v", got, c.want)
		}
	}
}

// A gang on the most nodes that a commit may have goes into one request under two quotas.
func TestLargestGangUnderQuotas(t *testing.T) {
	s := unconnected(128, 3<<19)
	cell := celltest.New(t, memstore.New())
	most := s.Limits().Nodes
	cell.Job(celltest.Job{Name: "g", Kind: "ml", Scheduler: "batch", Gang: true, Count: most, CPU: 1})
	scopes := []cellstate.Scope{celltest.Namespace("default"), {Kind: cellstate.SchedulerScope, Name: "batch"}}
	for _, scope := range scopes {
		cell.Quota(scope, celltest.CPU(1000))
		cell.Share(celltest.Account(scope, "test"), celltest.CPU(1000))
	}
	for i := range most {
		cell.Node(celltest.Node{Name: fmt.Sprint("n", i)})
	}
	now := cell.Snapshot()
	var claims []cellstate.Claim
	for i := range most {
		claims = append(claims, celltest.Claim(now, celltest.Slot(now, celltest.Name("g"), "main", i), cellstate.NodeName(fmt.Sprint("n", i))))
	}
	plan := cellstate.MakePlan(now, time.Now(), most, []*cellstate.Txn{celltest.Txn(now, cellstate.Atomic, claims...)}, func(cellstate.ClaimRef) bool { return false })
	if len(plan.Writes) != 1 || len(plan.Conflicts[0]) > 0 {
		t.Fatalf("%d writes, conflicts %+v", len(plan.Writes), plan.Conflicts)
	}
	requests, err := s.requests(plan.Writes)
	if err != nil || len(requests) != 1 {
		t.Errorf("%d requests, %v", len(requests), err)
	}
	for _, r := range requests {
		r.body.Free()
	}
	if w := plan.Writes[0]; len(w.Guards)+len(w.Fences) != s.width() {
		t.Errorf("%d conditions of %d", len(w.Guards)+len(w.Fences), s.width())
	}
}
