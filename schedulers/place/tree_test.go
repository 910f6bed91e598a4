package place

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever was set, the best is what a walk finds.
func TestTreeFindsWhatAWalkFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 600).Draw(t, "candidates")
		tree := newTree(make([]float64, n))
		walk := make([]float64, n)
		for i := range walk {
			walk[i] = unfit
		}
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			if n > 0 {
				i := rapid.IntRange(0, n-1).Draw(t, "candidate")
				walk[i] = rapid.SampledFrom([]float64{unfit, unfit, -1, 0, 1, 2, 3}).Draw(t, "score")
				if rapid.IntRange(0, 5).Draw(t, "rebuild") > 0 {
					tree.set(i, walk[i])
				} else {
					tree.scores()[i] = walk[i]
					tree.rebuild()
				}
			}
			fit := 0
			for _, score := range walk {
				if score != unfit {
					fit++
				}
			}
			var lead [bestKept]int
			found := tree.leading(&lead)
			if tree.fit != fit || found != min(fit, bestKept) {
				t.Fatalf("of %v %d fit and %d lead; a walk counts %d", walk, tree.fit, found, fit)
			}
			sorted := slices.Sorted(slices.Values(walk))
			for at, i := range lead[:found] {
				if walk[i] != sorted[n-1-at] || slices.Contains(lead[:at], i) {
					t.Fatalf("of %v lead %v", walk, lead[:found])
				}
			}
			from := rapid.IntRange(0, max(0, n-1)).Draw(t, "from")
			want := -1
			for turn := range n {
				if i := (from + turn) % n; walk[i] != unfit && (want < 0 || walk[i] > walk[want]) {
					want = i
				}
			}
			got, ok := tree.best(from)
			if ok != (want >= 0) || (ok && got != want) {
				t.Fatalf("of %v from %d on: %d, %v; a walk finds %d", walk, from, got, ok, want)
			}
		}
	})
}
