package schedulers_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// blinded lets a policy see what another one did only later: it makes races.
type blinded struct {
	policy schedulers.Scheduler
	before func() // called with the decision made and not yet committed
}

func (b blinded) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	out, err := b.policy.Schedule(ctx, in)
	if len(out.Txns) > 0 {
		b.before()
	}
	return out, err
}

// Field case 12: of two schedulers that want the same room on one snapshot exactly one
// gets it. The loser waits, has used no attempt, knows whom it lost to, and runs as soon as
// there is room.
func TestCase12LostRaceStaysPending(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000})
		meet := make(chan struct{})
		var met atomic.Int32
		together := func() { // both have decided before one commits
			switch met.Add(1) {
			case 1:
				<-meet
			case 2:
				close(meet)
			}
		}
		cell.Run("s1", "a", blinded{schedtest.FirstFit{}, together})
		cell.Run("s2", "a", blinded{schedtest.FirstFit{}, together})
		cell.Until("both are there", func(s *cellstate.Snapshot) bool {
			return s.Scheduler("s1") != nil && s.Scheduler("s2") != nil && len(s.Scheduler("s1").Instances)+len(s.Scheduler("s2").Instances) == 2
		})
		synctest.Wait()
		cell.Submit(celltest.Job{Name: "j1", Scheduler: "s1", CPU: 3000})
		cell.Submit(celltest.Job{Name: "j2", Scheduler: "s2", CPU: 3000})
		s := cell.Until("one is placed, the other waits", func(s *cellstate.Snapshot) bool {
			return schedtest.Placed(s, "j1")+schedtest.Placed(s, "j2") == 1 && (schedtest.Word(s, "j1") != nil || schedtest.Word(s, "j2") != nil)
		})
		winner, loser := "1", "2"
		if schedtest.Placed(s, "j2") == 1 {
			winner, loser = "2", "1"
		}
		row := s.Job(celltest.Name("j" + loser))
		status := reconcile.Status(s, row, time.Now())
		if status.GetState() != reconcile.Pending || status.GetGroups()[0].GetFailed() != 0 {
			t.Errorf("the loser's status: %v", status)
		}
		if views := reconcile.Tasks(s, row, time.Now(), true); len(views) != 1 || views[0].GetState() != reconcile.Pending || views[0].GetAttempt() != 0 {
			t.Errorf("the loser's tasks: %v", views)
		}
		all := conflicts(s, "s"+loser)
		if len(all) != 1 || len(conflicts(s, "")) != 1 {
			t.Fatalf("conflicts %v", conflicts(s, ""))
		}
		won := s.Job(celltest.Name("j" + winner)).Tasks[0].Placement
		c := all[0]
		if c.GetReason() != "Resources" || c.GetDimension() != "cpu" || c.GetWanted() != "3" || c.GetFree() != "1" || c.GetNode() != "n1" ||
			c.GetSlot().GetJob() != "j"+loser || c.GetSnapshotRevision() >= int64(won.Revision) || c.GetStoreRevision() < int64(won.Revision) {
			t.Errorf("conflict %v", c)
		}
		if w := c.GetWinner(); w.GetScheduler() != "s"+winner || w.GetTxn() != won.GetTxn() || w.GetSlot().GetJob() != "j"+winner || w.GetRevision() != int64(won.Revision) {
			t.Errorf("winner %v, want %v", w, won)
		}
		if !strings.Contains(status.GetMessage(), "lost node n1 to j"+winner+"/main/0") {
			t.Errorf("the loser is told %q", status.GetMessage())
		}
		cell.Up(celltest.Node{Name: "n2", CPU: 4000})
		s = cell.Until("the loser runs on the new node", placed("j"+loser, 1))
		if p := s.Job(celltest.Name("j" + loser)).Tasks[0].Placement; p.GetAttempt() != 1 || p.GetNode() != "n2" {
			t.Errorf("placement %v", p)
		}
	})
}

// Field case 15: two that both still fit both commit, and nothing is a conflict.
func TestCase15BothFitBothCommit(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 64_000})
		meet := make(chan struct{})
		var met atomic.Int32
		together := func() {
			switch met.Add(1) {
			case 1:
				<-meet
			case 2:
				close(meet)
			}
		}
		runs := []*schedtest.Scheduler{
			cell.Run("s1", "a", blinded{schedtest.FirstFit{}, together}),
			cell.Run("s2", "a", blinded{schedtest.FirstFit{}, together}),
		}
		cell.Submit(celltest.Job{Name: "j1", Scheduler: "s1", CPU: 1000})
		cell.Submit(celltest.Job{Name: "j2", Scheduler: "s2", CPU: 1000})
		s := cell.Until("both are placed", func(s *cellstate.Snapshot) bool {
			return schedtest.Placed(s, "j1") == 1 && schedtest.Placed(s, "j2") == 1
		})
		if c := conflicts(s, ""); len(c) != 0 {
			t.Errorf("conflicts %v", c)
		}
		for _, r := range runs {
			if n := r.Stats().Decisions; n != 1 {
				t.Errorf("%d decisions for one task", n)
			}
		}
	})
}

// Field case 19: room that comes free exactly while a slot is being parked is not missed.
func TestCase19ParkedSlotsWakeUp(t *testing.T) {
	t.Run("room comes free while the policy refuses", func(t *testing.T) {
		bubble(t, func(t *testing.T, cell *schedtest.Cell) {
			cell.Up(celltest.Node{Name: "n1", CPU: 1000})
			cell.Job(celltest.Job{Name: "old", Scheduler: "nobody", CPU: 1000})
			old := cell.Place("old", 0, "n1")
			var once atomic.Bool
			cell.Run("batch", "a", hooked{schedtest.FirstFit{}, func(out schedulers.Proposal) {
				if len(out.Unplaced) > 0 && once.CompareAndSwap(false, true) {
					cell.Release(old.Slot, task.Succeeded)
				}
			}})
			cell.Submit(celltest.Job{Name: "j", CPU: 1000})
			cell.Within(time.Second, "it runs, without the sweep", placed("j", 1))
		})
	})
	t.Run("the sweep finds what no event tells", func(t *testing.T) {
		bubble(t, func(t *testing.T, cell *schedtest.Cell) {
			cell.Up(celltest.Node{Name: "n1", CPU: 1000})
			var asked atomic.Int32
			cell.Run("batch", "a", moody{&asked})
			cell.Submit(celltest.Job{Name: "j", CPU: 1000})
			cell.Until("it waits", waits("j"))
			begin := time.Now()
			cell.Within(11*time.Second, "it runs after a sweep", placed("j", 1))
			if waited := time.Since(begin); waited < 9*time.Second || asked.Load() != 2 {
				t.Errorf("asked %d times in %v, want twice, 10 s apart", asked.Load(), waited)
			}
		})
	})
}

// hooked calls after with each proposal, before the Runner sees it.
type hooked struct {
	policy schedulers.Scheduler
	after  func(schedulers.Proposal)
}

func (h hooked) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	out, err := h.policy.Schedule(ctx, in)
	h.after(out)
	return out, err
}

// moody says nothing at all when it is asked for the first time.
type moody struct{ asked *atomic.Int32 }

func (m moody) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	if m.asked.Add(1) == 1 {
		return schedulers.Proposal{}, nil
	}
	return schedtest.FirstFit{}.Schedule(ctx, in)
}

// Field case 13: an agent refuses everything for five minutes. A task comes back to it less
// and less often, and leaves few records behind; then it runs.
func TestCase13RefusedForMinutes(t *testing.T) {
	for _, kind := range []string{"service", "batch"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n1"})
				cell.Run(kind, "a", schedtest.FirstFit{})
				name := cell.Submit(celltest.Job{Name: "j", Kind: kind, CPU: 100}) // without a retry to spend
				slot := celltest.Slot(cell.Snapshot(), name, "main", 0)
				refuse := func() {
					now := time.Now()
					row := cell.Snapshot().Job(name).Task(slot)
					last := celltest.StatusOf(row.Placement, task.Failed)
					last.Cause, last.Ended = task.Refused, timestamppb.New(now)
					cell.Put(cellstate.ReleaseRecords(row, last)...)
				}
				for begin := time.Now(); time.Since(begin) < 5*time.Minute; {
					cell.Within(2*time.Minute, "it is tried again", placed("j", 1))
					if time.Since(begin) < 5*time.Minute {
						refuse()
					}
				}
				ended := cell.Snapshot().Job(name).Task(slot).Ended
				if len(ended) < 5 || len(ended) > 10 {
					t.Errorf("%d attempts in five minutes", len(ended))
				}
				if n := schedtest.Placed(cell.Snapshot(), "j"); n != 1 {
					t.Errorf("%d placed in the end", n)
				}
			})
		})
	}
}
