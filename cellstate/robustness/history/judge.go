package history

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ohmcell/ohm/cellstate"
)

// Verdict is what came of a judgement.
type Verdict struct {
	Operations int // of nodes and slots that were put in order
	Objects    int // nodes and slots
	Violations []Violation
}

// Judge compares what clients were told with the truth (L6), and has porcupine look for an
// order of what they did to each node (L1) and to each slot (L2) in which every answer is
// right. Each object may take so long.
func Judge(ops []*Op, t *Truth, patience time.Duration) Verdict {
	events, violations := t.settle(ops)
	v := Verdict{Violations: violations}
	for e := range t.epochs {
		ofNodes, ofSlots := t.objects(ops, events, e)
		for _, name := range slices.Sorted(maps.Keys(ofNodes)) {
			v.check("L1", "node "+name, t.epochs[e].nodeModel(name), ofNodes[name], patience)
		}
		for _, name := range slices.Sorted(maps.Keys(ofSlots)) {
			v.check("L2", "slot "+name, t.epochs[e].slotModel(name), ofSlots[name], patience)
		}
	}
	return v
}

func (v *Verdict) check(law, object string, m porcupine.Model, ops []porcupine.Operation, patience time.Duration) {
	v.Objects++
	v.Operations += len(ops)
	result, info := porcupine.CheckOperationsVerbose(m, ops, patience)
	switch result {
	case porcupine.Unknown:
		v.Violations = append(v.Violations, Violation{law, fmt.Sprintf("%s: no order of its %d operations was found within %v", object, len(ops), patience)})
	case porcupine.Illegal:
		v.Violations = append(v.Violations, Violation{law, fmt.Sprintf("%s: its %d operations cannot have been in any order; %s", object, len(ops), stuck(m, ops, info))})
	}
}

// stuck says how far the longest order goes, and what does not follow.
func stuck(m porcupine.Model, ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, partition := range info.PartialLinearizations() {
		for _, l := range partition {
			if len(l) > len(longest) {
				longest = l
			}
		}
	}
	state, in := m.Init(), map[int]bool{}
	for _, i := range longest {
		_, state = m.Step(state, ops[i].Input, ops[i].Output)
		in[i] = true
	}
	next := -1
	for i, op := range ops {
		if !in[i] && (next < 0 || op.Call < ops[next].Call) {
			next = i
		}
	}
	if next < 0 {
		return "all of them are in order"
	}
	return fmt.Sprintf("after %d of them it is %v, and then came %v", len(longest), state, ops[next].Input)
}

// action is one operation on one object: what was done to it at a revision, or what was
// read of it.
type action struct {
	id       string
	revision cellstate.Revision
	deeds    []Deed
	read     bool
	live     []Deed // that a read showed
}

func (a action) String() string {
	if a.read {
		return fmt.Sprintf("%s reads at revision %d: %v", a.id, a.revision, a.live)
	}
	return fmt.Sprintf("%s at revision %d: %v", a.id, a.revision, a.deeds)
}

func (d Deed) String() string {
	text := fmt.Sprintf("%s %s#%d of %s on %s (%dm)", d.Verb, d.Slot, d.Attempt, d.Txn, d.Node, d.CPU)
	if d.By != "" {
		text += " by " + d.By
	}
	return text
}

// objects are the operations on each node and on each slot of an epoch.
func (t *Truth) objects(ops []*Op, events []event, epoch int) (nodes, slots map[string][]porcupine.Operation) {
	nodes, slots = map[string][]porcupine.Operation{}, map[string][]porcupine.Operation{}
	from := t.epochs[epoch].begin
	put := func(to map[string][]porcupine.Operation, name string, a action, begin, end int64) {
		to[name] = append(to[name], porcupine.Operation{Input: a, Call: max(begin, from), Return: max(end, from)})
	}
	for _, e := range events {
		if e.epoch != epoch {
			continue
		}
		byNode, bySlot := map[string][]Deed{}, map[string][]Deed{}
		for _, d := range e.deeds {
			byNode[d.Node], bySlot[d.Slot] = append(byNode[d.Node], d), append(bySlot[d.Slot], d)
		}
		for n, deeds := range byNode {
			put(nodes, n, action{id: e.op.ID, revision: e.revision, deeds: deeds}, e.begin, e.end)
		}
		for s, deeds := range bySlot {
			put(slots, s, action{id: e.op.ID, revision: e.revision, deeds: deeds}, e.begin, e.end)
		}
	}
	for _, op := range ops {
		if op.Read == nil || op.Fate != Done || t.at(op.End) != epoch || op.End < from {
			continue
		}
		byNode, bySlot := map[string][]Deed{}, map[string][]Deed{}
		for _, d := range op.Read.Live {
			byNode[d.Node], bySlot[d.Slot] = append(byNode[d.Node], d), append(bySlot[d.Slot], d)
		}
		for _, n := range t.epochs[epoch].nodes() {
			put(nodes, n, action{id: op.ID, revision: op.Read.Revision, read: true, live: byNode[n]}, op.Begin, op.End)
		}
		for s := range slots {
			put(slots, s, action{id: op.ID, revision: op.Read.Revision, read: true, live: bySlot[s]}, op.Begin, op.End)
		}
	}
	return nodes, slots
}
