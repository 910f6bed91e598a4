package storetest_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// bug is a mistake in the protocol, planted between the writers and an honest store.
type bug struct {
	name  string
	plant plant
	fails []string // the laws that catch it
	holds string   // a law nearby that it does not break
}

// plant turns a write into what the bug would send: several writes if it cuts it, one
// after the other. What is stored now is what a writer without the bug would have read.
type plant func(now *cellstate.Snapshot, w cellstate.Write) []cellstate.Write

func bugs() []bug {
	return []bug{
		{"a fence not compared", edit(compareNoFence),
			[]string{"L1/race for cpu", "L1/a node that turns ineligible meanwhile"}, "L2/one slot claimed on two nodes"},
		{"a fence bumped without a record", edit(bumpOnRelease),
			[]string{"fences/a mirror that follows knows what a load knows", "release/writes the ended attempt in the same revision and bumps no fence"}, "L1/race for cpu"},
		{"a late release of an older attempt", edit(releaseUnseen),
			[]string{"release/a late report of an earlier attempt releases nothing"}, "release/a status of an earlier placement is refused"},
		{"a release that compares its attempt, not its placement", edit(releaseBySlot),
			[]string{"release/a late report from before the job's name was used again"}, "release/a late report of an earlier attempt releases nothing"},
		{"an eviction that deletes its victim", edit(deleteVictims),
			[]string{"L5/a victim keeps its record, marked in the same commit"}, "L5/a victim that ends meanwhile"},
		{"a victim's end not compared", edit(without(func(w *cellstate.Write, g cellstate.Guard) bool {
			return g.Key.Parse().Kind == cellstate.KindPlacement && len(w.Fences) > 0
		})), []string{"L5/a victim that ends after the same transaction has marked it"}, "L5/a victim that ends meanwhile"},
		{"an heir's start not compared", edit(without(func(_ *cellstate.Write, g cellstate.Guard) bool {
			return g.Key.Parse().Kind == cellstate.KindStatus
		})), []string{"L5/an heir that starts meanwhile is not released"}, "L5/an heir that has not started is released and its victims taken over"},
		{"an atomic commit cut in two", cutByNode,
			[]string{"L3/a gang that fits commits at one revision", "L3/a gang of which one node lost the race commits nothing"}, "L3/an incremental transaction keeps what fits"},
		{"the ended attempts left out of a slot's compare", edit(guards(func(g cellstate.Guard) cellstate.Guard {
			if k := g.Key.Parse(); k.Kind == cellstate.KindEnded {
				g.Key = k.Slot.PlacementKey()
			}
			return g
		})), []string{"L2/an attempt that was used and has ended"}, "L2/one slot claimed on two nodes"},
		{"the live placement left out of a slot's compare", edit(guards(func(g cellstate.Guard) cellstate.Guard {
			if k := g.Key.Parse(); k.Kind == cellstate.KindEnded {
				g.End = k.Slot.PlacementKey()
			}
			return g
		})), []string{"L2/one slot claimed on two nodes"}, "L2/an attempt that was used and has ended"},
		{"one slot of a large gang left out of the compares", edit(missLastSlot),
			[]string{"L2/a large gang of which slot 9 was taken meanwhile", "L2/a large gang of which an attempt of slot 9 was used meanwhile"},
			"L2/a large gang of which slot 123 was taken meanwhile"},
		{"a range compare that misses one slot", edit(guards(func(g cellstate.Guard) cellstate.Guard {
			if from, end := cellstate.TasksKeys(cellstate.JobName{Namespace: "default", Name: "g"}); g.Key == from && g.End == end && !g.Delete {
				g.End = cellstate.Slot{Namespace: "default", Job: "g", Group: "main", Index: 9, Version: 1}.EndedKey(1) // the last by key
			}
			return g
		})), []string{"L2/a large job of which slot 9 was taken meanwhile"}, "L2/a large job of which slot 123 was taken meanwhile"},
		{"retention of a slot's newest end", edit(removeAllEnds),
			[]string{"L2/an attempt below one that retention has kept"}, "L2/an attempt that was used and has ended"},
		{"a job's record not compared", edit(without(func(_ *cellstate.Write, g cellstate.Guard) bool {
			return g.Key.Parse().Kind == cellstate.KindJob
		})), []string{"L4/a job that was stopped", "L4/a job that was updated"}, "L1/race for cpu"},
		{"a hold placed without a fence bump", edit(func(_ *cellstate.Snapshot, w *cellstate.Write) {
			if slices.ContainsFunc(w.Records, func(r cellstate.Record) bool { return r.Key.Parse().Kind == cellstate.KindHold && r.Value != nil }) {
				w.Fences = nil
			}
		}), []string{"holds/a claim decided before one was placed is refused", "holds/one that is placed late takes no room that is gone"}, "holds/none is placed for a job that was stopped meanwhile"},
		{"a commit that leaves its hold behind", edit(func(_ *cellstate.Snapshot, w *cellstate.Write) {
			w.Records = slices.DeleteFunc(w.Records, func(r cellstate.Record) bool { return r.Key.Parse().Kind == cellstate.KindHold && r.Value == nil })
		}), []string{"holds/one ends with its owner's commit, in the same revision", "holds/those of a gang end with its commit"}, "holds/one ends with its lease"},
		{"a share not compared", edit(without(func(_ *cellstate.Write, g cellstate.Guard) bool {
			return g.Key.Parse().Kind == cellstate.KindShare
		})), []string{"quotas/a share that was lowered meanwhile", "quotas/a quota that is lowered takes its shares back"}, "quotas/a quota that was set meanwhile"},
		{"the creation of quotas not compared", edit(without(func(w *cellstate.Write, g cellstate.Guard) bool {
			return g.Key.Parse().Kind == cellstate.KindMeta && len(w.Fences) > 0
		})), []string{"quotas/a quota that was set meanwhile", "quotas/a quota that was set meanwhile, one write"}, "quotas/a share that was lowered meanwhile"},
		{"a scope's fence not compared", edit(func(now *cellstate.Snapshot, w *cellstate.Write) {
			for i, f := range w.Fences {
				if f.Scope != "" {
					w.Fences[i].Compared = fence(now, f)
				}
			}
		}), []string{"L7/race of two apart within a zone, on different nodes", "L7/race against a spread", "L7/race of the first two to be together", "L7/a newcomer whom the rule of a standing task forbids"},
			"L7/race of two apart within a node"},
		{"a scope's fence not bumped by those whom a rule is about", edit(func(now *cellstate.Snapshot, w *cellstate.Write) {
			w.Fences = slices.DeleteFunc(w.Fences, func(f cellstate.FenceBump) bool {
				return f.Scope != "" && slices.ContainsFunc(w.Records, func(r cellstate.Record) bool { return r.Key.Parse().Slot.Job == "loud" })
			})
		}), []string{"L7/a newcomer whom the rule of a standing task forbids"}, "L7/race of two apart within a zone, on different nodes"},
		{"a task to be near to not compared", edit(without(func(w *cellstate.Write, g cellstate.Guard) bool {
			return g.Key.Parse().Kind == cellstate.KindPlacement && len(w.Fences) > 0
		})), []string{"L7/a task to be near to that ends meanwhile"}, "L7/race of the first two to be together"},
		{"a rule that comes without a barrier", edit(func(_ *cellstate.Snapshot, w *cellstate.Write) {
			w.Records = slices.DeleteFunc(w.Records, func(r cellstate.Record) bool { return r.Key.Parse().Kind == cellstate.KindMeta && len(w.Records) > 1 })
		}), []string{"L7/a rule that came meanwhile"}, "L7/a newcomer whom the rule of a standing task forbids"},
		{"a scope's fence not bumped by evictions", edit(func(_ *cellstate.Snapshot, w *cellstate.Write) {
			w.Fences = slices.DeleteFunc(w.Fences, func(f cellstate.FenceBump) bool { return strings.Contains(f.Scope, "/budget/") })
		}), []string{"L8/two evictions at once spend one budget", "L8/an eviction and a drain at once spend one budget"}, "L8/what is down already spends nothing"},
		{"a victim's start not compared", edit(without(func(w *cellstate.Write, g cellstate.Guard) bool {
			return g.Key.Parse().Kind == cellstate.KindStatus && len(w.Fences) > 1
		})), []string{"L8/what was down comes up meanwhile"}, "L8/what is down already spends nothing"},
		{"a removal that takes what is newer", edit(guards(func(g cellstate.Guard) cellstate.Guard {
			if g.Delete {
				g.Revision = 1 << 40
			}
			return g
		})), []string{"release/removal by range takes exactly the job's records, if none is newer"}, "release/a late report of an earlier attempt releases nothing"},
	}
}

// edit is a plant that changes a write and leaves it one.
func edit(change func(*cellstate.Snapshot, *cellstate.Write)) plant {
	return func(now *cellstate.Snapshot, w cellstate.Write) []cellstate.Write {
		w.Guards, w.Fences, w.Records = slices.Clone(w.Guards), slices.Clone(w.Fences), slices.Clone(w.Records)
		change(now, &w)
		return []cellstate.Write{w}
	}
}

func guards(change func(cellstate.Guard) cellstate.Guard) func(*cellstate.Snapshot, *cellstate.Write) {
	return func(_ *cellstate.Snapshot, w *cellstate.Write) {
		for i, g := range w.Guards {
			w.Guards[i] = change(g)
		}
	}
}

func without(drop func(*cellstate.Write, cellstate.Guard) bool) func(*cellstate.Snapshot, *cellstate.Write) {
	return func(_ *cellstate.Snapshot, w *cellstate.Write) {
		w.Guards = slices.DeleteFunc(w.Guards, func(g cellstate.Guard) bool { return drop(w, g) })
	}
}

func compareNoFence(now *cellstate.Snapshot, w *cellstate.Write) {
	for i, f := range w.Fences {
		w.Fences[i].Compared = fence(now, f)
	}
}

func fence(s *cellstate.Snapshot, f cellstate.FenceBump) cellstate.Revision {
	if n := s.Node(f.Node); n != nil {
		return n.Fence
	}
	return maps.Collect(s.Scopes())[f.Scope]
}

// end is the attempt that a release without a claim ends; nil if w is none.
func end(w *cellstate.Write) *ohmv1.Ended {
	for _, r := range w.Records {
		if e, ok := r.Value.(*ohmv1.Ended); ok && len(w.Fences) == 0 {
			return e
		}
	}
	return nil
}

func bumpOnRelease(now *cellstate.Snapshot, w *cellstate.Write) {
	if e := end(w); e != nil {
		n := cellstate.NodeName(e.GetPlacement().GetNode())
		w.Fences = append(w.Fences, cellstate.FenceBump{Node: n, Compared: fence(now, cellstate.FenceBump{Node: n})})
	}
}

func releaseUnseen(_ *cellstate.Snapshot, w *cellstate.Write) {
	if end(w) == nil {
		return
	}
	for i := range w.Records {
		w.Records[i].Read = cellstate.ReadGuarded
	}
}

func releaseBySlot(_ *cellstate.Snapshot, w *cellstate.Write) {
	if end(w) == nil {
		return
	}
	for i, r := range w.Records {
		switch r.Key.Parse().Kind {
		case cellstate.KindPlacement:
			w.Records[i].Read = cellstate.ReadGuarded
		case cellstate.KindEnded:
			w.Records[i].Read = 0
		}
	}
}

func deleteVictims(_ *cellstate.Snapshot, w *cellstate.Write) {
	for i, r := range w.Records {
		if p, ok := r.Value.(*ohmv1.Placement); ok && p.GetEvictedBy() != "" {
			w.Records[i].Value = nil
		}
	}
}

// removeAllEnds lets the removal of one ended attempt take the slot's later ones along.
func removeAllEnds(now *cellstate.Snapshot, w *cellstate.Write) {
	for _, r := range w.Records {
		k := r.Key.Parse()
		if k.Kind != cellstate.KindEnded || r.Value != nil {
			continue
		}
		for _, e := range now.Job(k.Slot.JobName()).Task(k.Slot).Ended {
			if e.Attempt > k.Attempt {
				w.Records = append(w.Records, cellstate.Record{Key: k.Slot.EndedKey(e.Attempt), Read: e.Revision})
			}
		}
	}
}

// missLastSlot leaves out the slot with the last key, as a range that ends too early would.
func missLastSlot(_ *cellstate.Snapshot, w *cellstate.Write) {
	last := -1
	for i, g := range w.Guards {
		if g.Key.Parse().Kind == cellstate.KindEnded && (last < 0 || g.Key > w.Guards[last].Key) {
			last = i
		}
	}
	if last >= 0 && len(w.Fences) > 1 {
		w.Guards = slices.Delete(w.Guards, last, last+1)
	}
}

// cutByNode sends what a transaction puts on each node as a write of its own.
func cutByNode(_ *cellstate.Snapshot, w cellstate.Write) []cellstate.Write {
	if len(w.Fences) < 2 {
		return []cellstate.Write{w}
	}
	var parts []cellstate.Write
	for _, f := range w.Fences {
		part := cellstate.Write{Fences: []cellstate.FenceBump{f}}
		slots := map[cellstate.Slot]bool{}
		for _, r := range w.Records {
			if p, ok := r.Value.(*ohmv1.Placement); ok && p.GetNode() == string(f.Node) {
				part.Records = append(part.Records, r)
				slots[r.Key.Parse().Slot] = true
			}
		}
		for _, g := range w.Guards {
			if k := g.Key.Parse(); k.Kind == cellstate.KindJob || slots[k.Slot] {
				part.Guards = append(part.Guards, g)
			}
		}
		parts = append(parts, part)
	}
	return parts
}
