package keeper

import (
	"math"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
)

// What a namespace holds is remembered, and half of it forgotten after each half-life, also by
// another leader; without weights it is of no interest to anybody. In a bubble.
func TestAveragesAreKept(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1", CPU: 4000})
		h.alive("n1")
		h.Weigh("b", 1)
		h.Job(celltest.Job{Name: "j", CPU: 2000})
		slot := h.Place("j", 0, "n1").Slot
		average := func(want float64, when string) {
			t.Helper()
			if got := h.Snapshot().Fair().Queue(slot.Namespace).Average; math.Abs(got-want) > 0.01 {
				t.Errorf("%s the average is %v, want %v", when, got, want)
			}
		}
		limits := Limits{HalfLife: 10 * time.Minute}
		stop := h.run(h.keeper("s1", limits))
		h.pass(10*time.Minute + time.Second)
		average(0.25, "after a half-life with half the cell")
		h.End(slot, task.Exited)
		h.pass(10 * time.Minute)
		average(0.125, "after one more with nothing")
		stop()
		h.pass(time.Hour)
		average(0.125, "while nobody looks")
		h.run(h.keeper("s2", limits))
		h.pass(10*time.Minute + time.Second)
		average(0.0625, "after a half-life under another leader")
		h.pass(2 * time.Hour)
		average(0, "in the end")
		at := h.Snapshot().Revision()
		h.pass(time.Minute)
		if h.Snapshot().Revision() != at {
			t.Error("a cell at rest is written to")
		}
		h.Write(cellstate.QuotaRemoval(h.Snapshot().Quota(celltest.Namespace("b"))))
		h.pass(time.Second)
		if m, _ := h.Snapshot().Meta(cellstate.AveragesMeta); m != nil {
			t.Errorf("averages are kept although nobody has a weight: %v", m)
		}
	})
}
