package history

import (
	"fmt"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/ohmcell/ohm/cellstate"
)

// node is the state of one node: the tasks that are live on it.
type node struct {
	revision cellstate.Revision
	live     map[string]Deed // by slot; By: who evicts it
}

func (n node) String() string {
	return fmt.Sprintf("at revision %d with %v", n.revision, slices.Collect(maps.Values(n.live)))
}

// nodeModel is a node that takes claims as long as they fit (L1, L5). Every revision is
// later than what was done before it, and none before what was read.
func (e *epoch) nodeModel(name string) porcupine.Model {
	return porcupine.Model{
		Init: func() any {
			n := node{revision: e.base.Revision, live: map[string]Deed{}}
			for _, d := range e.base.Live {
				if d.Node == name {
					n.live[d.Slot] = d
				}
			}
			return n
		},
		Step: func(state, input, _ any) (bool, any) {
			n, a := state.(node), input.(action)
			if a.read {
				return a.revision >= n.revision && same(n.live, a.live), node{max(a.revision, n.revision), n.live}
			}
			if a.revision <= n.revision {
				return false, state
			}
			next := node{a.revision, maps.Clone(n.live)}
			return next.do(a.deeds, e.capacity[name]), next
		},
		Equal: func(a, b any) bool {
			x, y := a.(node), b.(node)
			return x.revision == y.revision && maps.Equal(x.live, y.live)
		},
	}
}

// do does deeds, those that make room first; false: they cannot be done.
func (n node) do(deeds []Deed, has room) bool {
	before := n.charge()
	adds := false
	for _, verb := range []Verb{Release, Evict, Claim} {
		for _, d := range deeds {
			was, live := n.live[d.Slot]
			switch {
			case d.Verb != verb:
			case verb == Claim && live, verb != Claim && (!live || was.Txn != d.Txn):
				return false
			case verb == Release:
				delete(n.live, d.Slot)
			case verb == Evict:
				was.By = d.By
				n.live[d.Slot] = was
			default:
				n.live[d.Slot] = d
				adds = true
			}
		}
	}
	after := n.charge()
	return !adds || (after.cpu <= max(has.cpu, before.cpu) && after.memory <= max(has.memory, before.memory))
}

// charge is what a node is charged with: its tasks, and of those that give way and those
// that they give way to the larger sum (L5).
func (n node) charge() room {
	var all room
	giving, taking := map[string]room{}, map[string]room{} // by the transaction that evicts
	for _, d := range n.live {
		this := room{d.CPU, d.Memory}
		switch {
		case d.By != "":
			giving[d.By] = giving[d.By].plus(this)
		case d.Evicts:
			taking[d.Txn] = taking[d.Txn].plus(this)
		default:
			all = all.plus(this)
		}
	}
	for txn, t := range taking {
		g := giving[txn]
		delete(giving, txn)
		all = all.plus(room{max(t.cpu, g.cpu), max(t.memory, g.memory)})
	}
	for _, g := range giving {
		all = all.plus(g)
	}
	return all
}

func (r room) plus(o room) room { return room{r.cpu + o.cpu, r.memory + o.memory} }

func same(live map[string]Deed, read []Deed) bool {
	if len(live) != len(read) {
		return false
	}
	for _, d := range read {
		if was, ok := live[d.Slot]; !ok || was.Txn != d.Txn || was.By != d.By {
			return false
		}
	}
	return true
}

// slot is the state of one slot.
type slot struct {
	revision cellstate.Revision
	txn      string // of the live placement
	by       string // who evicts it
	attempts int    // the highest that was used
}

// slotModel is a slot that one task at a time can take, under a number that was not used (L2).
func (e *epoch) slotModel(name string) porcupine.Model {
	return porcupine.Model{
		Init: func() any {
			s := slot{revision: e.base.Revision}
			for _, d := range e.base.Live {
				if d.Slot == name {
					s.txn, s.by, s.attempts = d.Txn, d.By, d.Attempt
				}
			}
			return s
		},
		Step: func(state, input, _ any) (bool, any) {
			s, a := state.(slot), input.(action)
			if a.read {
				ok := a.revision >= s.revision && (len(a.live) == 0 && s.txn == "" ||
					len(a.live) == 1 && a.live[0].Txn == s.txn && a.live[0].By == s.by)
				s.revision = max(s.revision, a.revision)
				return ok, s
			}
			if a.revision <= s.revision {
				return false, state
			}
			s.revision = a.revision
			for _, d := range a.deeds {
				switch {
				case d.Verb == Claim && (s.txn != "" || d.Attempt <= s.attempts), d.Verb != Claim && s.txn != d.Txn:
					return false, state
				case d.Verb == Claim:
					s.txn, s.by, s.attempts = d.Txn, "", d.Attempt
				case d.Verb == Release:
					s.txn, s.by = "", ""
				case d.Verb == Evict:
					s.by = d.By
				}
			}
			return true, s
		},
	}
}
