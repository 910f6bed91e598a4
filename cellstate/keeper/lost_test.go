package keeper

import (
	"fmt"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate/celltest"
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
		out, err := h.store.Commit(h.ctx, lostWrites(stale, stale.Node("n0"), time.Now())...)
		if err != nil || out.Applied[0] != 0 {
			t.Fatalf("applied at %v, %v", out.Applied, err)
		}
	})
}
