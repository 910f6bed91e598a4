package schedulers_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// bubble runs a test in a synctest bubble: its time is not real, so waiting is free.
func bubble(t *testing.T, test func(t *testing.T, cell *schedtest.Cell), options ...memstore.Option) {
	synctest.Test(t, func(t *testing.T) { test(t, schedtest.New(t, options...)) })
}

func placed(job string, n int) func(*cellstate.Snapshot) bool {
	return func(s *cellstate.Snapshot) bool { return schedtest.Placed(s, job) == n }
}

func waits(job string) func(*cellstate.Snapshot) bool {
	return func(s *cellstate.Snapshot) bool { return schedtest.Word(s, job) != nil }
}

func conflicts(s *cellstate.Snapshot, scheduler string) (all []*ohmv1.Conflict) {
	for c := range s.Conflicts(scheduler) {
		all = append(all, c)
	}
	return all
}

func TestPlacesRetriesAndEnds(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000})
		cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "j", Count: 3, CPU: 1000, Retries: 1})
		s := cell.Until("three tasks are placed", placed("j", 3))
		p := s.Job(celltest.Name("j")).Tasks[0].Placement
		if p.GetScheduler() != "batch" || p.GetInstance() != "a" || len(p.GetTxn()) != 26 || p.GetSnapshotRevision() == 0 || p.GetTxnClaims() != 3 {
			t.Errorf("placement %v", p)
		}
		cell.Release(p.Slot, task.Failed) // the builder's exit code is 0, so this one has succeeded
		fail(cell, slot(s, "j", 1), task.OOMKilled)
		if schedtest.Placed(cell.Snapshot(), "j") != 1 {
			t.Fatal("the ended tasks are still placed")
		}
		before := time.Now()
		s = cell.Until("the failed task is placed again", placed("j", 2))
		if waited := time.Since(before); waited < 900*time.Millisecond || waited > 1100*time.Millisecond {
			t.Errorf("the second attempt came after %v, want 1 s", waited)
		}
		if p := s.Job(celltest.Name("j")).Task(slot(s, "j", 1)).Placement; p.GetAttempt() != 2 {
			t.Errorf("attempt %d, want 2", p.GetAttempt())
		}
	})
}

func slot(s *cellstate.Snapshot, job string, index int) cellstate.Slot {
	return celltest.Slot(s, celltest.Name(job), "main", index)
}

// fail ends a slot's live attempt now, with a cause.
func fail(cell *schedtest.Cell, slot cellstate.Slot, cause string) {
	row := cell.Snapshot().Job(slot.JobName()).Task(slot)
	last := celltest.StatusOf(row.Placement, task.Failed)
	last.Cause, last.Ended = cause, timestamppb.Now()
	cell.Put(cellstate.ReleaseRecords(row, last)...)
}

func TestRegistration(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		instances := func(n int) func(*cellstate.Snapshot) bool {
			return func(s *cellstate.Snapshot) bool {
				row := s.Scheduler("batch")
				return row != nil && row.Record != nil && len(row.Instances) == n
			}
		}
		// What a process that was killed leaves behind.
		dead, err := cell.Store.Grant(context.Background(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		cell.Put(cellstate.Record{
			Key: cellstate.InstanceKey("batch", "a"), Lease: dead,
			Value: &ohmv1.SchedulerInstance{Scheduler: "batch", Instance: "a", Version: "dead"},
		})
		a := cell.Run("batch", "a", schedtest.FirstFit{}, func(c *schedulers.Config) { c.BuiltIn, c.Policy = true, "first" })
		s := cell.Within(time.Second, "a has taken over", func(s *cellstate.Snapshot) bool {
			return instances(1)(s) && s.Scheduler("batch").Instances[0].GetVersion() == "test"
		})
		if rec := s.Scheduler("batch").Record; !rec.GetBuiltIn() || rec.GetPolicy() != "first" || rec.GetName() != "batch" {
			t.Errorf("record %v", rec)
		}
		b := cell.Run("batch", "b", schedtest.FirstFit{})
		cell.Until("b is registered, too", instances(2))
		a.Stop()
		cell.Within(time.Millisecond, "a has gone at once", instances(1))
		<-time.After(time.Minute)
		b.Stop()
		cell.Within(time.Millisecond, "b has gone, the record stays", instances(0))
		if seen := reconcile.LastSeen(cell.Snapshot(), "batch"); time.Since(seen) > time.Second {
			t.Errorf("last seen %v ago", time.Since(seen))
		}
	})
}

// A lease that was lost (a pause of the whole process, say) is replaced.
func TestRegistersAgain(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Run("batch", "a", schedtest.FirstFit{})
		registered := func(s *cellstate.Snapshot) bool {
			return s.Scheduler("batch") != nil && len(s.Scheduler("batch").Instances) == 1
		}
		s := cell.Until("registered", registered)
		was := s.Scheduler("batch").Instances[0].Revision
		cell.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", "a"), Read: was})
		s = cell.Until("registered again", registered)
		if now := s.Scheduler("batch").Instances[0].Revision; now <= was {
			t.Errorf("registered at %d, before at %d", now, was)
		}
	})
}

// Two instances share the jobs, and one takes over those of the other.
func TestInstancesShareTheJobs(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 100_000})
		a := cell.Run("batch", "a", schedtest.FirstFit{})
		b := cell.Run("batch", "b", schedtest.FirstFit{})
		cell.Until("both are there", func(s *cellstate.Snapshot) bool {
			return s.Scheduler("batch") != nil && len(s.Scheduler("batch").Instances) == 2
		})
		synctest.Wait()
		for i := range 40 {
			cell.Submit(celltest.Job{Name: fmt.Sprintf("j%d", i), CPU: 100})
		}
		all := func(n int) func(s *cellstate.Snapshot) bool {
			return func(s *cellstate.Snapshot) bool { return len(s.Node("n1").Placements()) == n }
		}
		cell.Until("all are placed", all(40))
		synctest.Wait() // until the last rounds have landed
		if x, y := a.Stats().Committed, b.Stats().Committed; x+y != 40 || x < 8 || y < 8 {
			t.Errorf("they placed %d and %d of 40", x, y)
		}
		if c := conflicts(cell.Snapshot(), "batch"); len(c) != 0 {
			t.Errorf("conflicts among instances that share: %v", c)
		}
		a.Stop()
		for i := 40; i < 50; i++ {
			cell.Submit(celltest.Job{Name: fmt.Sprintf("j%d", i), CPU: 100})
		}
		cell.Until("b places what would have been a's", all(50))
	})
}

// A task that does not fit gets a last word, is placed once there is room, and the
// word goes.
func TestWaitingWord(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 1000}, celltest.Node{Name: "n2", CPU: 2000})
		cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "j", Count: 2, CPU: 3000})
		s := cell.Until("it has a word", waits("j"))
		w := schedtest.Word(s, "j")
		if w.GetScheduler() != "batch" || w.GetInstance() != "a" || w.GetJobVersion() != 1 || w.GetSnapshotRevision() < int64(s.RoomRevision()) {
			t.Errorf("word %v at room revision %d", w, s.RoomRevision())
		}
		if g := w.GetGroups(); len(g) != 1 || g[0].GetGroup() != "main" || g[0].GetWaiting() != 2 || g[0].GetNodes() != 2 || g[0].GetReasons()[0].GetNodes() != 2 {
			t.Errorf("groups %v", g)
		}
		if want := "main: no node for 2 tasks: of 2 nodes 2 short of cpu; it can never run on the nodes of this cell: it asks for 3 of cpu; the largest node that it may run on has 2"; w.GetMessage() != want {
			t.Errorf("message %q, want %q", w.GetMessage(), want)
		}
		// Room changes that do not help: the same content, given on a newer snapshot.
		cell.Up(celltest.Node{Name: "n2", CPU: 2500})
		cell.Until("the word is as new as the last change of room", func(s *cellstate.Snapshot) bool {
			return schedtest.Word(s, "j").GetSnapshotRevision() >= int64(s.RoomRevision())
		})
		synctest.Wait()
		quiet := cell.Snapshot().Job(celltest.Name("j")).WaitingRevision
		<-time.After(10 * time.Minute)
		if now := cell.Snapshot().Job(celltest.Name("j")).WaitingRevision; now != quiet {
			t.Errorf("the word was written again in silence, at %d after %d", now, quiet)
		}
		cell.Up(celltest.Node{Name: "n3", CPU: 3000})
		cell.Until("one is placed and the other waits", func(s *cellstate.Snapshot) bool {
			return schedtest.Placed(s, "j") == 1 && len(schedtest.Word(s, "j").GetGroups()) == 1 && schedtest.Word(s, "j").GetGroups()[0].GetWaiting() == 1
		})
		cell.Up(celltest.Node{Name: "n4", CPU: 3000})
		cell.Until("both are placed and the word is gone", func(s *cellstate.Snapshot) bool {
			return schedtest.Placed(s, "j") == 2 && schedtest.Word(s, "j") == nil
		})
	})
}

// The word of a job that is stopped while it waits goes, too.
func TestNoWordOutlivesItsJob(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Run("batch", "a", schedtest.FirstFit{})
		name := cell.Submit(celltest.Job{Name: "j", CPU: 1000})
		s := cell.Until("it waits", waits("j"))
		if want := "main: no node for 1 task"; schedtest.Word(s, "j").GetMessage() != want {
			t.Errorf("message %q, want %q", schedtest.Word(s, "j").GetMessage(), want)
		}
		cell.Mark(name, func(j *ohmv1.Job) { j.Stopped, j.Done = true, &ohmv1.Outcome{State: "Stopped"} })
		cell.Until("the word is gone", func(s *cellstate.Snapshot) bool { return schedtest.Word(s, "j") == nil })
	})
}
