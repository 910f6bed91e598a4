package place

import (
	"testing"

	"github.com/ohmcell/ohm/schedulers"
)

// TestHomes: every node is home to exactly one instance, all have as many, and no two agree
// on which of a third one's nodes come first.
func TestHomes(t *testing.T) {
	const nodes = 9 * 9 * 4
	homes := []schedulers.Home{}
	for scheduler := range 3 {
		for index := range 3 {
			homes = append(homes, schedulers.Home{Index: index, Of: 3, Scheduler: scheduler, Schedulers: 3})
		}
	}
	count := make([]int, len(homes))
	for i := range nodes {
		free := map[float64]int{}
		for k, h := range homes {
			cost := price(h, i)
			free[cost]++
			if cost == 0 {
				count[k]++
			}
		}
		if free[0] != 1 {
			t.Fatalf("node %d is home to %d instances", i, free[0])
		}
		within := map[float64]bool{}
		for index := range 3 { // of one scheduler
			cost := price(homes[index], i)
			if within[cost] {
				t.Fatalf("two instances of one scheduler take node %d equally soon", i)
			}
			within[cost] = true
		}
		across := map[float64]bool{}
		for scheduler := range 3 { // those with one number
			cost := price(homes[3*scheduler], i)
			if across[cost] {
				t.Fatalf("two schedulers take node %d equally soon", i)
			}
			across[cost] = true
		}
	}
	for k, n := range count {
		if n != nodes/len(homes) {
			t.Errorf("%v is home to %d of %d nodes", homes[k], n, nodes)
		}
	}
	turns := map[int]bool{}
	for _, h := range homes {
		turns[turn(h)] = true
	}
	if len(turns) != len(homes) {
		t.Errorf("%d instances have %d turns", len(homes), len(turns))
	}
	for i := range 5 {
		if cost := price(schedulers.Home{}, i) + price(schedulers.Home{Of: 1, Schedulers: 1}, i); cost != 0 {
			t.Errorf("node %d costs %v where there are no others", i, cost)
		}
	}
}
