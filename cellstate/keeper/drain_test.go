package keeper

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A drain's deadline goes when it has passed, and nothing else of the intent does.
func TestDrainDeadlinePasses(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(2)
		h.run(h.keeper("s1", Limits{}))
		h.pass(time.Second)
		want := &ohmv1.Intent{Node: "n0", Drain: true, DrainDeadline: timestamppb.New(time.Now().Add(time.Minute)), Labels: map[string]string{"a": "b"}}
		h.Put(cellstate.Record{Key: cellstate.IntentKey("n0"), Value: proto.CloneOf(want)})
		intent := func() *ohmv1.Intent {
			i := proto.CloneOf(h.Snapshot().Node("n0").Intent)
			i.Fence = nil
			return i
		}
		h.pass(59 * time.Second)
		if !proto.Equal(intent(), want) {
			t.Fatalf("a second before: %v", intent())
		}
		h.pass(2 * time.Second)
		want.DrainDeadline = nil
		if !proto.Equal(intent(), want) {
			t.Fatalf("a second after: %v", intent())
		}
	})
}

// A drained task makes way before its exit only where its job wants that, and not before it
// has been asked to end.
func TestDrainedTaskMakesWay(t *testing.T) {
	for _, c := range []struct {
		name, replace string
		state         task.State
		drain, made   bool
	}{
		{"asked to end", "atOnce", task.Stopping, true, true},
		{"not asked yet", "atOnce", task.Running, true, false},
		{"after its exit", "afterExit", task.Stopping, true, false},
		{"no drain", "atOnce", task.Stopping, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inHouse(t, func(h *house) {
				h.nodes(2)
				j := h.Snapshot().Job(celltest.Name("web"))
				record := proto.CloneOf(j.Record)
				record.Spec.Stop = &ohmv1.StopPolicy{Replace: c.replace}
				h.Put(cellstate.Record{Key: cellstate.JobKey(j.Name), Value: record, Read: j.Revision})
				h.run(h.keeper("s1", Limits{}))
				h.pass(time.Second)
				h.Put(cellstate.Record{Key: cellstate.IntentKey("n0"), Value: &ohmv1.Intent{Node: "n0", Drain: c.drain}})
				p := h.Snapshot().Node("n0").Placements()[0]
				h.Put(cellstate.Record{Key: p.Slot.StatusKey(), Value: celltest.StatusOf(p, c.state)})
				h.pass(time.Second)
				row := h.Snapshot().Job(celltest.Name("web")).Task(p.Slot)
				if made := row.Placement == nil; made != c.made {
					t.Fatalf("it has made way: %v", made)
				}
				if c.made {
					if end := row.Ended[0].GetStatus(); end.GetState() != task.Stopped || end.GetCause() != task.Drained {
						t.Errorf("it ended as %v", end)
					}
				}
			})
		})
	}
}

// Tasks of a job with a disruption budget are drained in turns: no more of them are down at a time
// than it allows, whoever else gives some up, and what is down by itself counts.
func TestDrainInTurns(t *testing.T) {
	inHouse(t, func(h *house) {
		for _, n := range []string{"a", "b"} {
			h.Node(celltest.Node{Name: n, CPU: 4000})
			h.alive(n)
		}
		h.Job(celltest.Job{Name: "db", Kind: "service", Count: 4, CPU: 1000, Disruption: &ohmv1.Disruption{MaxUnavailablePercent: 50}})
		var slots []cellstate.Slot
		for i := range 4 {
			p := h.Place("db", i, "a")
			slots = append(slots, p.Slot)
			h.Status(p.Slot, task.Running)
		}
		h.Release(slots[3], task.Failed)
		h.run(h.keeper("s1", Limits{}))
		h.pass(time.Second)
		drained := func() (n int) {
			for _, row := range h.Snapshot().Job(celltest.Name("db")).Tasks {
				if row.Placement.GetDrained() {
					n++
				}
			}
			return n
		}
		h.Put(cellstate.Record{Key: cellstate.IntentKey("a"), Value: &ohmv1.Intent{Node: "a", Drain: true}})
		h.pass(time.Second)
		if n := drained(); n != 1 || !h.Snapshot().Job(celltest.Name("db")).Task(slots[0]).Placement.GetDrained() {
			t.Fatalf("%d tasks are given up; want the first, since one is down already", n)
		}
		again := h.Place("db", 3, "b")
		h.pass(time.Second)
		if n := drained(); n != 1 {
			t.Fatalf("%d tasks are given up; want 1 as long as the other does not run", n)
		}
		h.Status(again.Slot, task.Running)
		h.pass(time.Second)
		if n := drained(); n != 2 {
			t.Fatalf("%d tasks are given up; want 2", n)
		}
		// The end of the drain takes nobody back who was asked to go, and nobody else.
		h.Put(cellstate.Record{Key: cellstate.IntentKey("a"), Value: &ohmv1.Intent{Node: "a"}, Read: h.Snapshot().Node("a").IntentRevision})
		for _, slot := range slots[:2] {
			h.End(slot, task.Drained)
			h.Status(h.Place("db", slot.Index, "b").Slot, task.Running)
		}
		h.pass(time.Second)
		if n := drained(); n != 0 {
			t.Fatalf("%d tasks are given up; want 0", n)
		}
	})
}
