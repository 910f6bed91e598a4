package model

import (
	"fmt"
	"math/bits"
)

// step names what happens between two states.
type step struct {
	what       string // with a verb for each number
	who, which uint8
}

func (s step) String() string { return fmt.Sprintf(s.what, s.who, s.which) }

// next yields every state that may follow s.
func (w *world) next(s *state, yield func(step, *state)) {
	do := func(what string, who, which uint8, change func(*state)) {
		after := *s
		change(&after)
		yield(step{what, who, which}, &after)
	}
	w.mirrorSteps(s, do)
	if s.logged == maxLag {
		return // nothing is written before the slowest mirror has moved
	}
	w.requestSteps(s, do)
	w.taskSteps(s, do)
	w.jobSteps(s, do)
	w.keeperSteps(s, do)
}

type doer func(what string, who, which uint8, change func(*state))

func (w *world) mirrorSteps(s *state, do doer) {
	for who := range uint8(schedulers) {
		if s.at[who] == s.logged {
			continue
		}
		do("mirror %d takes in a revision (%d left before)", who, s.logged-s.at[who], func(s *state) { w.observe(s, who, false) })
		if int(s.losses) < w.Losses {
			do("mirror %d loses a revision (%d left before)", who, s.logged-s.at[who], func(s *state) {
				s.losses++
				w.observe(s, who, true)
			})
		}
	}
}

func (w *world) requestSteps(s *state, do doer) {
	for who := range uint8(schedulers) {
		if s.waiting[who] != 0 {
			do("scheduler %d asks its lane for the fate of transaction %d", who, s.waiting[who], func(s *state) { s.giveUp(who) })
			continue
		}
		if int(s.sent) == w.Requests {
			continue
		}
		w.decide(&s.mirror[who], func(r request) {
			if !w.reads(s, &r) {
				return
			}
			do("scheduler %d sends transaction %d", who, s.sent+1, func(s *state) {
				r.by, r.seq = who, s.lane[who]+1
				s.requests[s.sent] = r
				s.sent++
				s.waiting[who] = s.sent
			})
		})
	}
	for i, r := range s.requests {
		if r.seq == 0 {
			continue
		}
		txn := uint8(i) + 1
		do("the store receives from scheduler %d transaction %d", r.by, txn, func(s *state) { w.deliver(s, txn, false) })
		if int(s.repeats) < w.Repeats {
			do("the store receives from scheduler %d transaction %d, of which a copy is under way", r.by, txn, func(s *state) {
				s.repeats++
				w.deliver(s, txn, true)
			})
		}
	}
}

func (w *world) taskSteps(s *state, do doer) {
	for i := range uint8(len(w.Slots)) {
		if s.running[i] != 0 && int(s.ends) < w.Ends {
			do("the task of slot %d ends (transaction %d)", i, s.running[i], func(s *state) { s.exit(i) })
		}
		if p := s.store.slots[i].placement; p.heir && !p.started && s.running[i] == p.txn && !s.awaits(p) {
			do("the agent reports that slot %d starts (transaction %d)", i, p.txn, func(s *state) {
				w.write(s, func() { s.store.slots[i].started = true })
			})
		}
		ended := s.store.slots[i].ended
		keep := uint8(0)
		if w.Newest && ended != 0 {
			keep = bit(uint8(bits.Len8(ended)) - 1)
		}
		if ended&^keep != 0 && int(s.retentions) < w.Retentions {
			do("retention leaves of slot %d the attempts with bits %#b", i, keep, func(s *state) {
				s.retentions++
				w.write(s, func() { s.store.slots[i].ended = keep })
			})
		}
	}
	for i, r := range s.reports {
		if r.attempt == 0 {
			continue
		}
		do("the store receives the end of slot %d (transaction %d)", r.slot, r.txn, func(s *state) { w.release(s, i, false) })
		if int(s.repeats) < w.Repeats {
			do("the store receives the end of slot %d (transaction %d), of which a copy is under way", r.slot, r.txn, func(s *state) {
				s.repeats++
				w.release(s, i, true)
			})
		}
	}
}

// awaits says whether a victim of an heir is still there. Its agent reports no start
// before; of others nobody reads whether they have started.
func (s *state) awaits(heir placement) bool {
	for _, o := range s.store.slots {
		if o.txn != 0 && o.evictedBy == heir.txn {
			return true
		}
	}
	return false
}

// exit ends the task that runs in a slot; the agent reports it.
func (s *state) exit(slot uint8) {
	s.reports[s.ends] = report{slot: slot, attempt: s.store.slots[slot].attempt, txn: s.running[slot]}
	s.ends++
	s.running[slot] = 0
}
