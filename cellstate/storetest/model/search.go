package model

import (
	"fmt"
	"strings"
)

// Found is what a search has found.
type Found struct {
	States   int      // that were searched, all different
	Complete bool     // there are no more, or a law is broken
	Broken   Law      // 0: none
	Steps    []string // from the start to the broken law, as few as can be
}

func (f Found) String() string {
	if f.Broken == 0 {
		return fmt.Sprintf("no law broken in %d states, complete: %v", f.States, f.Complete)
	}
	return fmt.Sprintf("%v broken after\n\t%s", f.Broken, strings.Join(f.Steps, "\n\t"))
}

// Search tries every order of steps, up to so many states. Two states that differ only in
// the schedulers' numbers count as one.
func Search(c Cell, rules Rules, most int) Found {
	w := &world{c, rules}
	type known struct {
		state
		from int
	}
	start := w.start()
	states := []known{{start, -1}}
	seen := map[state]struct{}{start: {}}
	for i := 0; i < len(states); i++ {
		now := states[i].state
		if law := w.judge(&now); law != 0 {
			var path []state
			for ; i >= 0; i = states[i].from {
				path = append(path, states[i].state)
			}
			return Found{States: len(states), Complete: true, Broken: law, Steps: w.explain(path)}
		}
		w.next(&now, func(_ step, after *state) {
			if after.rank(0) > after.rank(1) {
				after.turn()
			}
			if _, ok := seen[*after]; ok || len(states) == most {
				return
			}
			seen[*after] = struct{}{}
			states = append(states, known{*after, i})
		})
	}
	return Found{States: len(states), Complete: len(states) < most}
}

// explain names the steps of a path, which is given from its end. In its states the
// schedulers may have changed numbers; in what it says they keep them.
func (w *world) explain(path []state) []string {
	var steps []string
	now := path[len(path)-1]
	for i := len(path) - 2; i >= 0; i-- {
		var found *state
		w.next(&now, func(s step, after *state) {
			if found != nil {
				return
			}
			turned := *after
			turned.turn()
			if *after == path[i] || turned == path[i] {
				found = after
				steps = append(steps, s.String())
			}
		})
		now = *found
	}
	return steps
}

// rank is an order of the schedulers, which are alike, whatever their numbers.
func (s *state) rank(who int) int {
	return int(s.waiting[who])<<16 + int(s.at[who])<<8 + int(s.lane[who])
}

// turn exchanges the schedulers' numbers.
func (s *state) turn() {
	s.waiting[0], s.waiting[1] = s.waiting[1], s.waiting[0]
	s.at[0], s.at[1] = s.at[1], s.at[0]
	s.lane[0], s.lane[1] = s.lane[1], s.lane[0]
	s.mirror[0], s.mirror[1] = s.mirror[1], s.mirror[0]
	for i := range s.requests {
		if s.requests[i].seq != 0 {
			s.requests[i].by = 1 - s.requests[i].by
		}
	}
}

// judge names the law that a state breaks.
func (w *world) judge(s *state) Law {
	if s.broken != 0 {
		return s.broken
	}
	var alive [maxNodes]int // units of what runs or may start now: heirs wait for their victims
	for i, spec := range w.Slots {
		txn, p := s.running[i], s.store.slots[i].placement
		switch {
		case txn == 0:
		case p.txn != txn && s.evicted&bit(uint8(i)) != 0:
			return L5
		case p.txn != txn:
			return L2
		case !s.awaits(p):
			alive[p.node] += spec.Size
		}
	}
	for n := range w.Nodes {
		if alive[n] > w.Capacity || w.charge(&s.store, uint8(n)) > w.Capacity {
			return L1
		}
	}
	return 0
}
