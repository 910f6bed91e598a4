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

// What somebody says of an update is taken in, or refused, by how far the update is.
func TestRoll(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	given := spec(celltest.Job{Name: "web", Kind: "service", Count: 2})
	given.Update = &ohmv1.UpdatePolicy{Canary: 1}
	submit := func(env string) {
		t.Helper()
		given.Groups[0].Env = map[string]string{"A": env}
		if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{given}}); err != nil {
			t.Fatal(err)
		}
	}
	says := func(action string, want codes.Code) {
		t.Helper()
		_, err := w.jobs.Roll(w.ctx, &ohmv1.RollRequest{Job: "web", Action: action})
		wantCode(t, err, want)
	}
	row := func() *cellstate.Job { return w.cell.Snapshot().Job(celltest.Name("web")) }
	says("pause", codes.NotFound)
	submit("1")
	if row().Rollout != nil {
		t.Error("the first version has a rollout")
	}
	for _, action := range []string{"pause", "resume", "promote", "revert"} {
		says(action, codes.FailedPrecondition)
	}
	for i := range 2 {
		w.cell.Status(w.cell.Place("web", i, "n1").Slot, task.Running)
	}
	w.seen()
	submit("2")
	if r := row().Rollout; r.GetState() != "Running" || r.GetVersion() != 2 || r.GetGood().GetVersion() != 1 {
		t.Errorf("the update: %v", r)
	}
	says("promote", codes.FailedPrecondition) // there is nothing yet
	says("nonsense", codes.InvalidArgument)
	says("resume", codes.FailedPrecondition)
	says("pause", codes.OK)
	says("pause", codes.FailedPrecondition)
	says("promote", codes.FailedPrecondition)
	if r := row().Rollout; r.GetState() != "Paused" {
		t.Errorf("paused: %v", r)
	}
	says("resume", codes.OK)

	// A change that reaches no process leaves the update what it is.
	before := row().Rollout
	given.Labels = map[string]string{"a": "b"}
	submit("2")
	if r := row().Rollout; !proto.Equal(r, before) || row().Record.GetVersion() != 3 || row().VersionOf("main") != 2 {
		t.Errorf("after a label: %v of %v", r, row().Record)
	}
	says("revert", codes.OK)
	if r := row(); r.VersionOf("main") != 1 || !r.Rollout.GetReverts() || r.Record.GetVersion() != 4 || r.Record.GetSpec().GetGroups()[0].GetEnv()["A"] != "1" {
		t.Errorf("reverted: %v", r.Record)
	}

	// Stopped and run again it is new, and so is its rollout.
	if _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"web"}}); err != nil {
		t.Fatal(err)
	}
	says("revert", codes.FailedPrecondition)
	submit("3")
	if row().Rollout != nil || row().VersionOf("main") != 5 {
		t.Errorf("run again: %v, %v", row().Rollout, row().Record)
	}
}

// The tasks of an older version are told to end only when the update has come to them, and until
// then have all that it takes to start them.
func TestOlderTasksStay(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	given := spec(celltest.Job{Name: "web", Kind: "service"})
	submit := func() {
		t.Helper()
		if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{given}}); err != nil {
			t.Fatal(err)
		}
	}
	submit()
	p := w.cell.Place("web", 0, "n1")
	a.until("assignment", func() bool { return a.assignment("web/main/0") != nil })
	was := a.assignment("web/main/0")
	w.cell.Status(p.Slot, task.Running)
	w.seen()
	given.Groups[0].Env = map[string]string{"A": "b"}
	submit()
	other := w.attach("n1", "two") // is told of everything
	other.until("assignment", func() bool { return other.assignment("web/main/0") != nil })
	if got := other.assignment("web/main/0"); !proto.Equal(got, was) {
		t.Errorf("it is told %v; before %v", got, was)
	}
	j := w.cell.Snapshot().Job(celltest.Name("web"))
	next := proto.CloneOf(j.Rollout)
	next.Retired = []*ohmv1.Slot{p.Slot.Proto()}
	w.cell.Put(cellstate.Record{Key: cellstate.RolloutKey(j.Name), Value: next, Read: j.RolloutRevision})
	other.until("stop", func() bool { return other.assignment("web/main/0").GetStopCause() == task.Stop })
}
