package keeper

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

func TestLosesNodes(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(4)
		h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		h.away("n0")
		h.away("n1")
		h.pass(30 * time.Second)
		h.alive("n1") // back in time
		h.pass(9 * time.Second)
		if n := h.lost(); n != 0 {
			t.Fatalf("%d tasks lost after 39 s", n)
		}
		h.pass(2 * time.Second)
		if n := h.lost(); n != 1 {
			t.Fatalf("%d tasks lost after 41 s, want n0's", n)
		}
		s := h.Snapshot()
		if len(s.Node("n0").Placements()) != 0 || len(s.Node("n1").Placements()) != 1 {
			t.Fatal("another node's tasks were released")
		}
	})
}

// Nothing is lost for a grace time after a leader change, however long ago the nodes went.
func TestNewLeaderWaits(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(4)
		h.away("n0")
		h.pass(time.Hour) // no keeper all that time
		h.run(h.keeper("s1", Limits{Grace: time.Minute}))
		h.pass(59 * time.Second)
		if n := h.lost(); n != 0 {
			t.Fatalf("%d tasks lost within the grace time", n)
		}
		h.pass(2 * time.Second)
		if n := h.lost(); n != 1 {
			t.Fatalf("%d tasks lost after it, want 1", n)
		}
	})
}

// Field case 54: when a large part of the nodes goes at once, nothing is lost.
func TestBrake(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(10)
		k := h.keeper("s1", Limits{})
		h.run(k)
		h.pass(2 * time.Minute)
		for i := range 5 {
			h.away(fmt.Sprintf("n%d", i))
			h.pass(5 * time.Second)
		}
		h.pass(10 * time.Minute)
		if n := h.lost(); n != 0 || !k.Braking() {
			t.Fatalf("half of the nodes unseen: %d tasks lost, braking %v", n, k.Braking())
		}
		h.alive("n0")
		h.alive("n1")
		h.pass(30 * time.Second) // those that come back later than others are not punished for it
		if n := h.lost(); n != 0 {
			t.Fatalf("%d tasks lost as soon as a few nodes were back", n)
		}
		h.pass(30 * time.Second)
		if n := h.lost(); n != 3 || k.Braking() {
			t.Fatalf("3 of 10 unseen: %d tasks lost, braking %v", n, k.Braking())
		}
	})
}

// A small cell has no brake: its last node may be lost.
func TestBrakeNeedsThree(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(2)
		h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		h.away("n0")
		h.away("n1")
		h.pass(41 * time.Second)
		if n := h.lost(); n != 2 {
			t.Fatalf("%d tasks lost, want 2", n)
		}
	})
}

// Nodes that had gone long before, with nothing on them, do not hold the brake.
func TestBrakeForgetsTheLongGone(t *testing.T) {
	inHouse(t, func(h *house) {
		for i := range 6 {
			h.Node(celltest.Node{Name: fmt.Sprintf("gone%d", i)})
		}
		h.nodes(4)
		h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		h.away("n0")
		h.pass(41 * time.Second)
		if n := h.lost(); n != 1 {
			t.Fatalf("%d tasks lost, want 1", n)
		}
	})
}

// A node that is seen again when the release is committed keeps its tasks.
func TestLostWriteComparesAlive(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(1)
		h.away("n0")
		stale := h.Snapshot()
		h.alive("n0")
		out, err := h.store.Commit(h.ctx, lostWrites(stale, loss{stale.Node("n0"), stale.Node("n0").Placements()}, time.Now())...)
		if err != nil || out.Applied[0] != 0 {
			t.Fatalf("applied at %v, %v", out.Applied, err)
		}
	})
}

// silent changes a job's whenSilent.
func (h *house) silent(job, then string, after time.Duration) {
	h.t.Helper()
	j := h.Snapshot().Job(celltest.Name(job))
	record := proto.CloneOf(j.Record)
	record.Spec.WhenSilent = &ohmv1.WhenSilent{Then: then}
	if after > 0 {
		record.Spec.WhenSilent.After = durationpb.New(after)
	}
	h.Put(cellstate.Record{Key: cellstate.JobKey(j.Name), Value: record, Read: j.Revision})
}

// Each job has its own patience with a node that is silent.
func TestEachJobsPatience(t *testing.T) {
	for _, c := range []struct {
		name, then     string
		after, patient time.Duration
	}{
		{"as the cell has it", "replace", 0, 40 * time.Second},
		{"as the job has it", "replace", 5 * time.Minute, 5 * time.Minute},
		{"sooner", "replace", 10 * time.Second, 10 * time.Second},
		{"kept", "keep", 0, 24 * time.Hour},
		{"kept for a while", "keep", time.Hour, time.Hour},
		{"never replaced", "never", 0, 40 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inHouse(t, func(h *house) {
				h.nodes(2)
				h.silent("web", c.then, c.after)
				h.run(h.keeper("s1", Limits{}))
				h.pass(2 * time.Minute)
				h.away("n0")
				h.pass(c.patient - time.Second)
				if n := h.lost(); n != 0 {
					t.Fatalf("%d tasks given up a second before %v", n, c.patient)
				}
				h.pass(2 * time.Second)
				if n := h.lost(); n != 1 {
					t.Fatalf("%d tasks given up after %v", n, c.patient)
				}
			})
		})
	}
}

// Nobody waits for long for a task that its user has stopped.
func TestAStoppedJobIsNotKept(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(2)
		h.silent("web", "keep", 0)
		h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		h.away("n0")
		h.pass(10 * time.Minute)
		j := h.Snapshot().Job(celltest.Name("web"))
		record := proto.CloneOf(j.Record)
		record.Stopped = true
		h.Put(cellstate.Record{Key: cellstate.JobKey(j.Name), Value: record, Read: j.Revision})
		h.pass(time.Second)
		if n := h.lost(); n != 1 {
			t.Fatalf("%d tasks given up of a stopped job", n)
		}
	})
}

// The operator's word ends all waiting: of the job, of a new leader, of the brake.
func TestCalledLost(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(6)
		h.silent("web", "keep", 0)
		k := h.keeper("s1", Limits{})
		h.run(k)
		h.pass(time.Second)
		call := func(node string) {
			h.Put(cellstate.Record{Key: cellstate.IntentKey(cellstate.NodeName(node)), Value: &ohmv1.Intent{Node: node, Lost: true}})
			h.pass(time.Second)
		}
		call("n5") // which has a session all the same
		for i := range 4 {
			h.away(fmt.Sprintf("n%d", i))
		}
		h.pass(25 * time.Hour)
		if n := h.lost(); n != 0 || !k.Braking() {
			t.Fatalf("%d tasks given up, braking %v", n, k.Braking())
		}
		call("n0")
		if n := h.lost(); n != 1 || !k.Braking() {
			t.Fatalf("%d tasks given up of one node called lost, braking %v", n, k.Braking())
		}
		for i := 1; i < 4; i++ {
			call(fmt.Sprintf("n%d", i))
		}
		if n := h.lost(); n != 4 || k.Braking() {
			t.Fatalf("%d tasks given up of all, braking %v", n, k.Braking())
		}
	})
}

// What is kept for a day and went lately counts for the brake, and not for all of the day.
func TestBrakeForgetsTheKept(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(8)
		h.silent("web", "keep", 0)
		h.Job(celltest.Job{Name: "quick", Kind: "service", Count: 1})
		h.Place("quick", 0, "n7")
		k := h.keeper("s1", Limits{})
		h.run(k)
		h.pass(2 * time.Minute)
		for i := range 3 {
			h.away(fmt.Sprintf("n%d", i))
		}
		h.pass(11 * time.Minute)
		h.away("n7")
		h.pass(41 * time.Second)
		j := h.Snapshot().Job(celltest.Name("quick"))
		if t7 := j.Tasks[0]; t7.Placement != nil || k.Braking() || h.lost() != 0 {
			t.Fatalf("one node of five: its task still stands: %v, braking %v, %d kept ones given up", t7.Placement != nil, k.Braking(), h.lost())
		}
	})
}

// Every server can say that nothing is given up, and why, for as long as it is so.
func TestBrakeIsOnRecord(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(8)
		stop := h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		for i := range 3 {
			h.away(fmt.Sprintf("n%d", i))
		}
		on := func() string {
			m, _ := h.Snapshot().Meta(reconcile.BrakeMeta)
			return m.GetValue()
		}
		h.pass(39 * time.Second)
		if on() != "" {
			t.Fatalf("before anything is overdue: %q", on())
		}
		h.pass(2 * time.Second)
		if !strings.HasPrefix(on(), "3 of 8 nodes are silent at once") {
			t.Fatalf("the record says %q", on())
		}
		stop()
		h.run(h.keeper("s2", Limits{}))
		h.pass(30 * time.Second)
		if on() == "" {
			t.Fatal("a new leader has ended it before it could judge")
		}
		h.pass(20 * time.Second)
		if on() == "" {
			t.Fatal("a new leader does not see what the old one has seen")
		}
		h.alive("n0")
		h.pass(time.Second)
		if on() != "" {
			t.Fatalf("two of eight are silent: %q", on())
		}
	})
}
