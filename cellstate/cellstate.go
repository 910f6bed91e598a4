// Package cellstate holds the nouns of the cell and the rules about them: the
// Snapshot that every decision is made on, the transaction (Txn) with which a
// scheduler claims room, Validate, which is the only fit rule in the product, and
// Store, the durable shared truth behind it all.
//
// There is no etcd, no gRPC and no goroutine here. The stored messages of
// proto/ohm/v1 are used as they are, read-only once they are in a Snapshot: they
// keep fields that this release does not know. Only placements, of which there are most,
// are taken apart by a Reader, and put together again when their record is asked for.
//
// The promises of the transaction, which storetest proves for each store and audit
// checks in a store's history, have numbers that code and tests cite:
//
//	L1  no revision adds to a node beyond its capacity then, in any dimension
//	L2  a slot has at most one live placement; an attempt number is used once
//	L3  atomic is all or nothing at every revision; incremental commits what fits
//	L4  no claim commits for a job that was stopped, finished or changed since the
//	    snapshot, or whose scheduler or precedence differs from the claim's
//	L5  an eviction and the claim that needs it are one commit; a victim has lower
//	    precedence and keeps its record until its exit
//	L6  a request whose reply was lost is never applied twice; its fate can be learnt
//	L7  no commit adds a task against a required rule between tasks, within a node or wider
//	L8  no eviction or drain gives up a task if that leaves more of its group down than its
//	    job's disruption budget allows
//	L9  no commit makes more tasks of a job live than its maxParallel
package cellstate

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Revision is a revision of the store; it grows by one with each write request.
type Revision int64

// NodeName is the name of a node, a DNS label.
type NodeName string

// TxnID names a transaction for ever (a ULID).
type TxnID string

// Sentinels. A conflict is never one of them: it is a Result.
var (
	ErrNotFound     = errors.New("not found")
	ErrConflict     = errors.New("precondition failed")          // a compared record has moved on
	ErrUnreachable  = errors.New("cell not reachable")           // the store did not answer; nothing is known to have changed
	ErrUnknown      = errors.New("outcome unknown")              // the store may or may not have applied the request
	ErrCompacted    = errors.New("revision is beyond retention") // the history asked for is gone; load again
	ErrIncarnation  = errors.New("the store was restored")       // another incarnation; load again before acting
	ErrRequestLimit = errors.New("request is too large for the store")
	ErrNoSpace      = errors.New("the store is full and takes no writes; `ohm store doctor` shows the cure") // running tasks and reads go on
)

// JobName names a job in its namespace.
type JobName struct{ Namespace, Name string }

func (j JobName) String() string { return j.Namespace + "/" + j.Name }

// JobNameOf is the name in a job's record.
func JobNameOf(spec *ohmv1.JobSpec) JobName {
	return JobName{spec.GetNamespace(), spec.GetName()}
}

// Slot is the place of a task in its job. It is comparable.
type Slot struct {
	Namespace, Job, Group string
	Index                 int
	Version               int64
}

// SlotOf turns the stored form into the comparable one.
func SlotOf(s *ohmv1.Slot) Slot {
	return Slot{s.GetNamespace(), s.GetJob(), s.GetGroup(), int(s.GetIndex()), s.GetVersion()}
}

// Proto is the stored form.
func (s Slot) Proto() *ohmv1.Slot {
	return &ohmv1.Slot{Namespace: s.Namespace, Job: s.Job, Group: s.Group, Index: int32(s.Index), Version: s.Version}
}

// JobName names the job that the slot belongs to.
func (s Slot) JobName() JobName { return JobName{s.Namespace, s.Job} }

// Task is job/group/index, as people see a task within its namespace.
func (s Slot) Task() string { return fmt.Sprintf("%s/%s/%d", s.Job, s.Group, s.Index) }

func (s Slot) String() string {
	return fmt.Sprintf("%s/%s/%s/%d@%d", s.Namespace, s.Job, s.Group, s.Index, s.Version)
}

// Compare orders slots by job, version, group and index.
func (s Slot) Compare(o Slot) int { return s.compare(&o) }

func (s *Slot) compare(o *Slot) int {
	if c := strings.Compare(s.Job, o.Job); c != 0 {
		if n := strings.Compare(s.Namespace, o.Namespace); n != 0 {
			return n
		}
		return c
	}
	if c := strings.Compare(s.Namespace, o.Namespace); c != 0 {
		return c
	}
	return s.compareWithin(o)
}

// compareWithin orders the slots of one job.
func (s *Slot) compareWithin(o *Slot) int {
	if c := cmp.Compare(s.Version, o.Version); c != 0 {
		return c
	}
	if s.Group != o.Group {
		return strings.Compare(s.Group, o.Group)
	}
	return cmp.Compare(s.Index, o.Index)
}

// TaskID names the attempt behind a placement for ever, also when slot and attempt
// come again under a reused job name. It is safe as a file name (at most 229 bytes).
func TaskID(p *ohmv1.Placement) string {
	s := p.GetSlot()
	return strings.Join([]string{s.GetNamespace(), s.GetJob(), s.GetGroup(), fmt.Sprint(s.GetIndex()), strings.ToLower(p.GetTxn())}, ".")
}
