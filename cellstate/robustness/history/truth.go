package history

import (
	"fmt"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
)

// Truth is what the store's revisions showed to somebody who read each of them.
type Truth struct{ epochs []*epoch }

// epoch is the life of a store between two restores: from a state on, revision by revision.
type epoch struct {
	begin    int64 // when it was first seen
	base     *Read
	capacity map[string]room // of its nodes
	happened map[string]happening
	order    []string
}

// happening is a deed at the revision at which it happened.
type happening struct {
	Deed
	revision cellstate.Revision
	seen     int64
}

// room is a node's capacity.
type room struct{ cpu, memory int64 }

// Begin begins with a state, after a restore anew.
func (t *Truth) Begin(s *cellstate.Snapshot) {
	e := &epoch{begin: Now(), base: ReadOf(s), capacity: map[string]room{}, happened: map[string]happening{}}
	for n := range s.Nodes() {
		c := n.Facts.GetCapacity()
		e.capacity[string(n.Name)] = room{c.GetCpuMilli(), c.GetMemoryBytes()}
	}
	t.epochs = append(t.epochs, e)
}

// See takes in the next revisions.
func (t *Truth) See(b cellstate.Batch) {
	e := t.epochs[len(t.epochs)-1]
	for _, c := range b.Changes {
		if c.Deleted {
			continue
		}
		for _, d := range DeedsOf([]cellstate.Record{{Key: c.Key, Value: c.Record()}}) {
			name := d.name()
			if _, again := e.happened[name]; again {
				continue // a record that is rewritten as it is, such as an eviction by the same transaction
			}
			e.happened[name] = happening{d, c.Revision, Now()}
			e.order = append(e.order, name)
		}
	}
}

// Violation is something that cannot have been.
type Violation struct {
	Law    string // L1 to L6 of package cellstate, or what else was broken
	Detail string
}

func (v Violation) String() string { return v.Law + ": " + v.Detail }

// event is an operation of which it is known what was applied, and at which revision.
type event struct {
	op       *Op
	epoch    int
	revision cellstate.Revision
	deeds    []Deed
	begin    int64
	end      int64
}

// settle compares what clients were told with what happened (L6), and finds out for each
// request whether it was applied.
func (t *Truth) settle(ops []*Op) (events []event, violations []Violation) {
	explained := make([]map[string]bool, len(t.epochs))
	for i := range explained {
		explained[i] = map[string]bool{}
	}
	broken := func(format string, args ...any) {
		violations = append(violations, Violation{"L6", fmt.Sprintf(format, args...)})
	}
	var open []*Op
	for _, op := range ops {
		if op.Read != nil {
			continue
		}
		if op.Fate == Open || op.Fate == Unknown {
			open = append(open, op)
			continue
		}
		if op.Fate != Done {
			continue // what of it has happened is found unexplained below
		}
		for e, byRevision := range t.told(op, broken) {
			for revision, deeds := range byRevision {
				for _, d := range deeds {
					explained[e][d.name()] = true
				}
				events = append(events, event{op, e, revision, deeds, op.Begin, op.End})
			}
		}
	}
	for _, op := range open {
		for e, byRevision := range t.guessed(op, explained) {
			for revision, deeds := range byRevision {
				for _, d := range deeds {
					explained[e][d.name()] = true
				}
				// It had happened when it was seen.
				events = append(events, event{op, e, revision, deeds, op.Begin, t.epochs[e].happened[deeds[0].name()].seen})
			}
		}
	}
	for i, e := range t.epochs {
		for _, name := range e.order {
			if !explained[i][name] {
				broken("%s on node %s at revision %d, but nobody was told that it was applied, or might have been", name, e.happened[name].Node, e.happened[name].revision)
			}
		}
	}
	return events, violations
}

// told are the deeds that a client was told were applied, by epoch and revision.
func (t *Truth) told(op *Op, broken func(string, ...any)) map[int]map[cellstate.Revision][]Deed {
	out := map[int]map[cellstate.Revision][]Deed{}
	for w, deeds := range op.Writes {
		if w >= len(op.Applied) || op.Applied[w] == 0 {
			continue
		}
		for _, d := range deeds {
			e := t.find(d.name(), op.Applied[w], op)
			if e < 0 {
				broken("%s was told that %s was applied at revision %d; that revision shows nothing of it", op.ID, d.name(), op.Applied[w])
				continue
			}
			add(out, e, op.Applied[w], d)
		}
	}
	return out
}

// guessed are the deeds of a request of unknown fate that have happened and that no other
// request explains.
func (t *Truth) guessed(op *Op, explained []map[string]bool) map[int]map[cellstate.Revision][]Deed {
	out := map[int]map[cellstate.Revision][]Deed{}
	for _, deeds := range op.Writes {
		for _, d := range deeds {
			for i, e := range t.epochs {
				h, ok := e.happened[d.name()]
				if ok && !explained[i][d.name()] && h.seen >= op.Begin {
					add(out, i, h.revision, d)
					break
				}
			}
		}
	}
	return out
}

func add(to map[int]map[cellstate.Revision][]Deed, epoch int, at cellstate.Revision, d Deed) {
	if to[epoch] == nil {
		to[epoch] = map[cellstate.Revision][]Deed{}
	}
	to[epoch][at] = append(to[epoch][at], d)
}

// find is the epoch in which a deed happened at a revision, the last that had begun when
// the client was told; -1: none.
func (t *Truth) find(name string, at cellstate.Revision, op *Op) int {
	for i := len(t.epochs) - 1; i >= 0; i-- {
		if h, ok := t.epochs[i].happened[name]; ok && h.revision == at && t.epochs[i].begin <= op.End {
			return i
		}
	}
	return -1
}

// at is the epoch of a time.
func (t *Truth) at(when int64) int {
	i := len(t.epochs) - 1
	for i > 0 && t.epochs[i].begin > when {
		i--
	}
	return i
}

// nodes are the names of the nodes of an epoch.
func (e *epoch) nodes() []string {
	var all []string
	for n := range e.capacity {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}
