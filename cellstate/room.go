package cellstate

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// room is what a node still has to give while a transaction is judged: its row, and
// on top of it the claims accepted so far. What it points to is replaced, never written
// to, so that a copy of the struct is a state to go back to.
type room struct {
	node      *Node
	after     *eviction // the last one accepted; nil: none
	claims    []claimed // accepted
	used      *Usage    // charge of both
	holds     bool      // are judged
	evictions bool      // among them: the charge is more than a sum
}

// claimed is an accepted claim.
type claimed struct {
	txn   *Txn
	claim *Claim
}

func newRoom(n *Node) *room {
	return &room{node: n, used: n.Used(), evictions: n.evictions > 0}
}

// placements are the node's after an eviction; nil is none. Most claims need no list.
func (r *room) placements(after *eviction) []*Placement {
	if after != nil {
		return after.placements
	}
	return r.node.Placements()
}

// with are the placements and the accepted claims, these with revision 0, and after them
// more claims.
func (r *room) with(placements []*Placement, more ...claimed) []*Placement {
	all := slices.Clone(placements)
	for _, claims := range [][]claimed{r.claims, more} {
		for _, c := range claims {
			all = append(all, NewPlacement(c.claim.Slot, c.claim.placement(c.txn), 0))
		}
	}
	return all
}

// eviction is what a claim does to the placements that give way.
type eviction struct {
	placements []*Placement // the node's, after it
	marked     []*Placement // victims as they were: to be marked with evictedBy
	released   []*Placement // heirs that had not started: given back at once
	idle       []*Placement // of marked: of a job with a budget, and not up
	relied     []*Placement // marked or released by this transaction already: still to be there at the commit
	by         TxnID
	gone       []*Placement // released by this transaction, for this claim or one before
}

// evict finds out what the claim's victims mean for the node; nil if it has none. The victim of an
// eviction keeps its record; but an heir that has not started goes at once, and its own
// victims become the claim's.
func (r *room) evict(txn *Txn, c *Claim, started func(*Placement) bool) (*eviction, *Conflict) {
	if len(c.Victims) == 0 {
		return nil, nil
	}
	e := &eviction{placements: slices.Clone(r.placements(r.after)), by: txn.ID}
	if r.after != nil && r.after.by == txn.ID {
		e.gone = slices.Clip(r.after.gone)
	}
	for _, victim := range c.Victims {
		slot := SlotOf(victim.GetSlot())
		at := slices.IndexFunc(e.placements, func(p *Placement) bool {
			return p.Slot == slot && p.GetTxn() == victim.GetTxn() && p.Revision > 0
		})
		if at < 0 {
			heir := slices.IndexFunc(e.gone, func(p *Placement) bool { return p.Slot == slot && p.GetTxn() == victim.GetTxn() })
			if heir < 0 {
				return nil, &Conflict{Reason: ReasonVictimGone, Dimension: slot.Task()}
			}
			e.relied = append(e.relied, e.gone[heir])
			continue
		}
		p := e.placements[at]
		switch {
		case int(p.GetPrecedence()) > c.Precedence:
			return nil, higher(p, c)
		case p.GetEvictedBy() == string(txn.ID):
			e.relied = append(e.relied, p)
		case p.GetEvictedBy() != "":
			return nil, &Conflict{Reason: ReasonVictimGone, Dimension: slot.Task(), Wanted: p.GetEvictedBy()}
		case len(p.GetVictims()) > 0 && !started(p):
			others := slices.ContainsFunc(e.placements, func(o *Placement) bool { return o != p && o.GetTxn() == p.GetTxn() })
			if others {
				return nil, &Conflict{Reason: ReasonVictimGone, Dimension: slot.Task()}
			}
			e.released, e.gone = append(e.released, p), append(e.gone, p)
			e.placements = slices.Delete(e.placements, at, at+1)
			for i, o := range e.placements {
				if o.GetEvictedBy() == p.GetTxn() {
					e.mark(i, txn.ID)
				}
			}
		default:
			e.mark(at, txn.ID)
		}
	}
	return e, nil
}

// higher says that a victim is too important for a claim.
func higher(p *Placement, c *Claim) *Conflict {
	return &Conflict{Reason: ReasonPrecedence, Dimension: p.Slot.Task(), Wanted: fmt.Sprint(c.Precedence), Free: fmt.Sprint(p.GetPrecedence())}
}

func (e *eviction) mark(i int, by TxnID) {
	p := e.placements[i]
	e.marked = append(e.marked, p)
	e.placements[i] = p.evictedBy(by)
}

func (p *Placement) evictedBy(by TxnID) *Placement {
	marked := proto.CloneOf(p.Record())
	marked.EvictedBy = string(by)
	return NewPlacement(p.Slot, marked, p.Revision)
}

// drained is the record of a placement that is to end for a drain. It adds to no node, so it
// comes with no node's fence.
func (p *Placement) drained(scope *ohmv1.ScopeFence) *ohmv1.Placement {
	record := proto.CloneOf(p.Record())
	record.Drained, record.Fence, record.Scopes = true, nil, []*ohmv1.ScopeFence{scope}
	return record
}

// take charges the node with the claim, if it fits: L1.
func (r *room) take(txn *Txn, c *Claim, e *eviction) *Conflict {
	this, last := claimed{txn, c}, r.after
	if e != nil {
		last = e
	}
	evictions := r.evictions || e != nil
	var after *Usage
	if evictions {
		after = charge(r.with(r.placements(last), this))
	} else {
		after = r.used.plus(c)
	}
	if short := shortage(r.node, r.used, after, c); short != nil {
		r.blame(txn, c, r.placements(last), short)
		return short
	}
	if short := r.besideHolds(txn, c, last); short != nil {
		return short
	}
	r.after, r.claims, r.used, r.evictions = last, append(r.claims, this), after, evictions
	return nil
}

// shortage compares a node's charge before and after a claim with its capacity. Only
// what grows must fit: a node that has shrunk may still give what it is not short of.
func shortage(n *Node, before, after *Usage, c *Claim) *Conflict {
	have := n.Facts.GetCapacity()
	for _, d := range []struct {
		name               string
		before, after, cap int64
		want               int64
		text               func(int64) string
	}{
		{"cpu", before.CPUMilli, after.CPUMilli, have.GetCpuMilli(), c.Resources.GetCpuMilli(), resource.FormatCPU},
		{"memory", before.MemoryBytes, after.MemoryBytes, have.GetMemoryBytes(), c.Resources.GetMemoryBytes(), resource.FormatBytes},
		{"disk", before.DiskBytes, after.DiskBytes, have.GetDiskBytes(), c.Resources.GetDiskBytes(), resource.FormatBytes},
	} {
		if d.after > d.before && d.after > d.cap {
			return &Conflict{Reason: ReasonResources, Dimension: d.name, Wanted: d.text(d.want), Free: d.text(max(0, d.cap-d.before))}
		}
	}
	for _, g := range c.GPUs {
		if d := n.device(g.GetId()); d.GetHealth() != DeviceHealthy {
			return &Conflict{Reason: ReasonDevice, Dimension: g.GetId(), Wanted: "a healthy one", Free: HealthText(d)}
		}
		if after.GPUs[g.GetId()] > 1000 {
			free := max(0, 1000-before.GPUs[g.GetId()])
			return &Conflict{Reason: ReasonDevice, Dimension: g.GetId(), Wanted: fmt.Sprintf("%dm", g.GetMilli()), Free: fmt.Sprintf("%dm", free)}
		}
	}
	victim := func(s Slot) bool {
		return slices.ContainsFunc(c.Victims, func(v *ohmv1.Victim) bool { return SlotOf(v.GetSlot()) == s })
	}
	for _, p := range c.Ports {
		if owner, taken := before.Ports[p.GetNumber()]; taken && !victim(owner) {
			return &Conflict{Reason: ReasonPort, Dimension: fmt.Sprint(p.GetNumber()), Wanted: p.GetName(), Free: ""}
		}
		if slices.Contains(n.Facts.GetReservedPorts(), p.GetNumber()) {
			return &Conflict{Reason: ReasonPort, Dimension: fmt.Sprint(p.GetNumber()), Wanted: p.GetName(), Free: "reserved"}
		}
	}
	return nil
}

// blame finds the winner: the first placement newer than the loser's snapshot with
// which the claim no longer fits. placements are the node's after the claim's evictions.
func (r *room) blame(txn *Txn, c *Claim, placements []*Placement, short *Conflict) {
	// A victim's record is rewritten when it is marked, so its revision does not say when
	// it was placed: it counts as old, unless the claim does not even fit beside the old ones.
	own := NewPlacement(c.Slot, c.placement(txn), 0)
	for _, victimsAreNew := range []bool{false, true} {
		var newer, base []*Placement
		for _, p := range r.with(placements) {
			if p.Revision > txn.Snapshot && p.GetTxn() != string(txn.ID) && (victimsAreNew || p.GetEvictedBy() == "") {
				newer = append(newer, p)
			} else {
				base = append(base, p)
			}
		}
		fits := func() bool {
			return shortage(r.node, charge(base), charge(append(slices.Clip(base), own)), c) == nil
		}
		if !fits() {
			continue // nobody won: it never fitted
		}
		slices.SortStableFunc(newer, func(a, b *Placement) int { return cmp.Compare(a.Revision, b.Revision) })
		for i, p := range newer {
			if base = append(base, p); !fits() {
				short.Winner, short.Between = p, newer[:i]
				return
			}
		}
	}
}
