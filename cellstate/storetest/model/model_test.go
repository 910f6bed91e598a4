package model

import "testing"

// most is the number of states that one search may look at. All cells but "everything"
// are searched to their end within it; of that, only so many states.
const (
	most           = 250_000
	mostEverything = 50_000
)

// The cells: each is about some of the laws, and the last has everything in it.
var (
	capacity = Cell{Name: "capacity", Nodes: 1, Capacity: 2, Requests: 3, Losses: 1,
		Slots: []Slot{{Job: 0, Size: 1}, {Job: 1, Size: 1}, {Job: 2, Size: 1}}}
	slots = Cell{Name: "slots", Nodes: 2, Capacity: 1, Requests: 3, Ends: 2, Retentions: 1,
		Slots: []Slot{{Job: 0, Size: 1}}}
	lossySlots = Cell{Name: "slots and a lost revision", Nodes: 2, Capacity: 1, Requests: 3, Losses: 1, Ends: 1, Retentions: 1,
		Slots: slots.Slots}
	names = Cell{Name: "names", Nodes: 1, Capacity: 1, Requests: 2, Repeats: 1, Ends: 1, Stops: 1, Creations: 1,
		Slots: []Slot{{Job: 0, Size: 1}}}
	removals = Cell{Name: "removals", Nodes: 1, Capacity: 1, Requests: 2, Losses: 1, Ends: 1, Removals: 1, Creations: 1,
		Slots: []Slot{{Job: 0, Size: 1}}}
	evictions = Cell{Name: "evictions", Nodes: 1, Capacity: 3, Requests: 3, Ends: 1,
		Slots: []Slot{{Job: 0, Size: 3}, {Job: 1, Size: 2, Precedence: 1}, {Job: 2, Size: 3, Precedence: 2}}}
	lossyEvictions = Cell{Name: "evictions and a lost revision", Nodes: 1, Capacity: 3, Requests: 3, Losses: 1,
		Slots: evictions.Slots}
	gangs = Cell{Name: "gangs", Nodes: 2, Capacity: 1, Requests: 2, Repeats: 1, Losses: 1, Ends: 1, Gang: true,
		Slots: []Slot{{Job: 0, Size: 1}, {Job: 0, Size: 1}, {Job: 1, Size: 1}}}
	ranges = Cell{Name: "gangs with one range", Nodes: 2, Capacity: 2, Requests: 3, Losses: 1, Ends: 2, Retentions: 1, Gang: true, OneRange: true,
		Slots: []Slot{{Job: 0, Size: 1}, {Job: 0, Size: 1}}}
	everything = Cell{Name: "everything", Nodes: 2, Capacity: 2, Requests: 4, Repeats: 2, Losses: 1, Ends: 2, Stops: 1, Removals: 1,
		Creations: 1, Retentions: 1, Gang: true,
		Slots: []Slot{{Job: 0, Size: 1}, {Job: 0, Size: 2}, {Job: 1, Size: 2, Precedence: 1}}}
)

func TestTheProtocolKeepsItsLaws(t *testing.T) {
	searched := 0
	for _, c := range []Cell{capacity, slots, lossySlots, names, removals, evictions, lossyEvictions, gangs, ranges, everything} {
		t.Run(c.Name, func(t *testing.T) {
			limit := most
			if c.Name == everything.Name {
				limit = mostEverything
			}
			found := Search(c, AllRules(), limit)
			if found.Broken != 0 || !found.Complete && limit == most {
				t.Fatal(found)
			}
			t.Log(found)
			searched += found.States
		})
	}
	t.Logf("searched %d states", searched)
}

func TestEveryRuleIsNeeded(t *testing.T) {
	for _, tt := range []struct {
		name string
		off  func(*Rules)
		cell Cell
		want Law
	}{
		{"a fence is not compared", func(r *Rules) { r.Fence = false }, capacity, L1},
		{"a gap in the chain of fences goes unnoticed", func(r *Rules) { r.Chain = false }, capacity, L1},
		{"a victim whose heir went is not charged", func(r *Rules) { r.Orphans = false }, evictions, L1},
		{"a slot's range leaves out the ended attempts", func(r *Rules) { r.Ended = false }, slots, L2},
		{"the range of a gang's slots is not compared with its reading", func(r *Rules) { r.Newer = false }, ranges, L2},
		{"retention removes a slot's newest end", func(r *Rules) { r.Newest = false }, slots, L2},
		{"a late release goes by slot and attempt", func(r *Rules) { r.ReleaseTxn = false }, names, L2},
		{"a removal does not compare its range", func(r *Rules) { r.Range = false }, removals, L2},
		{"an atomic commit is cut in two", func(r *Rules) { r.Atomic = false }, gangs, L3},
		{"the job's record is not compared", func(r *Rules) { r.Job = false }, names, L4},
		{"the victim's record is not compared", func(r *Rules) { r.Victim = false }, evictions, L5},
		{"an eviction deletes its victim", func(r *Rules) { r.KeepVictim = false }, evictions, L5},
		{"the status of an heir that is released is not compared", func(r *Rules) { r.Started = false }, evictions, L5},
		{"the lane is not compared", func(r *Rules) { r.Lane = false }, gangs, L6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules := AllRules()
			tt.off(&rules)
			found := Search(tt.cell, rules, most)
			if found.Broken != tt.want {
				t.Fatalf("want %v; %v", tt.want, found)
			}
			t.Logf("%d states; %v", found.States, found)
		})
	}
}
