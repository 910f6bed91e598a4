package server_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Field case 75: a scaled service that is submitted again, with a new image, keeps its count, for as
// long as the file's stays what it was; who submits it is told. A file that says another count is
// obeyed, and a stop ends it all.
func TestCase75ScaledCountSurvives(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	row := func() *cellstate.Job { return w.cell.Snapshot().Job(celltest.Name("web")) }
	submit := func(count int, env string) *ohmv1.Submitted {
		t.Helper()
		given := spec(celltest.Job{Name: "web", Kind: "service", Count: count, CPU: 1})
		given.Groups[0].Env = map[string]string{"A": env}
		resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{given}, RequestId: env})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetJobs()[0]
	}
	scale := func(count int32) *ohmv1.ScaleResponse {
		t.Helper()
		resp, err := w.jobs.Scale(w.ctx, &ohmv1.ScaleRequest{Job: "web", Count: count})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	has := func(what string, count int32, version, tasksOf int64, fileCount int32) {
		t.Helper()
		r := row()
		if got := r.Group("main").GetCount(); got != count || r.Record.GetVersion() != version || r.VersionOf("main") != tasksOf {
			t.Errorf("%s: count %d, version %d, tasks of version %d; want %d, %d, %d", what, got, r.Record.GetVersion(), r.VersionOf("main"), count, version, tasksOf)
		}
		var file int32
		if s := r.Record.GetScaled(); len(s) > 0 {
			file = s[0].GetFileCount()
		}
		if file != fileCount {
			t.Errorf("%s: the file's count is kept as %d, want %d", what, file, fileCount)
		}
	}
	submit(10, "1")
	for i := range 10 {
		w.cell.Status(w.cell.Place("web", i, "n1").Slot, task.Running)
	}
	if r := scale(30); r.GetWas() != 10 || r.GetFileCount() != 10 || r.GetVersion() != 2 || r.GetUnchanged() {
		t.Errorf("scaled: %v", r)
	}
	has("scaled", 30, 2, 1, 10) // the tasks are of version 1: they are the same processes
	if row().Rollout != nil {
		t.Error("there is an update, though nothing has to be started anew")
	}
	if r := scale(30); !r.GetUnchanged() || r.GetVersion() != 2 {
		t.Errorf("scaled to what it has: %v", r)
	}
	if s := submit(10, "1"); !s.GetUnchanged() || s.GetVersion() != 2 || len(s.GetScaled()) != 0 { // a repeat of the request
		t.Errorf("the same request again: %v", s)
	}
	has("the same request again", 30, 2, 1, 10)
	for i := range 30 {
		if i >= 10 {
			w.cell.Put(cellstate.Record{Key: slotOf(row(), i).PlacementKey(), Value: &ohmv1.Placement{Slot: slotOf(row(), i).Proto(), Attempt: 1, Node: "n1", Precedence: 200, Scheduler: "service", Txn: "X"}})
			w.cell.Status(slotOf(row(), i), task.Running)
		}
	}
	w.seen()
	if s := submit(10, "2"); s.GetUnchanged() || len(s.GetScaled()) != 1 || s.GetScaled()[0].GetCount() != 30 {
		t.Errorf("a new image: %v", s)
	}
	has("a new image", 30, 3, 3, 10)
	given := proto.CloneOf(row().Record.GetSpec())
	given.Groups[0].Count = 10
	if resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{given}}); err != nil || !resp.GetJobs()[0].GetUnchanged() {
		t.Errorf("the same content again: %v, %v", resp, err)
	}
	has("the same content again", 30, 3, 3, 10)
	scale(40)
	if _, err := w.jobs.Roll(w.ctx, &ohmv1.RollRequest{Job: "web", Action: "revert"}); err != nil {
		t.Fatal(err)
	}
	has("gone back", 40, 5, 1, 10)
	submit(12, "3")
	has("another count in the file", 12, 6, 6, 0)
	scale(5)
	if _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"web"}}); err != nil {
		t.Fatal(err)
	}
	submit(12, "4")
	has("again after a stop", 12, 8, 8, 0)
}

func slotOf(j *cellstate.Job, index int) cellstate.Slot {
	return cellstate.Slot{Namespace: "default", Job: j.Name.Name, Group: "main", Index: index, Version: j.VersionOf("main")}
}

func TestScaleRefuses(t *testing.T) {
	w := serve(t, nil)
	w.submit(celltest.Job{Name: "web", Kind: "service"})
	w.submit(celltest.Job{Name: "sum"})
	two := spec(celltest.Job{Name: "two", Kind: "service"})
	two.Groups = append(two.Groups, proto.CloneOf(two.Groups[0]))
	two.Groups[1].Name = "other"
	if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{two}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		req  *ohmv1.ScaleRequest
		want codes.Code
	}{
		{&ohmv1.ScaleRequest{Job: "web", Count: 2}, codes.OK},
		{&ohmv1.ScaleRequest{Job: "web", Count: 0}, codes.OK},
		{&ohmv1.ScaleRequest{Job: "web", Count: -1}, codes.InvalidArgument},
		{&ohmv1.ScaleRequest{Job: "web", Count: 2_000_000_000}, codes.InvalidArgument},
		{&ohmv1.ScaleRequest{Job: "web", Group: "nothing", Count: 1}, codes.NotFound},
		{&ohmv1.ScaleRequest{Job: "sum", Count: 1}, codes.FailedPrecondition},
		{&ohmv1.ScaleRequest{Job: "nothing", Count: 1}, codes.NotFound},
		{&ohmv1.ScaleRequest{Job: "two", Count: 2}, codes.InvalidArgument},
		{&ohmv1.ScaleRequest{Job: "two", Group: "other", Count: 2}, codes.OK},
	} {
		_, err := w.jobs.Scale(w.ctx, c.req)
		wantCode(t, err, c.want)
	}
	if j := w.cell.Snapshot().Job(celltest.Name("two")); j.Group("main").GetCount() != 1 || j.Group("other").GetCount() != 2 {
		t.Errorf("stored: %v", j.Record)
	}
}
