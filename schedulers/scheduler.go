// Package schedulers runs a scheduling policy against the cell: it follows the cell
// state through a mirror, asks reconcile which slots need a node, hands them to the
// policy, commits its claims and keeps the record of what was lost and why.
//
// A policy owes one method, Scheduler. Everything else is the same under all of them.
package schedulers

import (
	"context"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Scheduler is a policy: the pure part of a scheduler, which chooses nodes. The same
// Input gives the same Proposal; it does no I/O and reads no clock. What does not fit is
// data, in Proposal.Unplaced; an error means that the policy is broken.
type Scheduler interface {
	Schedule(ctx context.Context, in Input) (Proposal, error)
}

// Input is all that a policy decides on.
type Input struct {
	Snapshot *cellstate.Snapshot
	Work     []Work // in the order of the queue: precedence first, then turns of namespaces, then age
	// Now is when the decision is made: a policy reads no clock. By it what is over before a
	// reservation starts is told from what is not; zero: nothing is.
	Now    time.Time
	Seed   uint64 // for ties; the same for the same snapshot and work
	Home   Home
	Limits cellstate.Limits
	// Evictions bounds what may be evicted; its zero value: nothing.
	Evictions Evictions
	// InFlight are the nodes with a request of this instance under way: not to be chosen. A
	// slot for which one of them was the only obstacle is neither claimed nor unplaced.
	InFlight map[cellstate.NodeName]bool
}

// Evictions bounds what a policy may evict for tasks that find no room. Who may evict whom is
// for Validate to say: a victim has lower precedence, or is an equal that its namespace has borrowed.
type Evictions struct {
	Most    int           // victims in this call
	Now     time.Time     // of the decision: the policy reads no clock
	MinRun  time.Duration // what was placed later than so long ago is left alone
	PerTask int           // what was evicted so often is left alone; 0: it never is
}

// Work is one job of which slots need a node. Where namespaces share the cell by weights a
// job may come several times, with a part of its needs each time.
type Work struct {
	Job   *cellstate.Job
	Needs []reconcile.Need // by slot
}

// Home says where an instance is at home: on each node that is its own among the Of instances
// of its scheduler (the Index-th), and its scheduler's among all Schedulers (the Scheduler-th), by
// number. Elsewhere a node costs it something, so that instances are out of each other's
// way at hardly any loss of precision. Of or Schedulers 0 or 1: all nodes.
type Home struct{ Index, Of, Scheduler, Schedulers int }

// Proposal is what a policy wants.
type Proposal struct {
	// Txns have a mode and claims; the Runner fills in who and when.
	Txns     []*cellstate.Txn
	Unplaced []Unplaced
	// Decisions are for the decision log; a policy may leave them out.
	Decisions []Decision
}

// Unplaced explains one group of which slots found no node. The reasons' counts add up
// to Nodes, the number of the snapshot's nodes.
type Unplaced struct {
	Job     cellstate.JobName
	Group   string
	Slots   []cellstate.Slot
	Nodes   int
	Reasons []*ohmv1.Reason
	// NoVictims says why nothing gives way, where something of lower precedence stands.
	// NoVictimsCode is the same for programs.
	NoVictims, NoVictimsCode string
}

// The codes of Unplaced.NoVictimsCode.
const (
	NoVictimsLimit    = "Limit"    // of this instance
	NoVictimsMinRun   = "MinRun"   // who would make room has not run for long enough
	NoVictimsBudget   = "Budget"   // or is of a job of which no more may be down
	NoVictimsPerTask  = "PerTask"  // or was evicted too often
	NoVictimsTooSmall = "TooSmall" // all that may give way would not make room
)

// Cell is what the Runner needs of a mirror.
type Cell interface {
	Watch() (latest *cellstate.Snapshot, newer <-chan struct{})
	WaitSnapshot(ctx context.Context, min cellstate.Revision) (*cellstate.Snapshot, error)
	Commit(ctx context.Context, txns ...*cellstate.Txn) ([]cellstate.Result, error)
}

// Store is where the Runner writes its registration, its journal and its last words.
type Store interface {
	cellstate.Leaser
	Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error)
	Limits() cellstate.Limits
}
