package server_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestAssignmentHasTheWholeGroup: what a group says of its tasks reaches the agent, and a
// change of it is a new version.
func TestAssignmentHasTheWholeGroup(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	spec := spec(celltest.Job{Name: "web"})
	g := spec.Groups[0]
	g.Env = map[string]string{"A": "group", "B": "group"}
	g.Box = &ohmv1.Box{Image: "example.org/web:1", Mounts: []*ohmv1.Mount{{Target: "/t", TmpfsBytes: 1}}}
	g.CpuMaxMilli, g.Pids, g.StartDeadline = g.Resources.CpuMilli+1, 9, durationpb.New(time.Hour)
	several := proto.CloneOf(g)
	several.Name, several.Command, several.Box = "several", nil, nil
	several.Containers = []*ohmv1.Container{
		{Name: "one", Role: "init", Command: []string{"x"}, Env: map[string]string{"A": "own"}, Box: &ohmv1.Box{User: "1"}},
		{Name: "two", Box: &ohmv1.Box{Image: "tar:/two"}},
	}
	spec.Groups = append(spec.Groups, several)
	run := func(spec *ohmv1.JobSpec) *ohmv1.Submitted {
		t.Helper()
		r, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec}})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetJobs()[0]
	}
	run(spec)
	w.cell.Place("web", 0, "n1")
	a.until("assignment", func() bool { return a.assignment("web/main/0") != nil })
	got := a.assignment("web/main/0")
	if !proto.Equal(got.GetBox(), g.Box) || got.GetCpuMaxMilli() != g.CpuMaxMilli || got.GetPids() != 9 || got.GetStartDeadline().AsDuration() != time.Hour ||
		got.GetEnv()["A"] != "group" || len(got.GetContainers()) != 0 {
		t.Errorf("assignment: %v", got)
	}
	s := w.cell.Snapshot()
	w.cell.Commit(s, celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, celltest.Name("web"), "several", 0), "n1")))
	a.until("assignment", func() bool { return a.assignment("web/several/0") != nil })
	got = a.assignment("web/several/0")
	if c := got.GetContainers(); len(c) != 2 || len(got.GetEnv())+len(got.GetCommand()) != 0 || got.GetBox() != nil || got.GetPids() != 9 {
		t.Errorf("assignment: %v", got)
	} else if e := c[0].GetEnv(); e["A"] != "own" || e["B"] != "group" || e["OHM_GROUP"] != "several" || c[0].GetRole() != "init" || c[0].GetBox().GetUser() != "1" ||
		c[1].GetEnv()["A"] != "group" || c[1].GetRole() != "main" || c[1].GetBox().GetImage() != "tar:/two" {
		t.Errorf("containers: %v", c)
	}

	if again := run(spec); !again.GetUnchanged() {
		t.Errorf("the same content is %v", again)
	}
	for _, change := range []func(){
		func() { g.Box.Image = "example.org/web:2" },
		func() { g.Box.Mounts[0].ReadOnly = true },
		func() { g.Pids++ },
		func() { several.Containers[0].Role = "sidecar" },
	} {
		change()
		if next := run(spec); next.GetUnchanged() {
			t.Errorf("a change made no version: %v", next)
		}
	}
	a.until("stop", func() bool { return a.assignment("web/main/0").GetStopCause() == task.Stop })
	if got := a.assignment("web/main/0"); got.GetBox() != nil || len(got.GetContainers()) != 0 {
		t.Errorf("a task of an older version is told of the newest: %v", got)
	}
}

// TestChangeInPlace: what reaches no process is a new version of the job and none of its
// tasks, whose agents are told of the new limits.
func TestChangeInPlace(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	given := spec(celltest.Job{Name: "a"})
	submit := func() {
		t.Helper()
		if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{given}}); err != nil {
			t.Fatal(err)
		}
	}
	submit()
	p := w.cell.Place("a", 0, "n1")
	a.until("assignment", func() bool { return a.assignment("a/main/0") != nil })
	given.Labels, given.MaxRuntime, given.Groups[0].Count = map[string]string{"a": "b"}, durationpb.New(time.Hour), 2
	submit()
	a.until("the new limit", func() bool { return a.assignment("a/main/0").GetMaxRuntime().AsDuration() == time.Hour })
	row := w.cell.Snapshot().Job(celltest.Name("a"))
	if got := a.assignment("a/main/0"); got.GetStopCause() != "" || row.Record.GetVersion() != 2 || row.VersionOf("main") != 1 || !row.Current(p.Slot) {
		t.Errorf("assignment %v of %v", got, row.Record)
	}
	if w.cell.Place("a", 1, "n1").Slot.Version != 1 {
		t.Error("its siblings are of another version")
	}
	given.Groups[0].Env = map[string]string{"A": "b"}
	submit()
	a.until("stop", func() bool { return a.assignment("a/main/0").GetStopCause() == task.Stop })
}
