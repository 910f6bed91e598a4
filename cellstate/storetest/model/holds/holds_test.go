package holds

import "testing"

// most is the number of states that one search may look at; every cell is searched to its
// end within it.
const most = 100_000

// The cells: each is about some of the rules.
var (
	single = Cell{Capacity: 2, Requests: 4, Ends: 1, GiveUps: 1, Owners: [schedulers]Owner{
		{Tasks: 1, Size: 2, Holds: 2}, {Tasks: 2, Size: 1}}}
	important = Cell{Capacity: 2, Requests: 4, Ends: 1, Owners: [schedulers]Owner{
		{Tasks: 1, Size: 1, Holds: 1}, {Tasks: 2, Size: 2, Precedence: 1}}}
	gang = Cell{Capacity: 3, Requests: 4, Ends: 1, GiveUps: 1, Owners: [schedulers]Owner{
		{Tasks: 2, Gang: true, Size: 2, Holds: 2}, {Tasks: 2, Size: 1}}}
	both = Cell{Capacity: 3, Requests: 6, Ends: 2, Owners: [schedulers]Owner{
		{Tasks: 2, Gang: true, Size: 2, Holds: 2}, {Tasks: 2, Gang: true, Size: 2, Holds: 2}}}
)

func TestTheLawsHold(t *testing.T) {
	for name, c := range map[string]Cell{"one task": single, "a more important rival": important, "a gang": gang, "two that starve": both} {
		t.Run(name, func(t *testing.T) {
			found := Search(c, AllRules(), most)
			if found.Broken != 0 || !found.Complete {
				t.Fatal(found)
			}
			t.Log(found)
		})
	}
}

func TestEveryRuleIsNeeded(t *testing.T) {
	for _, c := range []struct {
		name string
		off  func(*Rules)
		cell Cell
		want Law
	}{
		{"a hold is placed where the room has gone", func(r *Rules) { r.Compare = false }, both, Kept},
		{"a hold bumps no fence", func(r *Rules) { r.Bump = false }, single, Kept},
		{"a hold of a gang is placed partly", func(r *Rules) { r.Together = false }, gang, Whole},
		{"a hold that comes late stands without a lease", func(r *Rules) { r.Lease = false }, single, Ended},
		{"a hold is charged to nobody", func(r *Rules) { r.Charged = false }, single, Kept},
		{"a hold is not charged to its like", func(r *Rules) { r.Equal = false }, single, Kept},
		{"a hold is charged to higher precedence", func(r *Rules) { r.Higher = false }, important, Yields},
		{"a hold is charged to its owner", func(r *Rules) { r.Own = false }, single, Serves},
		{"a commit leaves its own hold", func(r *Rules) { r.Remove = false }, single, Once},
		{"a commit ends a gang's hold on one node", func(r *Rules) { r.Atomic = false }, gang, Whole},
		{"a commit under a hold that has ended compares no fence", func(r *Rules) { r.OwnFence = false }, single, Capacity},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := AllRules()
			c.off(&rules)
			found := Search(c.cell, rules, most)
			if found.Broken != c.want {
				t.Fatalf("want %v; %v", c.want, found)
			}
			t.Log(found)
		})
	}
}
