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
	return planHolds(s, now, txn, newValidator(s, len(txn.Claims)), l)
}

// planHolds plans the holds of claims of one job, that a validator judges.
func planHolds(s *Snapshot, now time.Time, txn *Txn, valid *validator, l Lease) (Write, []Conflict) {
	whole := *txn
	whole.Mode, whole.Claims = Atomic, slices.Clone(txn.Claims)
	for i := range whole.Claims {
		whole.Claims[i].Victims = nil      // what has to be taken from others is not held
		whole.Claims[i].Ends = time.Time{} // a hold passes in no other's room
	}
	for i := range whole.Claims {
		if whole.Claims[i].Slot.JobName() != whole.Claims[0].Slot.JobName() { // a hold names whom it is for, and his precedence
			return Write{}, []Conflict{{Claim: i, Reason: ReasonMalformed, Dimension: "job", Revision: s.Revision()}}
		}
	}
	valid.holds = true
	for _, r := range valid.nodes {
		r.holds = true
	}
	if _, conflicts := valid.judge(&whole, nil); len(conflicts) > 0 {
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

// endHolds adds to the write of a transaction's claims the end of their holds on a node. It
// compares nothing: nobody else ever writes these keys, and if the lease has ended a hold
// before, the fence tells whether somebody took the room.
func endHolds(w *Write, n *Node, txn *Txn, c *Claim) {
	for _, h := range n.Holds {
		key := HoldKey(n.Name, TxnID(h.GetTxn()))
		if h.keptFor(txn, c) && !slices.ContainsFunc(w.Records, func(r Record) bool { return r.Key == key }) {
			w.Records = append(w.Records, Record{Key: key, Read: ReadGuarded})
		}
	}
}

// held are the holds that keep the claim off, the oldest first: not its own, not those
// below it, none that ends with a claim accepted before (a hold that is planned ends none), and no reservation before whose
// start it is over.
func (r *room) held(txn *Txn, c *Claim) []*Hold {
	var held []*Hold
	for _, h := range r.node.Holds {
		ends := !r.holds && slices.ContainsFunc(r.claims, func(o claimed) bool { return h.keptFor(o.txn, o.claim) })
		if !ends && h.Binds(string(txn.ID), c.Slot.JobName(), c.Precedence, c.Ends) {
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
	kept := r.node.Kept()
	var winner *Hold
	var short *Conflict
	for _, h := range held {
		if h.GetReserves() && len(c.Victims) > 0 { // what is taken there is its owner's to take
			winner, short = h, &Conflict{Reason: ReasonHold, Dimension: "evictions"}
			break
		}
		i := slices.IndexFunc(kept, func(k Kept) bool { return k.Hold == h })
		before.addKept(&kept[i])
		with.addKept(&kept[i])
		if winner == nil && shortage(r.node, before, with, c) != nil {
			winner = h
		}
	}
	if winner == nil {
		return nil
	}
	if short == nil {
		short = shortage(r.node, before, with, c)
	}
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
	for _, k := range n.Kept() {
		if k.Hold == own || k.Hold.GetPrecedence() >= own.GetPrecedence() { // the others keep the owner off anyway
			taken.addKept(&k)
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
