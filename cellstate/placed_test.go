package cellstate

import (
	"slices"
	"testing"
)

// TestSetsOfPlacementsGoTheirOwnWays shows that a set stays what it is, also where two are
// made of it, and over more edits than a log holds.
func TestSetsOfPlacementsGoTheirOwnWays(t *testing.T) {
	var rows []*Placement
	var set placed
	for range 3 * mostEdits {
		p := &Placement{}
		before := slices.Clone(set.all())
		one, other := set.with(p, false), set.with(&Placement{}, false)
		if !slices.Equal(set.all(), before) || len(other.all()) != len(before)+1 || slices.Contains(other.all(), p) {
			t.Fatalf("with %d rows the sets are mixed up", len(before))
		}
		rows, set = append(rows, p), one
		if !slices.Equal(set.all(), rows) {
			t.Fatalf("%d rows, want %d in the order they came", len(set.all()), len(rows))
		}
	}
	for i, p := range rows {
		set = set.with(p, true)
		if all := set.all(); len(all) != len(rows)-i-1 || slices.Contains(all, p) {
			t.Fatalf("%d rows after %d went", len(all), i+1)
		}
	}
}
