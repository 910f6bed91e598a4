package placetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
)

// TB is what the checks need of a test, a property's included.
type TB interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// Propose calls the policy, checks what must hold of any proposal, and prints it.
func Propose(t TB, policy schedulers.Scheduler, in schedulers.Input) string {
	t.Helper()
	p, err := policy.Schedule(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	Check(t, in, p)
	return Print(p)
}

// Check asserts what must hold of any proposal: every need is claimed or explained and
// none twice, no node in flight is claimed, what is claimed fits the snapshot together,
// an atomic transaction keeps the store's limits, and an explanation's counts add up to the
// number of nodes. With nodes in flight a need may be left out.
func Check(t TB, in schedulers.Input, p schedulers.Proposal) {
	t.Helper()
	open := map[cellstate.Slot]int{}
	jobs := map[cellstate.JobName]*cellstate.Job{}
	for _, w := range in.Work {
		jobs[w.Job.Name] = w.Job
		for _, n := range w.Needs {
			open[n.Slot] = n.Attempt
		}
	}
	// One after the other, as the commit would judge them: a snapshot with the first
	// ones in place for the second.
	s := in.Snapshot
	for i, txn := range p.Txns {
		judged := *txn
		judged.ID, judged.Snapshot = cellstate.TxnID(fmt.Sprint(i)), s.Revision()
		judged.Scheduler = jobs[txn.Claims[0].Slot.JobName()].Record.GetSpec().GetScheduler()
		if _, conflicts := cellstate.Validate(s, &judged); len(conflicts) > 0 {
			t.Errorf("transaction %d does not fit: %+v", i, conflicts)
		}
		on := map[cellstate.NodeName]bool{}
		for _, c := range txn.Claims {
			on[c.Node] = true
			if attempt, ok := open[c.Slot]; !ok || attempt != c.Attempt {
				t.Errorf("%s (attempt %d) is claimed and was not asked for", c.Slot, c.Attempt)
			}
			if in.InFlight[c.Node] {
				t.Errorf("%s is claimed on %s, which is in flight", c.Slot, c.Node)
			}
			delete(open, c.Slot)
		}
		if l := in.Limits; txn.Mode == cellstate.Atomic && (l.Claims > 0 && len(txn.Claims) > l.Claims || l.Nodes > 0 && len(on) > l.Nodes) {
			t.Errorf("transaction %d has %d claims on %d nodes, beyond %+v", i, len(txn.Claims), len(on), l)
		}
		s = Commit(t, s, &judged)
	}
	nodes := in.Snapshot.NodeCount()
	for _, u := range p.Unplaced {
		sum := 0
		for _, r := range u.Reasons {
			sum += int(r.GetNodes())
		}
		if sum != nodes || u.Nodes != nodes {
			t.Errorf("%s/%s: the reasons add up to %d of %d nodes, in a cell of %d", u.Job, u.Group, sum, u.Nodes, nodes)
		}
		for _, slot := range u.Slots {
			if _, ok := open[slot]; !ok {
				t.Errorf("%s is explained and was claimed or not asked for", slot)
			}
			delete(open, slot)
		}
	}
	if len(open) > 0 && len(in.InFlight) == 0 {
		t.Errorf("neither claimed nor explained: %v", open)
	}
}

// Commit is the snapshot with the transaction's claims in place.
func Commit(t TB, s *cellstate.Snapshot, txn *cellstate.Txn) *cellstate.Snapshot {
	t.Helper()
	var changes []cellstate.Change
	for _, c := range txn.Claims {
		changes = append(changes, cellstate.Change{Key: c.Slot.PlacementKey(), Value: &ohmv1.Placement{
			Slot: c.Slot.Proto(), Attempt: int32(c.Attempt), Node: string(c.Node), Resources: c.Resources, Gpus: c.GPUs,
			Precedence: int32(c.Precedence), Scheduler: txn.Scheduler, Txn: string(txn.ID), Mode: txn.Mode, Ports: c.Ports, Victims: c.Victims,
		}})
		for _, v := range c.Victims {
			slot := cellstate.SlotOf(v.GetSlot())
			victim := proto.CloneOf(s.Job(slot.JobName()).Task(slot).Placement.Record())
			victim.EvictedBy = string(txn.ID)
			put := cellstate.Change{Key: slot.PlacementKey(), Value: victim}
			if !slices.ContainsFunc(changes, func(o cellstate.Change) bool { return o.Key == put.Key }) {
				changes = append(changes, put)
			}
		}
	}
	return Apply(t, s, changes...)
}

// Apply is the snapshot after changes, all at the next revision.
func Apply(t TB, s *cellstate.Snapshot, changes ...cellstate.Change) *cellstate.Snapshot {
	t.Helper()
	at := s.Revision() + 1
	for i := range changes {
		changes[i].Revision = at
	}
	next, _, err := s.Apply(cellstate.Batch{Revision: at, Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// Print writes a proposal down, a line for each claim and each reason.
func Print(p schedulers.Proposal) string {
	var b strings.Builder
	for _, txn := range p.Txns {
		mode := "incremental"
		if txn.Mode == cellstate.Atomic {
			mode = "atomic"
		}
		fmt.Fprintln(&b, mode)
		for _, c := range txn.Claims {
			fmt.Fprintf(&b, "  %s %s", c.Slot.Task(), c.Node)
			for _, g := range c.GPUs {
				fmt.Fprintf(&b, " gpu %s:%d", g.GetId(), g.GetMilli())
			}
			for _, p := range c.Ports {
				fmt.Fprintf(&b, " port %d", p.GetNumber())
			}
			for _, v := range c.Victims {
				fmt.Fprintf(&b, " evicts %s", cellstate.SlotOf(v.GetSlot()).Task())
			}
			fmt.Fprintln(&b)
		}
	}
	for _, u := range p.Unplaced {
		fmt.Fprintf(&b, "unplaced %s/%s", u.Job.Name, u.Group)
		for _, s := range u.Slots {
			fmt.Fprintf(&b, " %d", s.Index)
		}
		fmt.Fprintf(&b, " of %d nodes\n", u.Nodes)
		for _, r := range u.Reasons {
			fmt.Fprintf(&b, "  %d %s %s: %s\n", r.GetNodes(), r.GetReason(), cmp.Or(r.GetDimension(), "-"), r.GetDetail())
		}
		if u.NoVictims != "" {
			fmt.Fprintf(&b, "  nothing gives way: %s\n", u.NoVictims)
		}
	}
	return b.String()
}
