package keeper_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// Field case 21: the agent of the node on which a task evicts others is killed before those have
// gone. The task is placed on another node within 30 s, where others give way, or where there has
// come to be room; nothing of its victims on the silent node is lost earlier than of any other
// task there. With whenSilent never it has to wait.
func TestCase21TheNodeOfAnEvictionGoesSilent(t *testing.T) {
	for _, c := range []struct {
		name string
		then string
		room bool // comes to be free on the other node
		soon bool
	}{
		{"another eviction", "replace", false, true},
		{"room elsewhere", "keep", true, true},
		{"never replaced", "never", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cell := schedtest.New(t)
				start := cell.Snapshot()
				keep(t, cell.Store)
				time.Sleep(time.Minute) // the leader's grace is over
				cell.Run("batch", "a", batch.New(), func(c *schedulers.Config) { c.Evictions.MinRun = -1 })
				cell.Up(celltest.Node{Name: "a", CPU: 4000}, celltest.Node{Name: "b", CPU: 4000})
				cell.Submit(celltest.Job{Name: "low", CPU: 4000, Count: 2})
				s := cell.Until("low is placed", placed("low", 2))
				for _, row := range s.Job(celltest.Name("low")).Tasks {
					cell.Status(row.Slot, task.Running)
				}
				high := cell.Submit(celltest.Job{Name: "high", CPU: 4000, Precedence: celltest.Production})
				cell.Mark(high, func(j *ohmv1.Job) { j.Spec.WhenSilent = &ohmv1.WhenSilent{Then: c.then} })
				first := cell.Until("high has its place", placed("high", 1)).Job(high).Tasks[0].Placement
				node := cellstate.NodeName(first.GetNode())
				if c.room {
					for _, row := range cell.Snapshot().Job(celltest.Name("low")).Tasks {
						if row.Placement.GetNode() != first.GetNode() {
							cell.Release(row.Slot, task.Succeeded)
						}
					}
				}
				cell.Put(cellstate.Record{Key: cellstate.AliveKey(node), Read: cell.Snapshot().Node(node).AliveRevision})
				gone := time.Now()
				time.Sleep(30 * time.Second)
				s = cell.Snapshot()
				now := s.Job(high).Tasks[0].Placement
				if moved := now != nil && now.GetNode() != first.GetNode(); moved != c.soon {
					t.Fatalf("after %v it is placed %v; moved %v, want %v", time.Since(gone), now.GetNode(), moved, c.soon)
				}
				if n := s.Node(node).Count(); n != 1 && c.soon || n != 2 && !c.soon {
					t.Errorf("%d tasks stand on the silent node", n)
				}
				if c.soon && (now.GetAttempt() != 2 || len(now.GetVictims()) == 0 != c.room) {
					t.Errorf("attempt %d with victims %v", now.GetAttempt(), now.GetVictims())
				}
				time.Sleep(15 * time.Second)
				if victims := cell.Snapshot().Node(node).Count(); victims != 0 {
					t.Errorf("%d tasks stand on the lost node", victims)
				}
				schedtest.Audited(t, cell.Store, start)
			})
		})
	}
}
