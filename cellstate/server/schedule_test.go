package server_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A job with a schedule does not run when it is submitted: it says when it will, can be run out of
// turn, and is stopped with its schedule.
func TestSchedule(t *testing.T) {
	w := serve(t, nil)
	nightly := spec(celltest.Job{Name: "nightly"})
	nightly.Schedule = &ohmv1.Cron{Cron: "0 2 * * *", TimeZone: "Europe/Berlin"}
	for i := range 2 {
		resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{nightly}, NewRun: true})
		if got := resp.GetJobs(); err != nil || got[0].GetNext() == nil || got[0].GetUnchanged() != (i == 1) {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	row := w.cell.Snapshot().Job(celltest.Name("nightly"))
	if row.Record != nil || row.Schedule.GetSpec().GetSchedule().GetOverlap() != "forbid" || row.Schedule.GetThrough() == nil {
		t.Fatalf("stored: %v, %v", row.Record, row.Schedule)
	}
	got, err := w.jobs.Get(w.ctx, &ohmv1.GetJobRequest{Job: "nightly"})
	if err != nil || got.GetStatus().GetState() != "Scheduled" || got.GetStatus().GetNext() == nil || got.GetJob().GetSpec().GetName() != "nightly" {
		t.Fatalf("%v, %v", got, err)
	}
	list, err := w.jobs.List(w.ctx, &ohmv1.ListJobsRequest{})
	if err != nil || len(list.GetJobs()) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	again, err := w.jobs.Again(w.ctx, &ohmv1.AgainRequest{Job: "nightly"})
	if err != nil || again.GetJobs()[0].GetRun() != 1 {
		t.Fatalf("out of turn: %v, %v", again, err)
	}
	stopped, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"nightly"}})
	row = w.cell.Snapshot().Job(celltest.Name("nightly"))
	if err != nil || row.Schedule != nil || !row.Record.GetStopped() || stopped.GetJobs()[0].GetNext() != nil {
		t.Fatalf("stopped: %v, %v: %v", stopped, err, row)
	}
	other := spec(celltest.Job{Name: "other"})
	other.Schedule = &ohmv1.Cron{Cron: "@daily"}
	if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{other}}); err != nil {
		t.Fatal(err)
	}
	if resp, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{All: true}); err != nil || w.cell.Snapshot().Job(celltest.Name("other")) != nil {
		t.Fatalf("all stopped: %v, %v", resp, err)
	}
	other.Schedule.Cron = "whenever"
	_, err = w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{other}})
	wantCode(t, err, codes.InvalidArgument)
}
