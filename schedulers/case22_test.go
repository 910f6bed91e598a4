package schedulers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// hasty lets a Runner evict what has only just been placed.
func hasty(c *schedulers.Config) { c.Evictions.MinRun = -1 }

// Field case 22: every dimension takes part in eviction, over two schedulers; and what
// has been evicted waits and comes back by itself.
func TestCase22EveryDimensionGivesWay(t *testing.T) {
	http := []*ohmv1.Port{{Name: "http", Number: 80}}
	dynamic := []*ohmv1.Port{{Name: "http"}}
	for name, full := range map[string]celltest.Job{
		"cpu":          {CPU: 4000},
		"memory":       {Memory: 1 << 30},
		"disk":         {Disk: 1 << 30},
		"gpus":         {GPUs: 2},
		"shares":       {GPUs: 1, Share: 600, Count: 2},
		"port":         {Ports: http},
		"dynamic port": {Ports: dynamic, Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n1", CPU: 4000, Memory: 1 << 30, Disk: 1 << 30, GPUs: 2, Model: "T4", Ports: [2]int32{20000, 20001}})
				cell.Run("batch", "a", batch.New(), hasty)
				cell.Run("service", "a", service.New(), hasty)
				low, high := full, full
				low.Name, low.Kind, low.Precedence = "low", "batch", celltest.BatchLevel
				high.Name, high.Kind, high.Precedence, high.Count = "high", "service", celltest.Production, 1
				count := max(1, low.Count)
				cell.Submit(low)
				cell.Until("the low job fills the node", placed("low", count))
				for i := range count {
					cell.Status(slotOf("low", i), task.Running)
				}
				cell.Submit(high)
				s := cell.Until("the high job is placed", placed("high", 1))
				victims := evicted(s, "n1")
				if len(victims) != 1 {
					t.Fatalf("victims: %v; want one", victims)
				}
				cell.End(victims[0], task.Preempted)
				cell.Until("the victim waits", func(s *cellstate.Snapshot) bool {
					return schedtest.Placed(s, "low") == count-1 && schedtest.Word(s, "low") != nil
				})
				cell.Mark(celltest.Name("high"), func(j *ohmv1.Job) { j.Stopped = true })
				cell.Release(slotOf("high", 0), task.Stopped)
				cell.Until("the victim is back", placed("low", count))
			})
		})
	}
}

// evicted are the slots on a node of which somebody awaits the end.
func evicted(s *cellstate.Snapshot, node cellstate.NodeName) (slots []cellstate.Slot) {
	for _, p := range s.Node(node).Placements() {
		if p.GetEvictedBy() != "" {
			slots = append(slots, p.Slot)
		}
	}
	return slots
}

// A task takes the place of the fewest and least important others, and of no more than it
// needs; two tasks of one job share what one victim gives.
func TestVictimsAreFewAndUnimportant(t *testing.T) {
	for _, c := range []struct {
		name string
		low  []celltest.Job
		high celltest.Job
		want []string
	}{
		{"the least important", []celltest.Job{{Name: "a", CPU: 2000, Precedence: 50}, {Name: "b", CPU: 2000, Precedence: 10}}, celltest.Job{CPU: 1000}, []string{"b/main/0"}},
		{"the fewest", []celltest.Job{{Name: "a", CPU: 500, Count: 4}, {Name: "b", CPU: 2000}}, celltest.Job{CPU: 2000}, []string{"b/main/0"}},
		{"one for two", []celltest.Job{{Name: "a", CPU: 2000}, {Name: "b", CPU: 2000, Precedence: 50}}, celltest.Job{CPU: 1000, Count: 2}, []string{"a/main/0"}},
		{"nobody where there is room", []celltest.Job{{Name: "a", CPU: 3000}}, celltest.Job{CPU: 1000}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n1", CPU: 4000})
				cell.Run("batch", "a", batch.New(), hasty)
				for _, j := range c.low {
					cell.Submit(j)
					cell.Until(j.Name+" is placed", placed(j.Name, max(1, j.Count)))
				}
				c.high.Name, c.high.Precedence = "high", celltest.BatchLevel
				cell.Submit(c.high)
				s := cell.Until("the high job is placed", placed("high", max(1, c.high.Count)))
				var got []string
				for _, slot := range evicted(s, "n1") {
					got = append(got, slot.Task())
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("victims %v; want %v", got, c.want)
				}
			})
		})
	}
}

// Who has not run for long, was evicted often, or stands on equal footing is left alone, and so
// is everybody once this instance has evicted as many in a minute as it may; the job that
// waits is told. Five minutes pass in the bubble.
func TestVictimsAreSpared(t *testing.T) {
	for _, c := range []struct {
		name       string
		precedence int
		limits     schedulers.EvictionLimits
		why        string
		after      time.Duration // that it has its way after all; 0: never
		once       bool          // the low job never starts again
	}{
		{"equal footing", celltest.Free, schedulers.EvictionLimits{MinRun: -1}, "", 0, false},
		{"young", celltest.BatchLevel, schedulers.EvictionLimits{MinRun: 30 * time.Second}, "those have not run for 30s", time.Minute, false},
		{"once only", celltest.BatchLevel, schedulers.EvictionLimits{MinRun: -1}, "that may give way none of the 1 nodes looked at would do", 0, true},
		{"never", celltest.BatchLevel, schedulers.EvictionLimits{PerMinute: -1}, "", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n1", CPU: 4000})
				cell.Run("batch", "a", batch.New(), func(config *schedulers.Config) { config.Evictions = c.limits })
				cell.Submit(celltest.Job{Name: "low", CPU: 4000})
				cell.Until("the low job is placed", placed("low", 1))
				cell.Mark(celltest.Name("low"), func(j *ohmv1.Job) { j.Spec.StartOnce = c.once })
				cell.Submit(celltest.Job{Name: "high", CPU: 4000, Precedence: c.precedence})
				s := cell.Until("the high job waits", waits("high"))
				if got := schedtest.Word(s, "high").GetGroups()[0].GetNoVictims(); (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
					t.Errorf("no victims because %q; want %q", got, c.why)
				}
				if c.after == 0 {
					time.Sleep(5 * time.Minute)
					if s := cell.Snapshot(); schedtest.Placed(s, "high") > 0 || len(evicted(s, "n1")) > 0 {
						t.Error("it was placed at somebody's cost")
					}
					return
				}
				cell.Within(c.after, "the high job is placed", placed("high", 1))
			})
		})
	}
}

func slotOf(job string, index int) cellstate.Slot {
	return cellstate.Slot{Namespace: "default", Job: job, Group: "main", Index: index, Version: 1}
}
