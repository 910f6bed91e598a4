package keeper

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestMarksJobsDone(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		h.Job(celltest.Job{Name: "good"})
		h.Job(celltest.Job{Name: "bad"})
		h.Job(celltest.Job{Name: "waits"})
		orphan := h.Job(celltest.Job{Name: "orphan", Scheduler: "gone"}) // of a scheduler that has no record
		stopped := h.Job(celltest.Job{Name: "stopped", Kind: "service"})
		h.run(h.keeper("s1", Limits{}))
		h.Release(h.Place("good", 0, "n1").Slot, task.Succeeded)
		h.Put(h.failure(h.Place("bad", 0, "n1"))...)
		h.Mark(stopped, func(j *ohmv1.Job) { j.Stopped = true })
		h.Mark(orphan, func(j *ohmv1.Job) { j.Stopped = true })
		h.pass(time.Second)
		for job, want := range map[string]string{"orphan": "Stopped", "good": "Succeeded", "bad": "Failed", "stopped": "Stopped", "waits": ""} {
			if got := h.Snapshot().Job(celltest.Name(job)).Record.GetDone().GetState(); got != want {
				t.Errorf("%s is %q, want %q", job, got, want)
			}
		}
	})
}

func (h *house) failure(p *cellstate.Placement) []cellstate.Record {
	status := celltest.StatusOf(p, task.Failed)
	status.ExitCode = 1
	return cellstate.ReleaseRecords(h.Snapshot().Job(p.Slot.JobName()).Task(p.Slot), status)
}

// A gang's deadline passes although nothing changes in the cell.
func TestMarksATimedOutGang(t *testing.T) {
	inHouse(t, func(h *house) {
		name := h.Job(celltest.Job{Name: "train", Kind: "ml", Count: 2, Gang: true})
		h.Mark(name, func(j *ohmv1.Job) {
			j.SubmitTime = timestamppb.Now()
			j.Spec.Gang.OnTimeout, j.Spec.Gang.Timeout = "fail", durationpb.New(10*time.Minute)
		})
		h.run(h.keeper("s1", Limits{}))
		h.pass(10*time.Minute - time.Second)
		if done := h.Snapshot().Job(name).Record.GetDone(); done != nil {
			t.Fatalf("done too early: %v", done)
		}
		h.pass(2 * time.Second)
		if done := h.Snapshot().Job(name).Record.GetDone(); done.GetState() != "Failed" {
			t.Fatalf("after the deadline: %v", done)
		}
	})
}

// A gang that is placed while the keeper finds it timed out stays alive: one of the two
// commits does not apply, whichever comes second.
func TestDoneComparesTheTasks(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "train", Kind: "ml", Count: 2, Gang: true})
		h.Mark(name, func(j *ohmv1.Job) {
			j.SubmitTime = timestamppb.Now()
			j.Spec.Gang.OnTimeout, j.Spec.Gang.Timeout = "fail", durationpb.New(time.Minute)
		})
		h.pass(time.Hour)
		stale := h.Snapshot()
		h.Place("train", 0, "n1")
		writes, names := newMarker().plan(stale, time.Now())
		if len(writes) != 1 || names[0] != name {
			t.Fatalf("marks %v, want train", names)
		}
		out, err := h.store.Commit(h.ctx, writes...)
		if err != nil || out.Applied[0] != 0 {
			t.Fatalf("marked done over a placement that the decision did not see: %v, %v", out, err)
		}
	})
}

// A job whose mark did not apply is looked at again although nothing more changes.
func TestMarksAgainWhatDidNotApply(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "a"})
		k, m := h.keeper("s1", Limits{}), newMarker()
		lead := cellstate.Guard{Key: cellstate.MetaKey(leaderMeta)}
		lead.Revision = h.Put(cellstate.Record{Key: lead.Key, Value: &ohmv1.Meta{Value: "s1"}})
		h.Release(h.Place("a", 0, "n1").Slot, task.Succeeded)
		stale := h.Snapshot()
		h.Put(cellstate.Record{Key: celltest.Slot(stale, name, "main", 0).EndedKey(7), Value: &ohmv1.Ended{}})
		if due, err := k.mark(h.ctx, lead, m, stale, time.Now()); err != nil || due.IsZero() {
			t.Fatalf("looks again at %v, %v", due, err)
		}
		s := h.Snapshot()
		m.seen = s // as if the change had been seen before
		if due, err := k.mark(h.ctx, lead, m, s, time.Now()); err != nil || !due.IsZero() {
			t.Fatalf("then looks again at %v, %v", due, err)
		}
		if done := h.Snapshot().Job(name).Record.GetDone(); done.GetState() != "Succeeded" {
			t.Fatalf("done: %v", done)
		}
	})
}

// What a look costs does not grow with the jobs that have not changed.
func TestMarkCostsWhatChanged(t *testing.T) {
	inHouse(t, func(h *house) {
		const jobs = 300
		for i := range jobs {
			h.Job(celltest.Job{Name: fmt.Sprintf("j%d", i), Count: 3})
		}
		before, err := h.mirror.WaitSnapshot(h.ctx, h.Snapshot().Revision())
		if err != nil {
			t.Fatal(err)
		}
		h.Mark(celltest.Name("j7"), func(j *ohmv1.Job) { j.Stopped = true })
		after, err := h.mirror.WaitSnapshot(h.ctx, before.Revision()+1)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		cost := func(seen *cellstate.Snapshot) float64 {
			return testing.AllocsPerRun(1, func() {
				m := newMarker()
				m.seen = seen
				if _, names := m.plan(after, now); fmt.Sprint(names) != "[default/j7]" {
					t.Errorf("marks %v", names)
				}
			})
		}
		if one, all := cost(before), cost(nil); one*20 > all {
			t.Fatalf("one change costs %v allocations, %d jobs cost %v", one, jobs, all)
		}
	})
}
