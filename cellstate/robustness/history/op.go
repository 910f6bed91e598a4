// Package history records what the processes of a cell asked of its store and what they
// were told, and judges afterwards whether that can have been: each node with its tasks,
// and each slot, is an object whose operations must be linearizable, and what a sender was
// told of its request must be what the store's revisions show.
//
// Judging does no I/O and trusts nothing that the judged code says of itself: what was
// applied is taken from the revisions that somebody else has read one by one.
package history

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Fate is what a client was told of a request.
type Fate string

// The fates.
const (
	Open    Fate = ""        // nothing: the client died, or waits still
	Done    Fate = "done"    // an answer; Applied says which writes
	Nothing Fate = "nothing" // an error that says that nothing was and will be applied
	Unknown Fate = "unknown" // an error that leaves it open
)

// Op is one request of one client.
type Op struct {
	ID         string // of the request, unique
	Client     string
	Begin, End int64 // nanoseconds of this machine's monotonic clock; End 0: it never came back
	Writes     []Write
	Read       *Read // it was a read of everything
	Fate       Fate
	Applied    []cellstate.Revision // by write; 0: it was not
	Error      string
	Conflicts  int // no request: claims that a transaction has lost
}

// Write is what one write does to tasks.
type Write []Deed

// Verb is what is done to a task.
type Verb string

// The verbs.
const (
	Claim   Verb = "claim"   // the placement comes
	Release Verb = "release" // the placement goes
	Evict   Verb = "evict"   // the placement is to give way to transaction By
)

// Deed is one thing done to one task.
type Deed struct {
	Verb    Verb
	Slot    string
	Txn     string // of the placement
	Node    string
	Attempt int
	CPU     int64 // milli
	Memory  int64 // bytes
	By      string
	Evicts  bool // the claim has victims
}

// name is what a deed is known by: each happens once at most in the life of a store.
func (d *Deed) name() string { return string(d.Verb) + " " + d.Slot + " " + d.Txn + " " + d.By }

// Read is what a client saw: the tasks that are live at a revision.
type Read struct {
	Revision cellstate.Revision
	Live     []Deed // as claims
}

// Now is the time on the monotonic clock that all processes of this machine share, in
// nanoseconds.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Now().UnixNano()
	}
	return t.Nano()
}

// DeedsOf are the deeds of a revision, or of a write, in its records.
func DeedsOf(records []cellstate.Record) []Deed {
	var all []Deed
	for _, r := range records {
		switch v := r.Value.(type) {
		case *ohmv1.Placement:
			if v.GetEvictedBy() != "" {
				all = append(all, deed(Evict, v))
			} else if r.Read == cellstate.ReadGuarded || r.Read == 0 {
				all = append(all, deed(Claim, v))
			}
		case *ohmv1.Ended:
			all = append(all, deed(Release, v.GetPlacement()))
		}
	}
	return all
}

func deed(v Verb, p *ohmv1.Placement) Deed {
	d := Deed{Verb: v, Slot: cellstate.SlotOf(p.GetSlot()).String(), Txn: p.GetTxn(), Node: p.GetNode(), Attempt: int(p.GetAttempt()),
		CPU: p.GetResources().GetCpuMilli(), Memory: p.GetResources().GetMemoryBytes(), Evicts: len(p.GetVictims()) > 0}
	if v == Evict {
		d.By = p.GetEvictedBy()
	}
	return d
}

// ReadOf is what a snapshot shows.
func ReadOf(s *cellstate.Snapshot) *Read {
	r := &Read{Revision: s.Revision()}
	for n := range s.Nodes() {
		for _, p := range n.Placements() {
			d := deed(Claim, p.Record())
			d.By = p.GetEvictedBy()
			r.Live = append(r.Live, d)
		}
	}
	slices.SortFunc(r.Live, func(a, b Deed) int { return cmp.Compare(a.Slot, b.Slot) })
	return r
}
