package etcdstore

import (
	"fmt"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
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
