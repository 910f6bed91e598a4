package schedulers

import (
	"cmp"
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// entry is one job of the queue.
type entry struct {
	queue   *queue
	name    cellstate.JobName
	job     *cellstate.Job     // the row that needs and wake are about
	room    cellstate.Revision // of a system job: the room revision that they are about
	version cellstate.Revision // of the job's record when slots were parked

	precedence int32 // of the record, which is looked at for each entry in each round
	stage      int   // among equals a broken gang comes first, and one that only grows last
	submitted  int64 // Unix time in ns

	ordered  bool      // it stands in the queue's order
	laned    bool      // and in that of its namespace
	yields   time.Time // since when it has left room to namespaces below their due; zero: it does not
	owned    bool
	pass     int            // the last pass that tried all its needs
	cursor   cellstate.Slot // the last slot tried in an unfinished pass
	needs    []reconcile.Need
	wake     time.Time // when there will be more although nothing changes; zero: never
	parked   map[cellstate.Slot]parked
	losses   map[cellstate.Slot]loss
	defeats  int                         // of a gang's transactions, in a row
	flying   map[cellstate.Slot]bool     // claimed, on their way to the store
	deferred map[cellstate.Slot]deferral // found no node beside those in flight
	refusals map[string]refusal          // by group: the policy's last word
	lost     string                      // the last race that was lost, for people
	kept     string                      // where room is held for it, for people
	reserved string                      // where room is reserved for it, for people
	hopeless string                      // why there will be no room for its gang, for people
	waits    time.Time                   // since when it has got no room that it asked for; zero: it has
	unwanted time.Time                   // until when nothing is reserved for it
	problem  string                      // what is wrong with the policy's answer, for people
	word     *ohmv1.Waiting              // what the above says; nil when nothing is parked
	said     said
}

// parked says when a slot was found to have no room.
type parked struct {
	at    cellstate.Revision // of the snapshot
	sweep time.Time          // when it is tried again in any case
	// cost is what it would take of a quota that has not so much left; nothing: it
	// is room on nodes that it lacks.
	cost cellstate.Amounts
}

// deferral says that a slot is not tried before something has landed.
type deferral struct {
	landing int // the count of landings when it was deferred
	times   int // in a row
}

// loss is what a slot's lost races mean for its next try.
type loss struct {
	times    int
	revision cellstate.Revision // of the snapshot on which the last one was judged
	until    time.Time
	node     cellstate.NodeName // of the last one
	fresh    bool               // no decision since
}

// refusal is why slots of one group found no node.
type refusal struct {
	nodes   int
	reasons []*ohmv1.Reason
	rigid   string    // why nothing gives way: for people
	code    string    // and for programs
	never   string    // why no node of the cell could ever do: for people
	quota   string    // not nodes, but a quota: for people
	since   time.Time // when the first of them was refused that has waited ever since
}

// since is since when a group has waited that is refused now: a scheduler that has been started
// anew goes by what it has said before.
func (e *entry) since(group string, now time.Time) time.Time {
	if at := e.refusals[group].since; !at.IsZero() {
		return at
	}
	if w := e.job.Waiting; w.GetJobVersion() == e.job.Record.GetVersion() {
		for _, g := range w.GetGroups() {
			if g.GetGroup() == group && g.GetSince() != nil {
				return g.GetSince().AsTime()
			}
		}
	}
	return now
}

// forget leaves a job to another instance.
func (e *entry) forget() {
	e.queue.moved(e)
	*e = entry{queue: e.queue, name: e.name, flying: e.flying, ordered: e.ordered, laned: e.laned}
}

func (e *entry) update(s *cellstate.Snapshot, j *cellstate.Job, limits reconcile.Limits, now time.Time) {
	system := j.Record.GetSpec().GetKind() == "system"
	due := !e.wake.IsZero() && !e.wake.After(now)
	if e.job == j && !due && (!system || e.room == s.RoomRevision()) {
		return
	}
	if e.version != j.Revision {
		e.parked, e.losses, e.deferred, e.refusals, e.word, e.lost, e.kept, e.problem, e.pass, e.defeats = nil, nil, nil, nil, nil, "", "", "", 0, 0
		e.reserved, e.hopeless, e.waits, e.unwanted = "", "", time.Time{}, time.Time{}
		e.version = j.Revision
		e.queue.moved(e)
		e.precedence, e.submitted = j.Record.GetSpec().GetPrecedence(), j.Record.GetSubmitTime().AsTime().UnixNano()
	}
	was := e.job
	e.job, e.room = j, s.RoomRevision()
	follows := false
	if was != nil && e.wake.IsZero() {
		var needs []reconcile.Need
		if needs, follows = reconcile.Follow(was, j, e.needs); follows {
			e.needs = needs
		}
	}
	if !follows {
		e.needs, e.wake = limits.Needs(s, j, now)
	}
	if at := stageOf(e.needs); at != e.stage {
		e.queue.moved(e)
		e.stage = at
	}
	e.dropSettled()
}

// The stages of entries, the most urgent first.
const (
	repairs = iota - 1
	starts
	grows
)

func stageOf(needs []reconcile.Need) int {
	if len(needs) == 0 || needs[0].Gang == nil {
		return starts
	}
	switch needs[0].Gang.Stage {
	case reconcile.Repairing:
		return repairs
	case reconcile.Growing:
		return grows
	}
	return starts
}

// dropSettled forgets what is known of slots that need no node any more.
func (e *entry) dropSettled() {
	if len(e.needs) == 0 {
		e.waits = time.Time{}
	}
	if len(e.parked)+len(e.losses)+len(e.deferred) == 0 {
		return // and there is no word to bring up to date
	}
	needed := make(map[cellstate.Slot]bool, len(e.needs))
	for _, n := range e.needs {
		needed[n.Slot] = true
	}
	for s := range e.parked {
		if !needed[s] {
			delete(e.parked, s)
		}
	}
	for s := range e.losses {
		if !needed[s] {
			delete(e.losses, s)
		}
	}
	for s := range e.deferred {
		if !needed[s] {
			delete(e.deferred, s)
		}
	}
	if len(e.losses) == 0 {
		e.lost = ""
	}
	e.say()
}

// active says whether the queue has to look at the entry although its job's row does not
// change.
func (e *entry) active() bool {
	return e.owned && e.job != nil && (len(e.needs) > 0 || e.watched())
}

// watched says whether the entry may change with time or room alone, or has something said
// of it that may have to be said anew.
func (e *entry) watched() bool {
	return e.owned && e.job != nil && (!e.wake.IsZero() ||
		e.word != nil || e.job.Waiting != nil || e.job.Record.GetSpec().GetKind() == "system")
}

func gang(j *cellstate.Job) bool { return j.Record.GetSpec().GetKind() == "ml" }

// free says whether any need may be tried now and, if not, when one may. A gang waits
// for the last of its members.
func (e *entry) free(s *cellstate.Snapshot, now time.Time) (free bool, wake time.Time) {
	all := true
	for _, n := range e.needs {
		at, held := e.held(n.Slot, s, now)
		if !held {
			free = true
			if !gang(e.job) {
				return true, wake
			}
			continue
		}
		all = false
		wake = earlier(wake, at)
	}
	if gang(e.job) {
		return free && all, wake
	}
	return free, wake
}

// held says whether a slot must not be tried now, and until when.
func (e *entry) held(slot cellstate.Slot, s *cellstate.Snapshot, now time.Time) (until time.Time, held bool) {
	if e.flying[slot] {
		return time.Time{}, true
	}
	if d, ok := e.deferred[slot]; ok && d.landing == e.queue.landing && e.queue.flights > 0 {
		return time.Time{}, true
	}
	if l, ok := e.losses[slot]; ok && l.until.After(now) {
		return l.until, true
	}
	if p, ok := e.parked[slot]; ok && p.sweep.After(now) {
		if p.cost == (cellstate.Amounts{}) && p.at >= s.RoomRevision() || p.cost != (cellstate.Amounts{}) && !e.queue.budget.covers(slot.Namespace, p.cost) {
			return p.sweep, true
		}
	}
	return time.Time{}, false
}

// take returns the next needs of an unfinished pass: about n, all of a gang, and all of a
// job that has no more than so many as is whole, since one that is claimed whole is cheaper to
// commit.
func (e *entry) take(s *cellstate.Snapshot, now time.Time, pass, n, whole int) []reconcile.Need {
	if gang(e.job) {
		e.pass = pass
		return e.needs
	}
	all := e.needs
	start, _ := slices.BinarySearchFunc(all, e.cursor, func(n reconcile.Need, after cellstate.Slot) int {
		return cmp.Or(n.Slot.Compare(after), -1) // the first one after it
	})
	var needs []reconcile.Need
	for _, need := range all[start:] {
		if _, held := e.held(need.Slot, s, now); held {
			continue
		}
		if len(needs) >= n && len(all) > whole {
			e.cursor = needs[n-1].Slot
			return needs
		}
		needs = append(needs, need)
	}
	e.cursor, e.pass = cellstate.Slot{}, pass
	return needs
}

// park notes that slots found no room on a snapshot.
func (e *entry) park(slots []cellstate.Slot, at cellstate.Revision, sweep time.Time) {
	if e.parked == nil {
		e.parked = map[cellstate.Slot]parked{}
	}
	for _, s := range slots {
		e.parked[s] = parked{at: at, sweep: sweep}
		delete(e.deferred, s)
	}
}

// lose notes a lost race. The first loss costs nothing; from the second one on the slot
// waits, longer each time and at random, so that those who race part.
func (e *entry) lose(slot cellstate.Slot, judged cellstate.Revision, now time.Time, most time.Duration, chance float64) {
	if e.losses == nil {
		e.losses = map[cellstate.Slot]loss{}
	}
	l := e.losses[slot]
	l.times++
	l.revision, l.until = judged, time.Time{}
	if l.times > 1 {
		wait := min(5*time.Millisecond<<min(l.times-2, 20), most)
		l.until = now.Add(wait/2 + time.Duration(chance*float64(wait/2)))
	}
	e.losses[slot] = l
	e.pass = 0 // the same pass may try it again: it was not refused for want of room
}
