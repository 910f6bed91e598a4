package cellstate

import (
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Mode says what becomes of a transaction of which a part does not fit.
type Mode = ohmv1.Mode

// The modes.
const (
	Incremental = ohmv1.Mode_MODE_INCREMENTAL // keep what fits
	Atomic      = ohmv1.Mode_MODE_ATOMIC      // all or nothing: a gang
)

// Txn is a set of claims that one scheduler instance decided on one snapshot.
type Txn struct {
	ID        TxnID
	Scheduler string
	Instance  string
	Mode      Mode
	Snapshot  Revision // on which it was decided
	Claims    []Claim
}

// Claim is a wish inside a transaction: this slot on that node with these resources.
type Claim struct {
	Slot        Slot
	Attempt     int // the number of the slot's last ended attempt + 1
	Node        NodeName
	Resources   *ohmv1.Resources
	GPUs        []*ohmv1.DeviceShare
	Ports       []*ohmv1.Port
	Precedence  int
	JobRevision Revision // of the job's record that the decision saw
	// Ends is when the attempt is over at the latest, by its job's maxRuntime; zero: nobody
	// knows. The Runner fills it in. It says whether the claim may pass in reserved room.
	Ends time.Time
	// Victims are live placements on the same node that must give way; each has lower
	// precedence. They keep their records until their agent has confirmed their exit.
	Victims []*ohmv1.Victim
}

// The fates of a transaction, as programs are told.
const (
	FateUnderWay  = "UnderWay" // the store has not answered
	FateCommitted = "Committed"
	FatePartly    = "Partly"
	FateLost      = "Lost"
	FateUnknown   = "Unknown" // the store's answer was lost
)

// Reason is why a claim does not fit.
type Reason string

// The reasons: a closed set. Those marked (m) say that the cell moved on, or will:
// another node or a later time may do. The others say that the claim is wrong.
const (
	ReasonResources  Reason = "Resources"  // (m) a dimension is short: cpu, memory, disk, gpus
	ReasonDevice     Reason = "Device"     // (m) a GPU or a share of it is taken
	ReasonPort       Reason = "Port"       // (m)
	ReasonHold       Reason = "Hold"       // (m) room is held for a starving transaction
	ReasonQuota      Reason = "Quota"      // (m) the instance's share of a quota is spent
	ReasonNodeGone   Reason = "NodeGone"   // (m)
	ReasonIneligible Reason = "Ineligible" // (m) the operator keeps new tasks off, or drains
	ReasonDiskFull   Reason = "DiskFull"   // (m) the node's disk is full
	ReasonConstraint Reason = "Constraint" // (m) labels have changed
	ReasonCannot     Reason = "Cannot"     // (m) the node cannot do what the group's tasks need
	ReasonBudget     Reason = "Budget"     // (m) as many tasks of a victim's job are down as it allows
	ReasonRule       Reason = "Rule"       // (m) a required rule between tasks: affinity, antiAffinity, distinct, spread
	ReasonParallel   Reason = "Parallel"   // (m) as many tasks of the job are live as it allows
	ReasonGang       Reason = "Gang"       // (m) a gang of which nothing stands would start with less than its minimum
	ReasonSlotTaken  Reason = "SlotTaken"  // (m) the slot has a live placement, or the attempt was used
	ReasonJobGone    Reason = "JobGone"    // (m)
	ReasonJobStopped Reason = "JobStopped" // (m) stopped or done
	ReasonJobWaits   Reason = "JobWaits"   // (m) for the end of other jobs
	ReasonJobChanged Reason = "JobChanged" // (m) a newer version, or the record moved
	ReasonVictimGone Reason = "VictimGone" // (m) it ended, moved or is evicted by another
	ReasonPrecedence Reason = "Precedence" // of a victim not lower, or not the job's own
	ReasonScheduler  Reason = "Scheduler"  // the job belongs to another scheduler
	ReasonMalformed  Reason = "Malformed"  // negative amounts, an unknown device, a slot twice, …
)

// Conflict is a claim that does not fit, with what it lost to.
type Conflict struct {
	Claim     int // index in the transaction
	Reason    Reason
	Dimension string // cpu, memory, disk, gpus, a device id or a port
	Wanted    string // in the dimension's unit, as people write it
	Free      string
	// Winner is the first placement on the node, newer than the loser's snapshot, with
	// which the claim no longer fits, or with ReasonHold the first such hold; nil where
	// nobody won. Between are the newer placements that stand before it.
	Winner   *Placement
	Between  []*Placement
	Revision Revision // of the snapshot that it was judged on
}

// Result of a committed transaction.
type Result struct {
	Txn       *Txn
	Revision  Revision // at which the last of its claims committed; 0: none did
	Committed []int    // claims, ascending
	Conflicts []Conflict
}
