package cellstate

import (
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Placement is a row: a live placement and the revision of its record. A cell has hundreds
// of thousands, in every process, so a row holds only what is its own; the rest of the record
// it shares with its neighbours of the same transaction, whose records differ in nothing else.
// Record is the whole message.
type Placement struct {
	Slot     Slot
	Revision Revision

	node     *placedOn
	shared   *ohmv1.Placement // the record without the fields below; all of it if whole
	job      Revision         // job_revision
	compared Revision         // fence.compared
	records  int32            // fence.records
	attempt  int32
	rank     int32
	whole    bool
}

// placedOn names the node of placements.
type placedOn struct {
	name NodeName
	at   atomic.Int32 // where the node's row was seen last; a hint
}

// NewPlacement is the row of a record, which must not be written to any more.
func NewPlacement(slot Slot, record *ohmv1.Placement, at Revision) *Placement {
	p := &Placement{Slot: slot, Revision: at}
	p.keep(record)
	return p
}

// keep makes the row one that has the message itself.
func (p *Placement) keep(record *ohmv1.Placement) {
	p.shared, p.whole = record, true
	p.node, p.attempt, p.job = &placedOn{name: NodeName(record.GetNode())}, record.GetAttempt(), Revision(record.GetJobRevision())
	p.compared, p.records = Revision(record.GetFence().GetCompared()), record.GetFence().GetRecords()
	p.rank = record.GetRank()
}

// Record is the message as it is stored, with all that this release does not know of it. It
// may be made for each call, and shares what it points to: read only.
func (p *Placement) Record() *ohmv1.Placement {
	if p == nil {
		return nil
	}
	if p.whole {
		return p.shared
	}
	m := &ohmv1.Placement{}
	from, to := p.shared.ProtoReflect(), m.ProtoReflect()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	to.SetUnknown(from.GetUnknown())
	m.Slot, m.Attempt, m.Node, m.JobRevision, m.Rank = p.Slot.Proto(), p.attempt, p.GetNode(), int64(p.job), p.rank
	m.Fence = &ohmv1.Fence{Compared: int64(p.compared), Records: p.records}
	return m
}

// message is the part of the record in which what is not a field of the row is found.
func (p *Placement) message() *ohmv1.Placement {
	if p == nil {
		return nil
	}
	return p.shared
}

// TaskID is TaskID of the record.
func (p *Placement) TaskID() string {
	return strings.Join([]string{p.Slot.Namespace, p.Slot.Job, p.Slot.Group, strconv.Itoa(p.Slot.Index), strings.ToLower(p.GetTxn())}, ".")
}

// TxnID names the transaction that committed the placement.
func (p *Placement) TxnID() TxnID { return TxnID(p.GetTxn()) }

// The fields of the record, as the message has them; of a nil placement they are empty.

func (p *Placement) GetSlot() *ohmv1.Slot {
	if p == nil || p.whole {
		return p.message().GetSlot()
	}
	return p.Slot.Proto()
}

func (p *Placement) GetNode() string {
	if p == nil || p.node == nil {
		return ""
	}
	return string(p.node.name)
}

func (p *Placement) GetAttempt() int32 {
	if p == nil {
		return 0
	}
	return p.attempt
}

func (p *Placement) GetJobRevision() int64 {
	if p == nil {
		return 0
	}
	return int64(p.job)
}

func (p *Placement) GetResources() *ohmv1.Resources { return p.message().GetResources() }
func (p *Placement) GetGpus() []*ohmv1.DeviceShare  { return p.message().GetGpus() }
func (p *Placement) GetPorts() []*ohmv1.Port        { return p.message().GetPorts() }
func (p *Placement) GetPrecedence() int32           { return p.message().GetPrecedence() }
func (p *Placement) GetScheduler() string           { return p.message().GetScheduler() }
func (p *Placement) GetInstance() string            { return p.message().GetInstance() }
func (p *Placement) GetTxn() string                 { return p.message().GetTxn() }
func (p *Placement) GetMode() Mode                  { return p.message().GetMode() }
func (p *Placement) GetTxnClaims() int32            { return p.message().GetTxnClaims() }
func (p *Placement) GetSnapshotRevision() int64     { return p.message().GetSnapshotRevision() }
func (p *Placement) GetVictims() []*ohmv1.Victim    { return p.message().GetVictims() }
func (p *Placement) GetDrained() bool               { return p.message().GetDrained() }
func (p *Placement) GetReleased() bool              { return p.message().GetReleased() }
func (p *Placement) GetEvictedBy() string           { return p.message().GetEvictedBy() }
func (p *Placement) GetLatestEnd() *timestamppb.Timestamp {
	return p.message().GetLatestEnd()
}
func (p *Placement) GetScopes() []*ohmv1.ScopeFence  { return p.message().GetScopes() }
func (p *Placement) GetWorld() string                { return p.message().GetWorld() }
func (p *Placement) GetTime() *timestamppb.Timestamp { return p.message().GetTime() }
