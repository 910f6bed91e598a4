// Package model is an explicit-state model of the commit protocol: small enough that
// every order of events can be tried, and of its own making, so that a thought that is
// wrong in the product's code is not wrong here in the same way.
//
// A Cell says what there is (nodes, jobs, slots) and how often each thing may go wrong.
// Search tries every order of steps, breadth first, and asks after each whether the
// promises L1 to L6 of package cellstate hold. Rules are what a commit compares and what
// may be removed; each can be left out, which shows that the search would find the loss.
//
// In the model are two schedulers that decide on mirrors; mirrors that lag, lose whole
// revisions and load again when the chain of a node's fences has a gap; requests that
// are late, lost (one that is never delivered) or delivered twice, and senders that give
// up on them through their lane; releases that are late or come twice; evictions, also
// of heirs: one that has not started is released at once and its victim taken over, one
// that has is a victim like others; heirs that go before their victims; gangs, also with one compare for all of their slots; jobs that
// are stopped, removed and come again under the same name; a keeper that marks a job
// done and removes its records on an old reading; retention of ended attempts.
//
// Not in it: several incremental claims in one request, more than one victim of a claim,
// a second claim that relies on a victim which its own transaction has marked, two
// requests in one lane at a time, revisions lost in part, the reload of one node alone (a
// mirror loads everything), job versions, devices and ports, scope fences, holds and quotas,
// which have models of their own below, leases, incarnations, and nodes that shrink.
package model

// The most that a Cell may have.
const (
	maxNodes    = 2
	maxSlots    = 3
	maxRequests = 4
	maxReports  = 2
	maxLag      = 4 // revisions that a mirror may be behind
	schedulers  = 2
)

// Cell is the world of one search.
type Cell struct {
	Name     string
	Nodes    int
	Capacity int    // units of each node
	Slots    []Slot // at most three
	Gang     bool   // the slots of job 0 are claimed together, slot i on node i, or not at all
	OneRange bool   // and all on one node: their sender reads them, and its request compares that nothing in their range is newer

	// How often each may happen.
	Requests   int // sent by both schedulers together
	Repeats    int // deliveries that leave a copy of the request or report under way
	Losses     int // revisions that a mirror does not see
	Ends       int // tasks that end, or are stopped before they start
	Stops      int // jobs that are stopped
	Removals   int // jobs that the keeper finds done
	Creations  int // jobs that come again after they were removed
	Retentions int // removals of ended attempts
}

// Slot is a slot of a job; a job's number is below the number of slots.
type Slot struct {
	Job        int
	Size       int // units
	Precedence int
}

// Rules are the rules of the protocol. Without any of them a promise is broken.
type Rules struct {
	Fence      bool // a claim compares the fence of its node
	Chain      bool // a mirror loads again when a record's compared fence is not the one it knows
	Ended      bool // a slot's compare covers ended attempts from the one claimed, not only the placement
	Job        bool // a claim compares its job's record
	Victim     bool // an eviction compares its victim's record
	KeepVictim bool // an eviction marks its victim and deletes nothing
	Orphans    bool // a victim whose heir went is charged until its exit
	Started    bool // the release of an heir compares that it has not started
	Lane       bool // a request compares its lane
	Atomic     bool // all compares of a gang stand at the top of its request
	ReleaseTxn bool // a release names its placement by transaction, not by slot and attempt
	Range      bool // the removal of a job's records compares that none is newer than its reading
	Newer      bool // the one compare of a gang's slots is on all that is newer than their reading
	Newest     bool // retention keeps the newest ended attempt of each slot
}

// AllRules is the protocol.
func AllRules() Rules {
	return Rules{Fence: true, Chain: true, Ended: true, Job: true, Victim: true, KeepVictim: true, Orphans: true, Started: true,
		Lane: true, Atomic: true, ReleaseTxn: true, Newer: true, Range: true, Newest: true}
}

// Law is a promise of the transaction, numbered as in package cellstate; 0 is none.
type Law uint8

// The laws that a state can break.
const (
	L1 Law = iota + 1 // capacity, with eviction sets, and of what may really run at once
	L2                // one live placement a slot, whose record stands while it lives; an attempt is used once
	L3                // a gang stands whole or not at all
	L4                // no claim for a job that was stopped, removed or changed since the snapshot
	L5                // a victim is there when a claim relies on it, and has its record until its exit
	L6                // a request is never applied twice, nor after its sender has learnt that it never will be
)

func (l Law) String() string {
	if l == 0 {
		return "no law"
	}
	return "L" + string('0'+rune(l))
}

// state is one state of the world. It is a value of bytes only, so it is its own key.
// Transactions, and with them requests, are numbered from 1 in the order they are sent.
type state struct {
	store view
	rev   uint8
	lane  [schedulers]uint8 // the sequence that the lane has reached

	mirror [schedulers]view
	log    [maxLag]change // revisions that not both mirrors have passed
	logged uint8
	at     [schedulers]uint8 // the next revision in log

	requests [maxRequests]request // by transaction; under way if seq is not 0
	sent     uint8
	waiting  [schedulers]uint8 // the transaction whose fate the scheduler does not know
	reports  [maxReports]report
	removal  removal

	// What really happened; no part of the protocol reads it.
	running [maxSlots]uint8 // the transaction whose task has not exited
	evicted uint8           // slots of which the running task was evicted
	used    [maxSlots]uint8 // attempts placed since the job came, a bit each
	applied uint8           // transactions of which something was written
	never   uint8           // transactions whose sender has learnt that they never will be applied
	broken  Law             // the law that the last step broke

	repeats, losses, ends, stops, removals, creations, retentions uint8 // spent
}

// view is what is watched, and the fences.
type view struct {
	jobs  [maxSlots]job
	slots [maxSlots]slot
	fence [maxNodes]uint8
}

type job struct {
	rev  uint8 // 0: there is no such job
	live bool  // not stopped
}

type slot struct {
	placement
	ended uint8 // attempts, a bit each
}

// placement is the live one of a slot; txn 0: none.
type placement struct {
	rev, txn, attempt, node, evictedBy uint8
	heir                               bool // it evicted another
	started                            bool // so its status says, a record of its own: rev stays
}

// change is one revision: the records that it changed.
type change struct {
	records        view
	compared       [maxNodes]uint8 // the fence before, where it was bumped
	jobs, slots, n uint8           // which of records, a bit each; n: nodes whose fence was bumped
}

type request struct {
	by, seq uint8
	claims  [2]claim
	jobRev  uint8
	victim  target
	// An heir that has not started is not marked but released, and its own victim, if that
	// is still there, gets the sender for its heir.
	release bool
	inherit target
	// Of a gang whose slots are compared as one range: what they were when its sender read
	// them, and when that was; 0: it compares each.
	read  uint8
	ended [2]uint8
}

// target is a placement that gives way; txn 0: none.
type target struct{ slot, txn, rev uint8 }

type claim struct {
	attempt           uint8 // 0: no claim
	slot, node, fence uint8
}

// report says that a task has ended; attempt 0: no report.
type report struct{ slot, attempt, txn uint8 }

// removal is what the keeper has read of a job that it takes for done; jobRev 0: none.
// Whatever is newer is a placement or an ended attempt that is not in ended.
type removal struct {
	job, jobRev uint8
	ended       [maxSlots]uint8
}

func bit(n uint8) uint8 { return 1 << n }
