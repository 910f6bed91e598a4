package keeper

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// brokenGang is a gang of 40 that has lost one member on n1, since n1's room was taken by another.
func (h *house) brokenGang(broken *ohmv1.WhenBroken) cellstate.JobName {
	for _, n := range []string{"n1", "n2"} {
		h.Node(celltest.Node{Name: n, CPU: 100_000})
		h.alive(n)
	}
	const members = 40 // more than one write releases
	name := h.Job(celltest.Job{Name: "gang", Kind: "ml", Gang: true, Count: members, CPU: 1000, Retries: 0})
	h.Mark(name, func(j *ohmv1.Job) { j.Spec.Gang.WhenBroken = broken })
	s := h.Snapshot()
	var claims []cellstate.Claim
	for i := range members {
		claims = append(claims, celltest.Claim(s, celltest.Slot(s, name, "main", i), "n2"))
	}
	h.Commit(s, celltest.Txn(s, cellstate.Atomic, claims...))
	h.End(celltest.Slot(s, name, "main", 7), task.NodeLost)
	return name
}

// released counts the members that are to end, and those that live.
func (h *house) released(name cellstate.JobName) (released, live int) {
	s := h.Snapshot()
	for _, t := range s.Job(name).Tasks {
		if t.Placement == nil {
			continue
		}
		live++
		if t.Placement.GetReleased() {
			released++
			if got := reconcile.StopCause(s.Job(name), t.Placement, s.Node("n2")); got != task.GangBroken {
				h.t.Errorf("%s ends as %q", t.Slot, got)
			}
		}
	}
	return released, live
}

// Field case 29: what is left of a broken gang is released as a whole when its time has passed,
// holds nothing afterwards, and all members are wanted again with no retry spent.
func TestCase29ReleasesABrokenGang(t *testing.T) {
	inHouse(t, func(h *house) {
		name := h.brokenGang(&ohmv1.WhenBroken{Then: "release", After: durationpb.New(5 * time.Minute)})
		h.run(h.keeper("s1", Limits{}))
		h.pass(5*time.Minute - time.Second)
		if n, _ := h.released(name); n != 0 {
			t.Fatalf("%d are released too early", n)
		}
		h.pass(2 * time.Second)
		if n, live := h.released(name); n != 39 || live != 39 {
			t.Fatalf("%d of %d are released, want all 39", n, live)
		}
		s := h.Snapshot()
		if d := reconcile.Job(s, s.Job(name), time.Now()); len(d.Needs) != 0 {
			t.Errorf("%d are wanted while others end", len(d.Needs))
		}
		for _, row := range s.Job(name).Tasks {
			if row.Placement != nil {
				h.End(row.Slot, task.GangBroken)
			}
		}
		s = h.Snapshot()
		d := reconcile.Job(s, s.Job(name), time.Now())
		if len(d.Needs) != 40 || d.Needs[0].Gang.Least != 40 || d.Done != nil {
			t.Errorf("then %d are wanted, at least %+v; done %v", len(d.Needs), d.Needs[0].Gang, d.Done)
		}
		if used := s.Node("n2").Count(); used != 0 {
			t.Errorf("n2 still has %d", used)
		}
	})
}

// One that is to be kept is, and one that is repaired in time, too.
func TestKeepsAGang(t *testing.T) {
	for what, broken := range map[string]*ohmv1.WhenBroken{"keep": {Then: "keep"}, "repaired": {Then: "release", After: durationpb.New(5 * time.Minute)}} {
		inHouse(t, func(h *house) {
			name := h.brokenGang(broken)
			h.run(h.keeper("s1", Limits{}))
			h.pass(time.Minute)
			if what == "repaired" {
				s := h.Snapshot()
				h.Commit(s, celltest.Txn(s, cellstate.Atomic, celltest.Claim(s, celltest.Slot(s, name, "main", 7), "n1")))
			}
			h.pass(time.Hour)
			if n, live := h.released(name); n != 0 || live < 39 {
				t.Errorf("%s: %d of %d are released", what, n, live)
			}
		})
	}
}

// A repair that commits while the keeper finds that its time has passed stands: the release, which
// did not see it, does not apply.
func TestReleaseComparesTheTasks(t *testing.T) {
	inHouse(t, func(h *house) {
		name := h.brokenGang(&ohmv1.WhenBroken{Then: "release", After: durationpb.New(time.Minute)})
		h.pass(time.Hour)
		stale := h.Snapshot()
		h.Commit(stale, celltest.Txn(stale, cellstate.Atomic, celltest.Claim(stale, celltest.Slot(stale, name, "main", 7), "n1")))
		writes, _ := newMarker().plan(stale, time.Now())
		if len(writes) != 1 || len(writes[0].Records) != mostReleased {
			t.Fatalf("%d writes, want one of %d records", len(writes), mostReleased)
		}
		out, err := h.store.Commit(h.ctx, writes...)
		if err != nil || out.Applied[0] != 0 {
			t.Fatalf("released over a repair that the decision did not see: %v, %v", out, err)
		}
		if n, live := h.released(name); n != 0 || live != 40 {
			t.Errorf("%d of %d are released", n, live)
		}
	})
}
