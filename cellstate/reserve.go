package cellstate

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A reservation is a hold of room that is not all free yet: what comes free there is kept for
// a job that never fits at one moment, until all of it has. It states when that will be, by
// the latest ends of the placements that are in its way; what is over by then passes in the
// meantime (backfill; Lifka 1995, "The ANL/IBM SP scheduling system"). All of that is a
// comparison of times which stand in the records: no judgement needs a clock.
//
// It is for whatever claim of its job, and ends with the first one that commits on the node.

// Binds says whether the hold keeps off what has a transaction, a job, a precedence and a
// latest end (zero: nobody knows it).
func (h *Hold) Binds(txn string, job JobName, precedence int, ends time.Time) bool {
	own := h.GetTxn() == txn || h.GetReserves() && SlotOf(h.GetSlot()).JobName() == job
	return !own && precedence <= int(h.GetPrecedence()) && !h.passes(ends)
}

// keptFor says whether the hold is the claim's own.
func (h *Hold) keptFor(txn *Txn, c *Claim) bool {
	return h.GetTxn() == string(txn.ID) || h.GetReserves() && SlotOf(h.GetSlot()).JobName() == c.Slot.JobName()
}

// passes says whether what is over at the latest at a time does not delay a reservation.
func (h *Hold) passes(ends time.Time) bool {
	return h.GetReserves() && h.GetStarts() != nil && !ends.IsZero() && !ends.After(h.GetStarts().AsTime())
}

// Kept is what a hold keeps from others of the room that is free now.
type Kept struct {
	Hold      *Hold
	Resources *ohmv1.Resources
	GPUs      []*ohmv1.DeviceShare
	Ports     []*ohmv1.Port
}

// Kept lists what the node's holds keep. A reservation keeps less than it is for by what will
// be over when it starts: that comes free in time, unless it is evicted, which makes its
// room somebody else's. What one reservation counts on the next cannot.
func (n *Node) Kept() []Kept {
	all := make([]Kept, 0, len(n.Holds))
	for _, h := range n.Holds {
		all = append(all, Kept{h, h.GetResources(), h.GetGpus(), h.GetPorts()})
	}
	slices.SortStableFunc(all, func(a, b Kept) int { // those that start at an unknown time last
		x, y := a.Hold.GetStarts(), b.Hold.GetStarts()
		if x == nil || y == nil {
			return cmp.Compare(b.Hold.GetStarts().GetSeconds(), a.Hold.GetStarts().GetSeconds())
		}
		return x.AsTime().Compare(y.AsTime())
	})
	var counted Usage
	for i := range all {
		if k := &all[i]; k.Hold.GetReserves() && k.Hold.GetStarts() != nil {
			k.count(n, &counted)
		}
	}
	return all
}

// count takes off what is kept what will be over in time, less what is counted on already.
func (k *Kept) count(n *Node, counted *Usage) {
	var over Usage
	for _, p := range n.Unsorted() {
		if end := p.GetLatestEnd(); end != nil && p.GetEvictedBy() == "" && len(p.GetVictims()) == 0 && k.Hold.passes(end.AsTime()) {
			over.add(p.GetResources(), p.GetGpus())
		}
	}
	want, left := k.Resources, &ohmv1.Resources{}
	less := func(want, over int64, counted *int64) int64 {
		there := min(want, max(0, over-*counted))
		*counted += there
		return want - there
	}
	left.CpuMilli = less(want.GetCpuMilli(), over.CPUMilli, &counted.CPUMilli)
	left.MemoryBytes = less(want.GetMemoryBytes(), over.MemoryBytes, &counted.MemoryBytes)
	left.DiskBytes = less(want.GetDiskBytes(), over.DiskBytes, &counted.DiskBytes)
	k.Resources = left
	var gpus []*ohmv1.DeviceShare
	for _, g := range k.GPUs {
		there := min(g.GetMilli(), max(0, over.GPUs[g.GetId()]-counted.GPUs[g.GetId()]))
		counted.add(nil, []*ohmv1.DeviceShare{{Id: g.GetId(), Milli: there}})
		if there < g.GetMilli() {
			gpus = append(gpus, &ohmv1.DeviceShare{Id: g.GetId(), Milli: g.GetMilli() - there})
		}
	}
	k.GPUs = gpus
}

// Without is the row as it would be without some of its placements and holds: for a
// decision only.
func (n *Node) Without(gone func(*Placement) bool, over func(*Hold) bool) *Node {
	left := *n
	records := *n.NodeRecords
	records.Holds = slices.DeleteFunc(slices.Clone(n.Holds), over)
	kept := slices.DeleteFunc(slices.Clone(n.Unsorted()), gone)
	left.NodeRecords, left.placed = &records, placed{log: &placedLog{base: kept}}
	left.count, left.evictions, left.used = int32(len(kept)), 0, *charge(kept)
	for _, p := range kept {
		if p.evicts() {
			left.evictions++
		}
	}
	return &left
}

func (p *Placement) evicts() bool { return p.GetEvictedBy() != "" || len(p.GetVictims()) > 0 }

// Reservation is what PlanReservation writes down beside the claims.
type Reservation struct {
	Starts time.Time // zero: nobody knows
	Awaits map[NodeName]Awaited
	Lease  Lease
}

// Awaited are the placements on a node that are in a reservation's way.
type Awaited struct {
	Last *Placement // that ends; nil: none is
	Ends int
}

// PlanReservation is the write that reserves the room of a transaction's claims, on all of
// its nodes or, with any conflict, on none. They are judged as if nothing stood there: beside
// the other holds of their precedence and above alone. So no more than the node is ever kept,
// whatever becomes free there.
func PlanReservation(s *Snapshot, now time.Time, txn *Txn, r Reservation) (Write, []Conflict) {
	valid := newValidator(s, len(txn.Claims))
	for i := range txn.Claims {
		if n := s.Node(txn.Claims[i].Node); n != nil && n.Facts != nil && valid.nodes[n.Name] == nil {
			valid.nodes[n.Name] = newRoom(n.Without(func(*Placement) bool { return true }, func(*Hold) bool { return false }))
		}
	}
	w, conflicts := planHolds(s, now, txn, valid, r.Lease)
	for i := range w.Records {
		h := w.Records[i].Value.(*ohmv1.Hold)
		h.Reserves = true
		if !r.Starts.IsZero() {
			h.Starts = timestamppb.New(r.Starts)
		}
		a := r.Awaits[NodeName(h.GetNode())]
		h.Ends = int32(a.Ends)
		if a.Last != nil {
			h.Awaits = a.Last.Slot.Proto()
		}
	}
	return w, conflicts
}
