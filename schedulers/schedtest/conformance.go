package schedtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Conformance checks that a policy keeps what every policy owes the cell, on random
// cells and on a few plain ones. Kinds are the kinds of jobs that it is asked to place;
// without any, all four. What must hold, whatever the input:
//
//	C1  the same input gives the same proposal, whatever was asked in between
//	C2  each need is claimed once, or explained once, and nothing else is claimed; a need is
//	    neither if only nodes in flight would take it
//	C3  a need that names its node is claimed on that node
//	C4  all claims of a proposal fit together: cellstate.Validate accepts them; and they go
//	    to nodes that may take the group (reconcile.Eligible)
//	C5  the reasons of an explanation add up to the number of nodes
//	C6  the needs of an ml job are claimed in one atomic transaction, all of them, or none
//	C7  nothing of the input is written to
//	C8  a task that fits is placed, also when it does not fit in the home share
//	C9  nothing is claimed on a node in flight
//	C10 no more is evicted than the input allows, and nothing that it protects
func Conformance(t *testing.T, policy schedulers.Scheduler, kinds ...string) {
	if len(kinds) == 0 {
		kinds = []string{"batch", "service", "ml", "system"}
	}
	t.Run("no work", func(t *testing.T) {
		s, err := cellstate.NewSnapshot(1, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := policy.Schedule(t.Context(), schedulers.Input{Snapshot: s})
		if err != nil || len(out.Txns)+len(out.Unplaced) > 0 {
			t.Errorf("without work it proposes %v, error %v", out, err)
		}
	})
	for _, kind := range kinds {
		t.Run("room for "+kind, func(t *testing.T) { roomFor(t, policy, kind) })
	}
	t.Run("random cells", func(t *testing.T) {
		var last *schedulers.Input
		rapid.Check(t, func(rt *rapid.T) {
			in := randomInput(rt, kinds)
			if err := Check(t, policy, in, last); err != nil {
				rt.Fatalf("%v", err)
			}
			last = &in
		})
	})
}

// roomFor checks C8: on a cell with plenty of room every need is claimed, whatever the
// home share is.
func roomFor(t *testing.T, policy schedulers.Scheduler, kind string) {
	cell := New(t)
	cell.Up(celltest.Node{Name: "n1", CPU: 1000}, celltest.Node{Name: "n2", CPU: 8000}, celltest.Node{Name: "n3", CPU: 1000})
	j := celltest.Job{Name: "j", Kind: kind, Scheduler: theScheduler, Gang: kind == "ml", Count: 3, CPU: 2000}
	if kind == "system" {
		j.CPU = 1000
	}
	name := cell.Job(j)
	s := cell.Snapshot()
	needs := reconcile.Job(s, s.Job(name), submitted).Needs
	for i := range 3 {
		in := schedulers.Input{Snapshot: s, Home: schedulers.Home{Index: i, Of: 3}, Work: []schedulers.Work{{Job: s.Job(name), Needs: needs}}, Limits: cell.Store.Limits()}
		if err := Check(t, policy, in, nil); err != nil {
			t.Error(err)
		}
		out, err := policy.Schedule(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(claims(out)); got != 3 {
			t.Errorf("with home share %d of 3 it claims %d of 3 needs that fit: %v", i, got, out.Unplaced)
		}
	}
}

// Check checks C1 to C7, C9 and C10 on one input. With between, the policy is asked about that in
// between. It is exported for those who have recorded an input that went wrong.
func Check(t *testing.T, policy schedulers.Scheduler, in schedulers.Input, between *schedulers.Input) error {
	before := rowsOf(in.Snapshot)
	out, err := policy.Schedule(t.Context(), in)
	if err != nil {
		return fmt.Errorf("the policy failed: %w", err)
	}
	if between != nil {
		if _, err := policy.Schedule(t.Context(), *between); err != nil {
			return fmt.Errorf("the policy failed: %w", err)
		}
	}
	again, err := policy.Schedule(t.Context(), in)
	if err != nil {
		return fmt.Errorf("the policy failed when it was asked again: %w", err)
	}
	if diff := cmp.Diff(out, again, protocmp.Transform()); diff != "" {
		return fmt.Errorf("C1: the same input gives another proposal:\n%s", diff)
	}
	if diff := cmp.Diff(before, rowsOf(in.Snapshot), protocmp.Transform()); diff != "" {
		return fmt.Errorf("C7: the policy has written to its input:\n%s", diff)
	}
	for _, check := range []func(schedulers.Input, schedulers.Proposal) error{checkNeeds, checkFit, checkReasons, checkGangs, checkVictims} {
		if err := check(in, out); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf copies what a policy might be tempted to write to.
func rowsOf(s *cellstate.Snapshot) (rows []proto.Message) {
	for n := range s.Nodes() {
		if n.Facts != nil {
			rows = append(rows, proto.CloneOf(n.Facts))
		}
		for _, p := range n.Placements() {
			rows = append(rows, proto.CloneOf(p.Record()))
		}
	}
	for j := range s.Jobs() {
		rows = append(rows, proto.CloneOf(j.Record))
	}
	return rows
}

func claims(out schedulers.Proposal) (all []cellstate.Claim) {
	for _, t := range out.Txns {
		all = append(all, t.Claims...)
	}
	return all
}

// checkNeeds checks C2 and C3.
func checkNeeds(in schedulers.Input, out schedulers.Proposal) error {
	open := map[cellstate.Slot]reconcile.Need{}
	for _, w := range in.Work {
		for _, n := range w.Needs {
			open[n.Slot] = n
		}
	}
	for _, c := range claims(out) {
		n, ok := open[c.Slot]
		switch {
		case !ok:
			return fmt.Errorf("C2: %v is claimed, but not needed or claimed twice", c.Slot)
		case c.Attempt != n.Attempt:
			return fmt.Errorf("C2: %v is claimed for attempt %d, needed is %d", c.Slot, c.Attempt, n.Attempt)
		case in.InFlight[c.Node]:
			return fmt.Errorf("C9: %v is claimed on %s, with a request under way", c.Slot, c.Node)
		case n.Node != "" && n.Node != c.Node:
			return fmt.Errorf("C3: %v is claimed on %s, it needs %s", c.Slot, c.Node, n.Node)
		}
		delete(open, c.Slot)
	}
	for _, u := range out.Unplaced {
		if len(u.Slots) == 0 {
			return fmt.Errorf("C2: an explanation for no slot of %v/%s", u.Job, u.Group)
		}
		for _, s := range u.Slots {
			if _, ok := open[s]; !ok || s.JobName() != u.Job || s.Group != u.Group {
				return fmt.Errorf("C2: %v is explained under %v/%s, but claimed, explained before or not needed there", s, u.Job, u.Group)
			}
			delete(open, s)
		}
	}
	for s, n := range open {
		if awaits(in, n) {
			continue
		}
		return fmt.Errorf("C2: %v is neither claimed nor explained", s)
	}
	return nil
}

// awaits says whether a need may wait for the answer to what is under way: it, or for a
// gang one of its job's, may go to a node in flight.
func awaits(in schedulers.Input, n reconcile.Need) bool {
	needs := []reconcile.Need{n}
	for _, w := range in.Work {
		if w.Job.Name == n.Slot.JobName() && w.Job.Record.GetSpec().GetKind() == "ml" {
			needs = w.Needs
		}
	}
	return slices.ContainsFunc(needs, func(n reconcile.Need) bool {
		for name := range in.InFlight {
			row := in.Snapshot.Node(name)
			if row == nil || n.Node != "" && n.Node != name || !reconcile.Eligible(row, n.Group) {
				continue
			}
			alone := celltest.Txn(in.Snapshot, cellstate.Incremental, celltest.Claim(in.Snapshot, n.Slot, name))
			if _, conflicts := cellstate.Validate(in.Snapshot, alone); len(conflicts) == 0 {
				return true
			}
		}
		return false
	})
}

// checkFit checks C4, with all claims in one transaction, so that each is judged with
// those before it in place.
func checkFit(in schedulers.Input, out schedulers.Proposal) error {
	txn := &cellstate.Txn{ID: "CONFORMANCE", Scheduler: theScheduler, Mode: cellstate.Incremental, Snapshot: in.Snapshot.Revision(), Claims: claims(out)}
	if len(in.Work) > 0 {
		txn.Scheduler = in.Work[0].Job.Record.GetSpec().GetScheduler()
	}
	if _, conflicts := cellstate.Validate(in.Snapshot, txn); len(conflicts) > 0 {
		c := conflicts[0]
		return fmt.Errorf("C4: the claim of %v on %s does not fit: %s %s, wanted %s, free %s",
			txn.Claims[c.Claim].Slot, txn.Claims[c.Claim].Node, c.Reason, c.Dimension, c.Wanted, c.Free)
	}
	for _, c := range txn.Claims {
		group := in.Snapshot.Job(c.Slot.JobName()).Group(c.Slot.Group)
		if !reconcile.Eligible(in.Snapshot.Node(c.Node), group) {
			return fmt.Errorf("C4: %v is claimed on %s, which may not take it", c.Slot, c.Node)
		}
		if !proto.Equal(c.Resources, group.GetResources()) {
			return fmt.Errorf("C4: %v claims %v, its group asks for %v", c.Slot, c.Resources, group.GetResources())
		}
		if err := checkDevices(in.Snapshot.Node(c.Node), c, group.GetGpus()); err != nil {
			return err
		}
	}
	return nil
}

func checkDevices(n *cellstate.Node, c cellstate.Claim, want *ohmv1.GPURequest) error {
	if len(c.GPUs) != int(want.GetCount()) {
		return fmt.Errorf("C4: %v claims %d GPUs, its group asks for %d", c.Slot, len(c.GPUs), want.GetCount())
	}
	for _, g := range c.GPUs {
		for _, d := range n.Facts.GetGpus() {
			if d.GetId() != g.GetId() {
				continue
			}
			if milli, why := cellstate.ShareOn(d, want); why != "" || g.GetMilli() != milli {
				return fmt.Errorf("C4: %v claims %dm of a %s, its group asks for %v", c.Slot, g.GetMilli(), d.GetModel(), want)
			}
		}
	}
	return nil
}

// checkReasons checks C5.
func checkReasons(in schedulers.Input, out schedulers.Proposal) error {
	nodes := in.Snapshot.NodeCount()
	for _, u := range out.Unplaced {
		sum := 0
		for _, r := range u.Reasons {
			sum += int(r.GetNodes())
		}
		if u.Nodes != nodes || sum != nodes {
			return fmt.Errorf("C5: %v/%s: the reasons cover %d nodes, the explanation says %d, there are %d", u.Job, u.Group, sum, u.Nodes, nodes)
		}
	}
	return nil
}

// checkGangs checks C6.
func checkGangs(in schedulers.Input, out schedulers.Proposal) error {
	for _, w := range in.Work {
		if w.Job.Record.GetSpec().GetKind() != "ml" {
			continue
		}
		gang := w.Needs[0].Gang
		for _, t := range out.Txns {
			n, by := 0, map[string]int{}
			for _, c := range t.Claims {
				if c.Slot.JobName() == w.Job.Name {
					n++
					by[c.Slot.Group]++
				}
			}
			if n > 0 && (t.Mode != cellstate.Atomic || n < gang.Least) {
				return fmt.Errorf("C6: %d of the %d needs of gang %v are claimed in a transaction of mode %v, of at least %d", n, len(w.Needs), w.Job.Name, t.Mode, gang.Least)
			}
			for group, least := range gang.Groups {
				if n > 0 && by[group] < least {
					return fmt.Errorf("C6: %d needs of group %s of gang %v are claimed, of at least %d", by[group], group, w.Job.Name, least)
				}
			}
		}
	}
	return nil
}

// checkVictims checks C10; that a victim has lower precedence is the commit's rule, C4.
func checkVictims(in schedulers.Input, out schedulers.Proposal) error {
	seen := map[cellstate.Slot]bool{}
	for _, c := range claims(out) {
		for _, v := range c.Victims {
			slot := cellstate.SlotOf(v.GetSlot())
			seen[slot] = true
			if ran := in.Evictions.Now.Sub(in.Snapshot.Job(slot.JobName()).Task(slot).Placement.GetTime().AsTime()); ran < in.Evictions.MinRun {
				return fmt.Errorf("C10: %v evicts %v, which has run for %v and is left alone for %v", c.Slot, slot, ran, in.Evictions.MinRun)
			}
		}
	}
	if len(seen) > in.Evictions.Most {
		return fmt.Errorf("C10: %d tasks are evicted, and no more than %d may be", len(seen), in.Evictions.Most)
	}
	return nil
}
