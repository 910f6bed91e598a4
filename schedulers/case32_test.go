package schedulers_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// Field case 32: a scheduler is killed between two steps of a gang: room is held for all of it,
// and nothing is claimed yet. Each hold says whose it is and since when; all are gone within the
// lease, nothing of the gang was ever there, and another's job has the room.
func TestCase32AGangsHoldsEndWithItsScheduler(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		robbery(cell)
		dead, goOn := make(chan struct{}), make(chan struct{})
		die := sync.OnceFunc(func() { close(dead) })
		policy := &robbed{cell: cell, times: schedulers.DefaultHoldAfter, within: func(schedulers.Input, *schedulers.Proposal) {
			die()
			<-goOn
		}}
		cell.Run("ml", "a", policy, func(c *schedulers.Config) { c.Store = killed{c.Store, dead} })
		t.Cleanup(func() { close(goOn) }) // before the Runner is waited for
		cell.Run("service", "a", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "gang", Kind: "ml", Gang: true, Count: 2, CPU: 3000})
		<-dead
		died := time.Now()
		synctest.Wait()
		s := cell.Snapshot()
		for _, name := range []cellstate.NodeName{"n1", "n2"} {
			held := s.Node(name).Holds
			if len(held) != 1 {
				t.Fatalf("node %s: holds %v", name, held)
			}
			if h := held[0]; h.GetScheduler() != "ml" || h.GetInstance() != "a" || h.GetSlot().GetJob() != "gang" || time.Since(h.GetTime().AsTime()) > time.Second {
				t.Errorf("the hold on node %s is %v", name, h)
			}
		}
		cell.Submit(celltest.Job{Name: "web", Kind: "service", Count: 2, CPU: 3000})
		s = cell.Within(schedulers.DefaultTimes().Hold, "another's job has the room", placed("web", 2))
		if after := time.Since(died); after > 15*time.Second {
			t.Errorf("the holds ended after %v", after)
		}
		if left := holds(s); len(left) > 0 || len(s.Job(celltest.Name("gang")).Tasks) > 0 {
			t.Errorf("left are the holds %v and tasks %v", left, s.Job(celltest.Name("gang")).Tasks)
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}
