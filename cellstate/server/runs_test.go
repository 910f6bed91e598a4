package server_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func (w *world) newRun(id string, job celltest.Job) (*ohmv1.Submitted, error) {
	w.t.Helper()
	resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec(job)}, RequestId: id, NewRun: true})
	if err != nil {
		return nil, err
	}
	return resp.GetJobs()[0], nil
}

// done marks a job's run as the keeper does.
func (w *world) done(job, state string) {
	w.cell.Mark(celltest.Name(job), func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: state} })
}

// Field case 82: the same job submitted twice is two runs, both kept; applied twice it is one.
func TestCase82(t *testing.T) {
	w := serve(t, nil)
	a := celltest.Job{Name: "a"}
	for _, step := range []struct {
		name       string
		before     func()
		id         string
		run        int64
		version    int64
		unchanged  bool
		waits      bool
		newRun     bool
		otherCount int
	}{
		{name: "applied", run: 1, version: 1},
		{name: "applied again", run: 1, version: 1, unchanged: true},
		{name: "applied with other content", run: 1, version: 2, otherCount: 2},
		{name: "run while one goes on", id: "r2", newRun: true, run: 2, waits: true},
		{name: "the same request", id: "r2", newRun: true, run: 2, waits: true, unchanged: true},
		{name: "run once more", id: "r3", newRun: true, run: 3, waits: true},
	} {
		job := a
		job.Count = step.otherCount
		resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec(job)}, RequestId: step.id, NewRun: step.newRun})
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		got := resp.GetJobs()[0]
		if got.GetRun() != step.run || got.GetVersion() != step.version || got.GetUnchanged() != step.unchanged || got.GetWaits() != step.waits {
			t.Fatalf("%s: %v", step.name, got)
		}
	}
	row := w.cell.Snapshot().Job(celltest.Name("a"))
	if row.Record.GetRun() != 1 || len(row.WaitingRuns()) != 2 {
		t.Fatalf("stored are run %d and %d that wait", row.Record.GetRun(), len(row.WaitingRuns()))
	}
	status, err := w.jobs.Get(w.ctx, &ohmv1.GetJobRequest{Job: "a", Run: 3})
	if err != nil || status.GetStatus().GetState() != "Pending" || status.GetStatus().GetRun() != 3 {
		t.Fatalf("run 3: %v, %v", status, err)
	}

	b := celltest.Job{Name: "b"}
	for run := range int64(3) {
		got, err := w.newRun("", b)
		if err != nil || got.GetRun() != run+1 || got.GetWaits() {
			t.Fatalf("%v, %v", got, err)
		}
		w.done("b", "Succeeded")
		w.until("the end", settled("b"))
	}
	history, err := w.jobs.History(w.ctx, &ohmv1.HistoryRequest{Job: "b"})
	if err != nil || len(history.GetRuns()) != 3 {
		t.Fatalf("%v, %v", history, err)
	}
	for i, v := range history.GetRuns() {
		if v.GetRun() != int64(3-i) || v.GetState() != "Succeeded" || v.GetVersion() != int64(3-i) {
			t.Errorf("run %d in place %d is %s of version %d", v.GetRun(), i, v.GetState(), v.GetVersion())
		}
	}
	_, err = w.newRun("", celltest.Job{Name: "web", Kind: "service"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.newRun("", celltest.Job{Name: "web", Kind: "service"}); err != nil || !got.GetUnchanged() {
		t.Errorf("a service that is live: %v, %v", got, err)
	}
	_, err = w.newRun("", celltest.Job{Name: "web"})
	wantCode(t, err, codes.FailedPrecondition)
}

// More runs than may wait are refused, and stop ends those that wait.
func TestQueueFull(t *testing.T) {
	w := serve(t, nil)
	var err error
	for range 101 {
		if _, err = w.newRun("", celltest.Job{Name: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = w.newRun("", celltest.Job{Name: "a"})
	if wantCode(t, err, codes.FailedPrecondition); !strings.Contains(err.Error(), "queue full") {
		t.Errorf("refused with %v", err)
	}
	if _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if record := w.cell.Snapshot().Job(celltest.Name("a")).Record; !record.GetStopped() || record.GetStoppedThrough() != 101 {
		t.Errorf("after a stop: %v through run %d", record.GetStopped(), record.GetStoppedThrough())
	}
}

// A run is done once more, wholly or only what has not succeeded.
func TestAgain(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	if _, err := w.newRun("", celltest.Job{Name: "a", Count: 5}); err != nil {
		t.Fatal(err)
	}
	only := &ohmv1.AgainRequest{Job: "a", OnlyFailed: true, RequestId: "again"}
	_, err := w.jobs.Again(w.ctx, only)
	wantCode(t, err, codes.FailedPrecondition) // nobody knows yet which fail
	for i, state := range []ohmv1.TaskState{task.Succeeded, task.Failed, task.Succeeded, task.Succeeded, task.Failed} {
		p := w.cell.Place("a", i, "n1")
		status := celltest.StatusOf(p, state)
		if state == task.Failed {
			status.ExitCode = 1
		}
		w.cell.Put(cellstate.ReleaseRecords(w.cell.Snapshot().Job(celltest.Name("a")).Task(p.Slot), status)...)
	}
	w.done("a", "Failed")
	w.until("the end", settled("a"))
	for range 2 { // and a repeat
		resp, err := w.jobs.Again(w.ctx, only)
		if err != nil || resp.GetJobs()[0].GetRun() != 2 {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	got, err := w.jobs.Get(w.ctx, &ohmv1.GetJobRequest{Job: "a"})
	if c := got.GetStatus().GetGroups()[0]; err != nil || c.GetCount() != 5 || c.GetSucceeded() != 3 || c.GetWaiting() != 2 || got.GetJob().GetAgain() != 1 {
		t.Fatalf("run 2: %v, %v", got, err)
	}
	w.done("a", "Succeeded")
	w.until("the end", settled("a"))
	_, err = w.jobs.Again(w.ctx, &ohmv1.AgainRequest{Job: "a", OnlyFailed: true})
	wantCode(t, err, codes.FailedPrecondition) // none failed
	resp, err := w.jobs.Again(w.ctx, &ohmv1.AgainRequest{Job: "a", Run: 1, OnlyFailed: true})
	if err != nil || resp.GetJobs()[0].GetRun() != 3 {
		t.Fatalf("of an older run: %v, %v", resp, err)
	}
	if got, err = w.jobs.Get(w.ctx, &ohmv1.GetJobRequest{Job: "a"}); err != nil || got.GetStatus().GetGroups()[0].GetWaiting() != 2 {
		t.Errorf("run 3: %v, %v", got, err)
	}
	w.cell.Mark(celltest.Name("a"), func(j *ohmv1.Job) {
		j.Spec.AllowedFailures = 1
		j.Done = &ohmv1.Outcome{State: "Succeeded", Groups: []*ohmv1.GroupCounts{{Name: "main", Count: 5, Succeeded: 4, Failed: 1}}}
	})
	w.until("the end", settled("a"))
	if resp, err = w.jobs.Again(w.ctx, &ohmv1.AgainRequest{Job: "a", OnlyFailed: true}); err != nil || resp.GetJobs()[0].GetRun() != 4 {
		t.Errorf("of a run that has succeeded with a failure that it allows: %v, %v", resp, err)
	}
	_, err = w.jobs.Again(w.ctx, &ohmv1.AgainRequest{Job: "a", Run: 9})
	wantCode(t, err, codes.NotFound)
	_, err = w.jobs.Again(w.ctx, &ohmv1.AgainRequest{Job: "b"})
	wantCode(t, err, codes.NotFound)
}

func settled(job string) func(*cellstate.Snapshot) bool {
	return func(s *cellstate.Snapshot) bool { return s.Job(celltest.Name(job)).Record.GetDone() != nil }
}
