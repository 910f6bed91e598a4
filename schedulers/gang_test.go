package schedulers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// role is a group of a gang, each task of one core.
func role(name string, count, least int32) *ohmv1.Group {
	return &ohmv1.Group{Name: name, Count: count, Min: proto.Int32(least), Resources: &ohmv1.Resources{CpuMilli: 1000}}
}

// Field case 27: two gangs of ten, one task to a node, on ten nodes, submitted at once to two
// schedulers: always ten of one and none of the other.
func TestCase27TwoGangsAtOnce(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T, cell *schedtest.Cell) {
			for i := range 10 {
				cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 1000})
			}
			cell.Run("ml", "i", ml.New())
			cell.Run("other", "i", ml.New())
			cell.Submit(celltest.Job{Name: "a", Kind: "ml", Gang: true, Count: 10, CPU: 1000})
			cell.Submit(celltest.Job{Name: "b", Kind: "ml", Scheduler: "other", Gang: true, Count: 10, CPU: 1000})
			s := cell.Until("one is whole and the other waits", func(s *cellstate.Snapshot) bool {
				a, b := schedtest.Placed(s, "a"), schedtest.Placed(s, "b")
				return a+b == 10 && (schedtest.Word(s, "a") != nil || schedtest.Word(s, "b") != nil)
			})
			if a, b := schedtest.Placed(s, "a"), schedtest.Placed(s, "b"); a != 0 && b != 0 {
				t.Errorf("%d of a and %d of b are placed", a, b)
			}
			schedtest.Audited(t, cell.Store, nil)
		})
	}
}

// Field case 29: a gang of four on four nodes loses a member with a drained node; a newer task
// wants the room when the node comes back, and by its age comes before. The gang is whole again first.
func TestCase29BrokenGangComesFirst(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		for i := range 4 {
			cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 1000})
		}
		cell.Run("ml", "i", ml.New())
		gang := cell.Submit(celltest.Job{Name: "gang", Kind: "ml", Gang: true, Count: 4, CPU: 1000})
		s := cell.Until("the gang runs", placed("gang", 4))
		lost := s.Job(gang).Tasks[0].Placement
		cell.Intent(&ohmv1.Intent{Node: lost.GetNode(), Ineligible: true})
		filler := cell.Submit(celltest.Job{Name: "filler", Kind: "ml", Gang: true, CPU: 1000})
		cell.Mark(filler, func(j *ohmv1.Job) { j.SubmitTime = timestamppb.New(time.Now().Add(-time.Hour)) }) // however long it waits
		cell.Until("the filler waits", waits("filler"))
		cell.End(lost.Slot, task.Drained)
		s = cell.Until("the broken gang waits", waits("gang"))
		if got := schedtest.Word(s, "gang").GetMessage(); !strings.Contains(got, "the gang is broken: 3 of its 4 tasks are there, and it needs 1 more") {
			t.Errorf("it says %q", got)
		}
		cell.Intent(&ohmv1.Intent{Node: lost.GetNode()})
		s = cell.Until("the gang is whole", placed("gang", 4))
		if n := schedtest.Placed(s, "filler"); n != 0 {
			t.Errorf("%d of the filler are placed", n)
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}

// Field case 31: three jobs of a head and four workers on eight slots: always one whole job
// at a time, and all of them one after the other.
func TestCase31WholeJobsOnly(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		for i := range 2 {
			cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 4000})
		}
		cell.Run("ml", "i", ml.New())
		names := []string{"a", "b", "c"}
		for _, name := range names {
			cell.Submit(celltest.Job{Name: name, Kind: "ml", Gang: true, Groups: []*ohmv1.Group{role("head", 1, 1), role("worker", 4, 4)}})
		}
		for range names {
			var runs string
			s := cell.Until("one is whole, and what is left has been tried", func(s *cellstate.Snapshot) bool {
				n, settled := 0, true
				for _, name := range names {
					if schedtest.Placed(s, name) > 0 {
						n, runs = n+1, name
					} else {
						settled = settled && schedtest.Word(s, name) != nil
					}
				}
				return n == 1 && settled
			})
			if n := schedtest.Placed(s, runs); n != 5 {
				t.Fatalf("%d of %s are placed", n, runs)
			}
			for _, row := range s.Job(celltest.Name(runs)).Tasks {
				cell.End(row.Slot, task.Exited)
			}
			names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == runs })
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}

// Field case 34: two of four at least, three slots free, ten seconds of patience: three policies,
// three outcomes.
func TestCase34OnTimeout(t *testing.T) {
	for policy, want := range map[string]int{"wait": 0, "fail": 0, "startWithMin": 3} {
		t.Run(policy, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n", CPU: 3000})
				cell.Run("ml", "i", ml.New())
				gang := cell.Submit(celltest.Job{Name: "gang", Kind: "ml", Gang: true, Min: 2, Count: 4, CPU: 1000, OnTimeout: policy, Timeout: 10 * time.Second})
				cell.Until("it waits for all", waits("gang"))
				pass(9 * time.Second)
				if n := schedtest.Placed(cell.Snapshot(), "gang"); n != 0 {
					t.Errorf("%d are placed before the time", n)
				}
				pass(time.Minute)
				s := cell.Snapshot()
				if n := schedtest.Placed(s, "gang"); n != want {
					t.Errorf("%d are placed, want %d", n, want)
				}
				done := ""
				if d := reconcile.Job(s, s.Job(gang), time.Now()).Done; d != nil {
					done = d.GetState()
				}
				if wants := map[string]string{"fail": reconcile.Failed}[policy]; done != wants {
					t.Errorf("it is %q, want %q", done, wants)
				}
				// One more slot: who waits has all, and who started grows.
				cell.Up(celltest.Node{Name: "more", CPU: 1000})
				if policy != "fail" {
					cell.Until("all are placed", placed("gang", 4))
				}
				schedtest.Audited(t, cell.Store, nil)
			})
		})
	}
}

// pass lets time of a bubble pass.
func pass(d time.Duration) { <-time.After(d) }

// Field case 35: of twelve roles in one gang one is impossible: none starts, and the reason
// names the role.
func TestCase35ImpossibleRole(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		for i := range 4 {
			cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 4000})
		}
		cell.Run("ml", "i", ml.New())
		var groups []*ohmv1.Group
		for i := range 12 {
			groups = append(groups, role(fmt.Sprintf("r%d", i), 1, 1))
		}
		groups[7].Resources = &ohmv1.Resources{CpuMilli: 5000}
		cell.Submit(celltest.Job{Name: "gang", Kind: "ml", Gang: true, Groups: groups})
		s := cell.Until("it waits", waits("gang"))
		word := schedtest.Word(s, "gang")
		if schedtest.Placed(s, "gang") != 0 || len(word.GetGroups()) != 12 {
			t.Fatalf("%d are placed; it says %v", schedtest.Placed(s, "gang"), word)
		}
		for _, g := range word.GetGroups() {
			text := fmt.Sprint(g.GetReasons())
			if g.GetGroup() == "r7" && !strings.Contains(text, "cpu") || g.GetGroup() != "r7" && !strings.Contains(text, "waits for r7") {
				t.Errorf("group %s: %s", g.GetGroup(), text)
			}
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}

// An elastic gang grows as room comes, one task at a time; not into the room for which another
// gang waits.
func TestGangGrowsLast(t *testing.T) {
	for _, weights := range []bool{false, true} {
		t.Run(fmt.Sprintf("weights %v", weights), func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) { growsLast(t, cell, weights) })
		})
	}
}

func growsLast(t *testing.T, cell *schedtest.Cell, weights bool) {
	if weights {
		cell.Weigh("default", 1)
	}
	cell.Up(celltest.Node{Name: "n0", CPU: 2000})
	cell.Run("ml", "i", ml.New())
	cell.Run("batch", "i", batch.New())
	cell.Submit(celltest.Job{Name: "elastic", Kind: "ml", Gang: true, Min: 2, Count: 5, CPU: 1000})
	cell.Until("it starts with two", placed("elastic", 2))
	cell.Submit(celltest.Job{Name: "whole", Kind: "ml", Gang: true, Count: 2, CPU: 1000})
	cell.Until("another gang waits", waits("whole"))
	cell.Up(celltest.Node{Name: "n1", CPU: 1000})
	pass(5 * time.Second)
	if n := schedtest.Placed(cell.Snapshot(), "elastic"); n != 2 {
		t.Errorf("it grew to %d though a gang waits for the room", n)
	}
	cell.Up(celltest.Node{Name: "n2", CPU: 2000})
	cell.Until("the other starts, and the first grows by one", func(s *cellstate.Snapshot) bool {
		return schedtest.Placed(s, "whole") == 2 && schedtest.Placed(s, "elastic") == 3
	})
	schedtest.Audited(t, cell.Store, nil)
}
