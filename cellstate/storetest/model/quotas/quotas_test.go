package quotas

import "testing"

// most is the number of states that one search may look at; every cell is searched to its
// end within it.
const most = 400_000

// The cells: each is about some of the rules.
var (
	plain    = Cell{Limit: 2, Requests: 3, Grants: 2, Ends: 1}
	twins    = Cell{Limit: 1, Twin: true, Requests: 2, Takeovers: 2, Grants: 1, Ends: 1}
	unknowns = Cell{Limit: 1, Requests: 3, Takeovers: 1, Grants: 2, GiveUps: 2}
	lowered  = Cell{Limit: 2, Requests: 2, Grants: 2, Lowerings: 1}
	returned = Cell{Limit: 1, Requests: 2, Grants: 2, Givings: 1, Deaths: 1}
	created  = Cell{Limit: 1, Before: 1, Requests: 3, Grants: 2}
)

func cells() map[string]Cell {
	return map[string]Cell{"plain": plain, "twins": twins, "unknown fates": unknowns, "a lower quota": lowered, "shares that return": returned, "a new quota": created}
}

func TestTheLawHolds(t *testing.T) {
	for name, c := range cells() {
		t.Run(name, func(t *testing.T) {
			found := Search(c, AllRules(), most)
			if found.Steps != nil || !found.Complete {
				t.Fatalf("%+v", found)
			}
			t.Logf("%d states", found.States)
		})
	}
}

func TestEveryRuleIsNeeded(t *testing.T) {
	for _, c := range []struct {
		name string
		off  func(*Rules)
		cell Cell
	}{
		{"a share is not compared", func(r *Rules) { r.Share = false }, returned},
		{"the creation of a quota is not compared", func(r *Rules) { r.Creation = false }, created},
		{"what is under way is not counted", func(r *Rules) { r.Ledger = false }, plain},
		{"a share is spent that another process holds", func(r *Rules) { r.Holder = false }, twins},
		{"the keeper counts only what is granted", func(r *Rules) { r.Held = false }, created},
		{"two grants are made of the same room", func(r *Rules) { r.Serial = false }, returned},
		{"a lower quota leaves the shares", func(r *Rules) { r.TakeBack = false }, lowered},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := AllRules()
			c.off(&rules)
			found := Search(c.cell, rules, most)
			if found.Steps == nil {
				t.Fatalf("the search does not find it in %d states, complete: %v", found.States, found.Complete)
			}
			t.Logf("%d states; after %q", found.States, found.Steps)
		})
	}
}
