// Package quotas is an explicit-state model of how a quota is spent: small enough that
// every order of events can be tried, and of its own making, as the model of the commit
// beside it is.
//
// In it are two scheduler instances, and a second process of the first one that believes
// itself to be alone; mirrors that lag; requests that are late, and senders that give up
// on them without learning their fate; a keeper whose mirror lags and whose grants are
// late; an owner that gives back, a keeper that takes over from the dead; tasks that end;
// an operator who sets a quota while requests are under way, and lowers it. Amounts are
// one number, a request asks for one unit.
//
// The law: no request adds to what is used beyond the quota that stands then.
package quotas

import "fmt"

const (
	instances = 2
	processes = 3 // the third is one of instance 0, too
	requests  = 3
	grants    = 2
)

// Cell says how often each thing may happen.
type Cell struct {
	Limit  int  // of the first quota
	Before int  // requests that instance 1 may make before there is a quota; 0: it is there from the start
	Twin   bool // there is the second process of instance 0

	Requests, Takeovers, GiveUps, Ends, Grants, Givings, Deaths, Lowerings int
}

// Rules are the rules of the protocol. Without any of them the law is broken.
type Rules struct {
	Share    bool // a request compares the share that it is paid from
	Creation bool // a request compares that no quota was created since
	Ledger   bool // a process counts what it has under way
	Holder   bool // it puts the share, with its name, before it spends it for the first time
	Held     bool // the keeper counts what is used, where that is more than what is granted
	Serial   bool // a grant puts the quota's record, compared
	TakeBack bool // lowering a quota takes the shares back
}

// AllRules is the protocol.
func AllRules() Rules {
	return Rules{Share: true, Creation: true, Ledger: true, Holder: true, Held: true, Serial: true, TakeBack: true}
}

// state is one state of the world; it is its own key.
type state struct {
	store    view
	mirrors  [processes]view
	keeper   view
	requests [requests]request
	grants   [grants]grant
	broken   bool

	sent, takeovers, giveUps, ends, granted, givings, deaths, lowerings uint8 // spent
}

// view is what is stored, at a revision.
type view struct {
	rev     uint8
	limit   uint8
	quota   uint8 // revision of the quota's record; 0: none
	created uint8 // revision at which quotas were created last
	shares  [instances]share
}

type share struct {
	rev, granted, used uint8
	holder             uint8 // process + 1; 0: none
}

func (s share) held() uint8 { return max(s.used, s.granted) }

// request asks for one unit; from 0 is none.
type request struct {
	from           uint8 // process + 1
	share, created uint8 // what it compares; share 0: it saw no quota
	at             uint8 // at which it applied
	arrived        bool
	answered       bool // its sender knows its fate
	unknown        bool // its sender has given up
}

// grant is a put of a share by the keeper; share 0 is none.
type grant struct {
	instance, granted, share uint8
	quota                    uint8 // the record that it compares and puts; 0: it takes over from the dead
}

func instanceOf(process int) int { return process % instances }

// Found is what a search has found.
type Found struct {
	States   int
	Complete bool
	Steps    []string // to a state that breaks the law; nil: there is none
}

// Search tries every order of steps, breadth first, up to so many states.
func Search(c Cell, rules Rules, most int) Found {
	type known struct {
		state
		from int
		step string
	}
	start := state{store: view{rev: 1}}
	for i := range start.store.shares {
		start.store.shares[i] = share{rev: 1, holder: uint8(i + 1)}
	}
	if c.Before == 0 {
		start.store.limit, start.store.quota, start.store.created = uint8(c.Limit), 1, 1
	}
	for p := range start.mirrors {
		start.mirrors[p] = start.store
	}
	start.keeper = start.store
	states, seen := []known{{state: start}}, map[state]bool{start: true}
	for i := 0; i < len(states); i++ {
		if states[i].broken {
			var steps []string
			for ; i > 0; i = states[i].from {
				steps = append([]string{states[i].step}, steps...)
			}
			return Found{len(states), true, steps}
		}
		w := &world{c, rules, states[i].state, func(after state, step string) {
			after.renumber()
			if !seen[after] && len(states) < most {
				seen[after] = true
				states = append(states, known{after, i, step})
			}
		}}
		w.next()
	}
	return Found{len(states), len(states) < most, nil}
}

// renumber keeps of revisions only their order: two states that differ in nothing else
// are the same.
func (s *state) renumber() {
	var all []*uint8
	of := func(v *view) {
		all = append(all, &v.rev, &v.quota, &v.created)
		for i := range v.shares {
			all = append(all, &v.shares[i].rev)
		}
	}
	of(&s.store)
	of(&s.keeper)
	for i := range s.mirrors {
		of(&s.mirrors[i])
	}
	for i := range s.requests {
		r := &s.requests[i]
		all = append(all, &r.share, &r.created, &r.at)
	}
	for i := range s.grants {
		all = append(all, &s.grants[i].share, &s.grants[i].quota)
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

// world is a state and where its successors go.
type world struct {
	Cell
	Rules
	now  state
	emit func(state, string)
}

// step emits what a change makes of the state, if the change is one.
func (w *world) step(name string, change func(*state) bool) {
	after := w.now
	if change(&after) {
		w.emit(after, name)
	}
}

// spend counts a thing that may happen so many times.
func spend(count *uint8, most int) bool {
	*count++
	return int(*count) <= most
}

func (w *world) next() {
	for p := range processes {
		if p >= instances && !w.Twin {
			break
		}
		w.step(fmt.Sprintf("process %d sees what is stored", p), func(s *state) bool {
			s.mirrors[p] = s.store
			s.forget(p)
			return s.mirrors[p] != w.now.mirrors[p]
		})
		w.step(fmt.Sprintf("process %d sends a request", p), func(s *state) bool { return w.send(s, p) })
		w.step(fmt.Sprintf("process %d puts its share", p), func(s *state) bool { return w.takeOver(s, p) })
		w.step(fmt.Sprintf("process %d gives back", p), func(s *state) bool { return w.giveBack(s, p) })
	}
	for r := range requests {
		w.step(fmt.Sprintf("request %d arrives", r), func(s *state) bool { return w.arrive(s, &s.requests[r]) })
		w.step(fmt.Sprintf("request %d is answered", r), func(s *state) bool {
			q := &s.requests[r]
			if q.from == 0 || !q.arrived || q.answered || q.unknown {
				return false
			}
			q.answered = true
			s.forget(int(q.from) - 1)
			return true
		})
		w.step(fmt.Sprintf("the sender of request %d gives up", r), func(s *state) bool {
			q := &s.requests[r]
			if q.from == 0 || q.answered || q.unknown {
				return false
			}
			q.unknown = true
			return spend(&s.giveUps, w.GiveUps)
		})
	}
	w.step("the keeper sees what is stored", func(s *state) bool { s.keeper = s.store; return s.keeper != w.now.keeper })
	for i := range instances {
		w.step(fmt.Sprintf("a task of instance %d ends", i), func(s *state) bool {
			if s.store.shares[i].used == 0 {
				return false
			}
			s.store.shares[i].used--
			s.store.rev++
			return spend(&s.ends, w.Ends)
		})
		w.step(fmt.Sprintf("the keeper raises the share of instance %d", i), func(s *state) bool { return w.raise(s, i) })
	}
	w.step("the keeper takes over from instance 0", w.inherit)
	for g := range grants {
		w.step(fmt.Sprintf("grant %d arrives", g), func(s *state) bool { return w.arriveGrant(s, &s.grants[g]) })
	}
	w.step("the operator sets a quota", w.set)
	w.step("the operator lowers the quota", w.lower)
}
