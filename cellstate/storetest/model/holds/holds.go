// Package holds is an explicit-state model of how room is held for what keeps losing: small
// enough that every order of events can be tried, and of its own making, as the model of the
// commit beside it is.
//
// In it are two schedulers, each with tasks of its own, alone or as a gang with one on each
// node; mirrors that lag; requests that are late or never arrive; holds that are placed,
// charged, ended by their owner's commit, given back and ended by their lease, also before
// they arrive; tasks that end. A hold is for all that its owner's next request claims. Lanes
// are the other model's: one request of a scheduler is under way at a time, its sender sees
// what came of it before it sends another, and once given up it never applies.
package holds

import "fmt"

const (
	schedulers = 2
	nodes      = 2
	slots      = 2 // of each scheduler
)

// Cell is the world of one search.
type Cell struct {
	Capacity int // units of each node
	Owners   [schedulers]Owner
	Requests int // sent by both together
	Ends     int // tasks that end
	GiveUps  int
}

// Owner is a scheduler and what it wants to place.
type Owner struct {
	Tasks      int // at most two
	Gang       bool
	Size       int // units of a task
	Precedence int
	Holds      int // that it may place, one at a time
}

// Rules are the rules of the protocol. Without any of them a law is broken.
type Rules struct {
	Compare  bool // placing a hold compares the fences of its nodes
	Bump     bool // and bumps them
	Together bool // it is placed on all of its nodes or on none
	Lease    bool // and only while its lease lives
	Charged  bool // a hold is charged to others
	Equal    bool // also to those of the same precedence
	Higher   bool // but not to strictly higher ones
	Own      bool // nor to its owner
	Remove   bool // its owner's commit removes it
	Atomic   bool // that of a gang from all nodes or none
	OwnFence bool // and compares the fences, as every commit does
}

// AllRules is the protocol.
func AllRules() Rules {
	return Rules{Compare: true, Bump: true, Together: true, Lease: true, Charged: true, Equal: true, Higher: true, Own: true,
		Remove: true, Atomic: true, OwnFence: true}
}

// Law is what a state can break; 0 is none.
type Law uint8

// The laws.
const (
	Capacity Law = iota + 1
	Kept
	Whole
	Once
	Ended
	Yields
	Serves
)

func (l Law) String() string {
	return []string{
		"no law",
		"a node carries no more than it has room for",
		"nobody whom a hold keeps off gets its room",
		"a gang's hold stands on all of its nodes or on none",
		"no room is charged as held and as taken for the same task",
		"no hold outlives its lease",
		"a hold keeps off nobody of strictly higher precedence",
		"while its room is held its owner has it",
	}[l]
}

// state is one state of the world; it is its own key.
type state struct {
	store    view
	rev      uint8
	mirrors  [schedulers]view
	requests [schedulers]request
	leases   [schedulers]lease
	broken   Law

	sent, ends, giveUps uint8 // spent
	holds               [schedulers]uint8
}

// view is what is stored.
type view struct {
	fence  [nodes]uint8
	placed [schedulers][slots]uint8 // node + 1; 0: not yet
	over   [schedulers]uint8        // tasks that have ended, a bit each
	hold   [schedulers]uint8        // nodes on which the scheduler's hold stands, a bit each
}

type lease uint8

const (
	none lease = iota
	alive
	ended
)

// request claims tasks, or places a hold for them.
type request struct {
	kind    kind
	nodes   [slots]uint8 // by task: node + 1; 0: none
	fence   [nodes]uint8 // that it compares
	removes uint8        // nodes from which it takes the hold, a bit each
}

type kind uint8

const (
	claims kind = iota + 1
	places      // a hold
)

func bit(n uint8) uint8 { return 1 << n }

// Found is what a search has found.
type Found struct {
	States   int
	Complete bool
	Broken   Law
	Steps    []string // to the state that breaks the law
}

// Search tries every order of steps, breadth first, up to so many states.
func Search(c Cell, rules Rules, most int) Found {
	type known struct {
		state
		from int
		step string
	}
	states, seen := []known{{}}, map[state]bool{{}: true}
	for i := 0; i < len(states); i++ {
		w := &world{Cell: c, Rules: rules, now: states[i].state}
		if law := w.judge(); law != 0 {
			var steps []string
			for at := i; at > 0; at = states[at].from {
				steps = append([]string{states[at].step}, steps...)
			}
			return Found{len(states), true, law, steps}
		}
		w.emit = func(after state, step string) {
			after.renumber()
			if !seen[after] && len(states) < most {
				seen[after] = true
				states = append(states, known{after, i, step})
			}
		}
		w.next()
	}
	return Found{States: len(states), Complete: len(states) < most}
}

// renumber keeps of revisions only their order.
func (s *state) renumber() {
	all := []*uint8{&s.rev}
	of := func(fences *[nodes]uint8) {
		for n := range fences {
			all = append(all, &fences[n])
		}
	}
	of(&s.store.fence)
	for i := range schedulers {
		of(&s.mirrors[i].fence)
		of(&s.requests[i].fence)
	}
	var known, number [256]uint8
	for _, r := range all {
		known[*r] = 1
	}
	next := uint8(0)
	for r := 1; r < len(known); r++ {
		if known[r] == 1 {
			next++
			number[r] = next
		}
	}
	for _, r := range all {
		*r = number[*r]
	}
}

// judge names the law that a state breaks.
func (w *world) judge() Law {
	s := &w.now
	if s.broken != 0 {
		return s.broken
	}
	for n := range uint8(nodes) {
		if w.taken(&s.store, n) > w.Capacity {
			return Capacity
		}
	}
	for i, o := range w.Owners {
		hold := s.store.hold[i]
		switch {
		case hold != 0 && s.leases[i] != alive:
			return Ended
		case o.Gang && hold != 0 && hold != bit(0)|bit(1):
			return Whole
		}
		for t := range o.Tasks {
			if at := s.store.placed[i][t]; at > 0 && hold&bit(at-1) != 0 {
				return Once
			}
		}
		if s.mirrors[i] != s.store {
			continue
		}
		for _, r := range w.wanted(&s.store, i) {
			if law := w.refusal(&s.store, i, r); law != 0 {
				return law
			}
		}
	}
	return 0
}

// refusal is the law that it would break to refuse a claim.
func (w *world) refusal(v *view, who int, r request) Law {
	other := 1 - who
	beside, within := true, v.hold[who] != 0
	for n := range uint8(nodes) {
		units := w.Owners[who].Size * on(&r, n)
		if units == 0 {
			continue
		}
		beside = beside && w.taken(v, n)+units <= w.Capacity
		within = within && v.hold[who]&bit(n) != 0 && w.taken(v, n)+w.held(v, 0, n)+w.held(v, 1, n) <= w.Capacity
	}
	switch {
	case w.fits(v, who, r):
	case beside && w.Owners[who].Precedence > w.Owners[other].Precedence && v.hold[who] == 0:
		return Yields
	case within:
		return Serves
	}
	return 0
}

func (f Found) String() string {
	if f.Broken == 0 {
		return fmt.Sprintf("no law broken in %d states, complete: %v", f.States, f.Complete)
	}
	return fmt.Sprintf("%d states; %q broken after %q", f.States, f.Broken.String(), f.Steps)
}
