package cellstate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A node that comes moves the places of the others in the new table. Whoever goes on from
// the old snapshot must not notice.
func TestTwoSnapshotsFromOne(t *testing.T) {
	put := func(s *cellstate.Snapshot, names ...string) *cellstate.Snapshot {
		t.Helper()
		b := cellstate.Batch{Revision: s.Revision() + 1}
		for _, name := range names {
			n := cellstate.NodeName(name)
			b.Changes = append(b.Changes, cellstate.Change{Key: cellstate.AliveKey(n), Value: &ohmv1.Alive{Node: name, Server: fmt.Sprint(b.Revision)}, Revision: b.Revision})
		}
		next, gaps, err := s.Apply(b)
		if err != nil || len(gaps) > 0 {
			t.Fatalf("gaps %v, %v", gaps, err)
		}
		return next
	}
	empty, err := cellstate.NewSnapshot(1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := put(empty, "b", "c", "d")
	grown := put(old, "a")
	other := put(put(old, "c"), "b")
	for _, c := range []struct {
		what string
		s    *cellstate.Snapshot
		want string
	}{{"the old one", old, "b2 c2 d2"}, {"the grown one", grown, "a3 b2 c2 d2"}, {"the other one", other, "b4 c3 d2"}} {
		if n := len(slices.Collect(c.s.Nodes())); c.s.NodeCount() != n {
			t.Errorf("%s: %d nodes are counted, of %d", c.what, c.s.NodeCount(), n)
		}
		got := ""
		for n := range c.s.Nodes() {
			if c.s.Node(n.Name) != n {
				t.Errorf("%s: node %s is not where it is looked up", c.what, n.Name)
			}
			got += " " + string(n.Name) + n.Alive.GetServer()
		}
		if got != " "+c.want {
			t.Errorf("%s has%s, want %s", c.what, got, c.want)
		}
	}
}
