package cellstate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// PlanHold is the write that keeps the room of a transaction which keeps losing: on each
// of its nodes a hold, under a lease, all of them or none, so that two that starve never
// wait for each other's halves. It is judged as the claims would be: with any conflict
// there is no write. So at no time is more held than is free.
//
// The write compares and bumps the fence of each node, as a claim does; the record needs no
// compare of its own, which the store may have no room for: its key is the transaction's. The commit of the
// transaction under its id ends the hold in the same revision (MakePlan); if that never
// comes, the lease does.
func PlanHold(s *Snapshot, now time.Time, txn *Txn, l Lease) (Write, []Conflict) {
	whole := *txn
	whole.Mode, whole.Claims = Atomic, slices.Clone(txn.Claims)
	for i := range whole.Claims {
		whole.Claims[i].Victims = nil // what has to be taken from others is not held
	}
	if _, conflicts := Validate(s, &whole); len(conflicts) > 0 {
		return Write{}, conflicts
	}
	var w Write
	held := map[NodeName]*ohmv1.Hold{}
	for i := range txn.Claims {
		c := &txn.Claims[i]
		if job := (Guard{Key: JobKey(c.Slot.JobName()), Revision: c.JobRevision}); !slices.Contains(w.Guards, job) {
			w.Guards = append(w.Guards, job)
		}
		h := held[c.Node]
		if h == nil {
			fence := s.Node(c.Node).Fence
			h = &ohmv1.Hold{
				Node: string(c.Node), Txn: string(txn.ID), Scheduler: txn.Scheduler, Instance: txn.Instance,
				Precedence: int32(c.Precedence), Resources: &ohmv1.Resources{}, Time: timestamppb.New(now),
				Fence: &ohmv1.Fence{Compared: int64(fence), Records: 1}, Slot: c.Slot.Proto(),
			}
			held[c.Node] = h
			w.Fences = append(w.Fences, FenceBump{Node: c.Node, Compared: fence})
			w.Records = append(w.Records, Record{Key: HoldKey(c.Node, txn.ID), Value: h, Read: ReadGuarded, Lease: l})
		}
		addToHold(h, c)
	}
	return w, nil
}

// Held is how many claims an atomic transaction may have for which room is held; 0: any
// number. It is less than Claims by one for each node: the commit also removes the hold there.
func (l Limits) Held() int {
	if l.Claims == 0 {
		return 0
	}
	return max(1, l.Claims-l.Nodes)
}

// addToHold holds the room of one more claim. Of claims of different precedence the hold has
// the lowest: it keeps off nobody whom one of them would not.
func addToHold(h *ohmv1.Hold, c *Claim) {
	r := h.GetResources()
	r.CpuMilli += c.Resources.GetCpuMilli()
	r.MemoryBytes += c.Resources.GetMemoryBytes()
	r.DiskBytes += c.Resources.GetDiskBytes()
	h.Precedence = min(h.Precedence, int32(c.Precedence))
	for _, g := range c.GPUs {
		at := slices.IndexFunc(h.Gpus, func(o *ohmv1.DeviceShare) bool { return o.GetId() == g.GetId() })
		if at < 0 {
			h.Gpus = append(h.Gpus, &ohmv1.DeviceShare{Id: g.GetId(), Milli: g.GetMilli()})
		} else {
			h.Gpus[at].Milli += g.GetMilli()
		}
	}
	h.Ports = append(h.Ports, c.Ports...)
}

// endHold adds to the write of a transaction's claims the end of its hold on a node. It
// compares nothing: nobody else ever writes this key, and if the lease has ended the hold
// before, the fence tells whether somebody took the room.
func endHold(w *Write, n *Node, id TxnID) {
	key := HoldKey(n.Name, id)
	held := slices.ContainsFunc(n.Holds, func(h *Hold) bool { return h.GetTxn() == string(id) })
	if held && !slices.ContainsFunc(w.Records, func(r Record) bool { return r.Key == key }) {
		w.Records = append(w.Records, Record{Key: key, Read: ReadGuarded})
	}
}

// held are the holds that keep the claim off, the oldest first: not its own, not those
// below it, and none that ends with a claim accepted before.
func (r *room) held(txn *Txn, c *Claim) []*Hold {
	var held []*Hold
	for _, h := range r.node.Holds {
		ends := slices.ContainsFunc(r.claims, func(o claimed) bool { return string(o.txn.ID) == h.GetTxn() })
		if h.GetTxn() != string(txn.ID) && c.Precedence <= int(h.GetPrecedence()) && !ends {
			held = append(held, h)
		}
	}
	slices.SortStableFunc(held, func(a, b *Hold) int { return cmp.Compare(a.Revision, b.Revision) })
	return held
}

// besideHolds judges a claim that fits beside the placements. The winner is the first
// hold, newer than the loser's snapshot, with which it no longer fits.
func (r *room) besideHolds(txn *Txn, c *Claim, last *eviction) *Conflict {
	held := r.held(txn, c)
	if held == nil {
		return nil
	}
	before, with := charge(r.with(r.placements(r.after))), charge(r.with(r.placements(last), claimed{txn, c}))
	var winner *Hold
	for _, h := range held {
		before.addHold(h)
		with.addHold(h)
		if winner == nil && shortage(r.node, before, with, c) != nil {
			winner = h
		}
	}
	if winner == nil {
		return nil
	}
	short := shortage(r.node, before, with, c)
	short.Reason = ReasonHold
	if winner.Revision > txn.Snapshot {
		short.Winner = winner.placement()
	}
	return short
}

// placement is the hold as the winner of a conflict.
func (h *Hold) placement() *Placement {
	return NewPlacement(SlotOf(h.GetSlot()), &ohmv1.Placement{
		Slot: h.GetSlot(), Node: h.GetNode(), Resources: h.GetResources(), Gpus: h.GetGpus(), Ports: h.GetPorts(), Precedence: h.GetPrecedence(),
		Scheduler: h.GetScheduler(), Instance: h.GetInstance(), Txn: h.GetTxn(),
	}, h.Revision)
}

// WithinHolds is the view on which the owner of holds decides where their transactions'
// claims go: on the nodes that they hold just the room that is held is free. It is for a
// decision only; the store's next changes belong to s.
func (s *Snapshot) WithinHolds(txns ...*Txn) (*Snapshot, error) {
	var changes []Change
	for _, txn := range txns {
		for _, c := range txn.Claims {
			key := HoldKey(c.Node, txn.ID)
			n := s.Node(c.Node)
			if n == nil || slices.ContainsFunc(changes, func(c Change) bool { return c.Key == key }) {
				continue
			}
			for _, h := range n.Holds {
				if h.GetTxn() == string(txn.ID) {
					changes = append(changes, Change{Key: key, Value: n.complement(h), Revision: h.Revision})
				}
			}
		}
	}
	view, _, err := s.Apply(Batch{Revision: s.revision, Changes: changes})
	return view, err
}

// complement is, in the place of a hold, one against everybody of what is free beside it.
// Free ports are not among that: the owner chooses those that it holds, as it did before,
// or others, at its own risk.
func (n *Node) complement(own *Hold) *ohmv1.Hold {
	taken := charge(n.Placements())
	for _, h := range n.Holds {
		if h == own || h.GetPrecedence() >= own.GetPrecedence() { // the others keep the owner off anyway
			taken.addHold(h)
		}
	}
	have := n.Facts.GetCapacity()
	rest := &ohmv1.Hold{Node: own.GetNode(), Txn: own.GetTxn(), Precedence: math.MaxInt32, Resources: &ohmv1.Resources{
		CpuMilli:    max(0, have.GetCpuMilli()-taken.CPUMilli),
		MemoryBytes: max(0, have.GetMemoryBytes()-taken.MemoryBytes),
		DiskBytes:   max(0, have.GetDiskBytes()-taken.DiskBytes),
	}}
	for _, d := range n.Facts.GetGpus() {
		if free := 1000 - taken.GPUs[d.GetId()]; free > 0 {
			rest.Gpus = append(rest.Gpus, &ohmv1.DeviceShare{Id: d.GetId(), Milli: free})
		}
	}
	return rest
}
