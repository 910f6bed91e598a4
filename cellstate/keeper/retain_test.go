package keeper

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestRetention(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		h.run(h.keeper("s1", Limits{DoneJobs: 2, RunsFor: 30 * time.Hour}))
		old := h.Job(celltest.Job{Name: "old"})
		h.Put(cellstate.Record{Key: cellstate.WaitingKey(old), Value: &ohmv1.Waiting{Job: "old"}})
		h.Release(h.Place("old", 0, "n1").Slot, task.Succeeded)
		h.Job(celltest.Job{Name: "older"}) // not an owner of old's keys, nor the other way round
		h.pass(2 * time.Minute)
		row := h.Snapshot().Job(old)
		if row == nil || row.Record.GetDone() == nil || row.Waiting != nil || len(row.Tasks) != 1 {
			t.Fatalf("soon after its end: %+v", row)
		}
		h.pass(24 * time.Hour)
		s := h.Snapshot()
		if row := s.Job(old); row == nil || row.Record != nil || len(row.Tasks) != 0 || len(row.Runs) != 1 {
			t.Fatalf("after a day there is left: %+v, want only what is told of the run", row)
		}
		if s.Job(celltest.Name("older")) == nil {
			t.Fatal("a job that is not done was removed")
		}
		for _, name := range []string{"a", "b", "c"} {
			h.Job(celltest.Job{Name: name})
			h.Release(h.Place(name, 0, "n1").Slot, task.Succeeded)
			h.pass(time.Second)
		}
		h.pass(2 * time.Minute)
		s = h.Snapshot()
		kept := func(job string) bool { return s.Job(celltest.Name(job)).Record != nil }
		if kept("a") || !kept("b") || !kept("c") {
			t.Fatal("of three done jobs, not the two newest were kept")
		}
		h.pass(6 * time.Hour)
		if row := h.Snapshot().Job(old); row != nil {
			t.Fatalf("after 30 h there is left: %+v", row)
		}
	})
}

// A job of which something is still live is never removed.
func TestLiveTasksKeepTheirJob(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "a"})
		p := h.Place("a", 0, "n1")
		h.Mark(name, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Stopped", Time: timestamppb.Now()} })
		later := time.Now().Add(48 * time.Hour)
		if got := expired(h.Snapshot(), later, Limits{}.withDefaults()); len(got) != 0 {
			t.Fatalf("to be removed: %v", got[0].Name)
		}
		h.Release(p.Slot, task.Stopped)
		if got := expired(h.Snapshot(), later, Limits{}.withDefaults()); len(got) != 1 {
			t.Fatalf("%d jobs to be removed after the end, want 1", len(got))
		}
	})
}

// A name that is used again while its old job is being removed keeps the new job.
func TestRemovalComparesEverything(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "a"})
		h.Release(h.Place("a", 0, "n1").Slot, task.Succeeded)
		h.Mark(name, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Succeeded"} })
		stale := h.Snapshot()
		h.Job(celltest.Job{Name: "a"})
		out, err := h.store.Commit(h.ctx, removal(stale, stale.Job(name), false))
		if err != nil || out.Applied[0] != 0 {
			t.Fatalf("removal of a job that was submitted again: %v, %v", out, err)
		}
		h.Mark(name, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Succeeded"} })
		stale = h.Snapshot()
		slot := celltest.Slot(stale, name, "main", 0)
		h.Put(cellstate.Record{Key: slot.EndedKey(7), Value: &ohmv1.Ended{}})
		if out, err = h.store.Commit(h.ctx, removal(stale, stale.Job(name), false)); err != nil || out.Applied[0] != 0 {
			t.Fatalf("removal of a job with a newer record: %v, %v", out, err)
		}
		stale = h.Snapshot()
		if out, err = h.store.Commit(h.ctx, removal(stale, stale.Job(name), false)); err != nil || out.Applied[0] == 0 {
			t.Fatalf("removal: %v, %v", out, err)
		}
		if row := h.Snapshot().Job(name); row != nil {
			t.Fatalf("left: %+v", row)
		}
	})
}

func TestTrim(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.Job(celltest.Job{Name: "web", Kind: "service"})
		h.Job(celltest.Job{Name: "batch", Retries: 99})
		for range 30 {
			h.Put(h.failure(h.Place("web", 0, "n1"))...)
		}
		for i := range 30 {
			p := h.Place("batch", 0, "n1")
			records := h.failure(p)
			if i%2 == 0 {
				status := celltest.StatusOf(p, task.Lost)
				status.Cause = task.NodeLost
				records = cellstate.ReleaseRecords(h.Snapshot().Job(p.Slot.JobName()).Task(p.Slot), status)
			}
			h.Put(records...)
		}
		h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		for job, want := range map[string]string{
			"web":   "[1 2 3 4 5 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30]",
			"batch": "[1 2 3 4 5 6 8 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30]", // 7 and 9 were the node's fault; every other one spent a retry
		} {
			var got []int
			for _, e := range h.Snapshot().Job(celltest.Name(job)).Tasks[0].Ended {
				got = append(got, e.Attempt)
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%s keeps attempts %v, want %s", job, got, want)
			}
		}
	})
}

// Attempts of an older version stay for as long as a done job does.
func TestTrimOlderVersions(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "web", Kind: "service"})
		p := h.Place("web", 0, "n1")
		status := celltest.StatusOf(p, task.Stopped)
		status.Ended = timestamppb.Now()
		h.Put(cellstate.ReleaseRecords(h.Snapshot().Job(name).Task(p.Slot), status)...)
		h.Job(celltest.Job{Name: "web", Kind: "service"})
		h.Put(h.failure(h.Place("web", 0, "n1"))...)
		h.run(h.keeper("s1", Limits{}))
		h.pass(23 * time.Hour)
		if n := len(h.Snapshot().Job(name).Tasks); n != 2 {
			t.Fatalf("%d slots are stored after 23 h, want 2", n)
		}
		h.pass(2 * time.Hour)
		if tasks := h.Snapshot().Job(name).Tasks; len(tasks) != 1 || tasks[0].Slot.Version != 2 {
			t.Fatalf("%d slots are stored after 25 h, want the present version's", len(tasks))
		}
	})
}
