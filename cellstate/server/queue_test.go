package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What a job waits for has a code each, and only what waits for room stands in line.
func TestExplainSaysWhatWouldHelp(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1", CPU: 1000})
	w.cell.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", "i"), Value: &ohmv1.SchedulerInstance{Scheduler: "batch", Instance: "i"}})
	says := func(job string, g *ohmv1.GroupWaiting) {
		g.Group, g.Waiting = "main", 1
		w.cell.Put(cellstate.Record{Key: cellstate.WaitingKey(celltest.Name(job)), Value: &ohmv1.Waiting{Namespace: "default", Job: job, JobVersion: 1, Scheduler: "batch", Instance: "i", Groups: []*ohmv1.GroupWaiting{g}}})
	}
	for _, job := range []string{"first", "never", "quota", "room"} {
		w.submit(celltest.Job{Name: job, CPU: 1000})
	}
	w.submit(celltest.Job{Name: "orphan", CPU: 1000, Scheduler: "ml"})
	w.submit(celltest.Job{Name: "retry", CPU: 1000, Retries: 3})
	w.submit(celltest.Job{Name: "runs", CPU: 1000})
	failed := w.cell.Place("retry", 0, "n1")
	status := celltest.StatusOf(failed, task.Failed)
	status.ExitCode, status.Ended = 7, timestamppb.New(time.Now().Add(time.Minute)) // its wait is not over before the test is
	w.cell.Put(cellstate.ReleaseRecords(w.cell.Snapshot().Job(failed.Slot.JobName()).Task(failed.Slot), status)...)
	w.cell.Place("runs", 0, "n1")
	says("never", &ohmv1.GroupWaiting{Never: "it asks for the moon"})
	says("quota", &ohmv1.GroupWaiting{Reasons: []*ohmv1.Reason{{Reason: "Quota", Dimension: "cpu of namespace default"}}})
	says("room", &ohmv1.GroupWaiting{Nodes: 1, Reasons: []*ohmv1.Reason{{Reason: "Resources", Dimension: "cpu", Nodes: 1, Remedy: "needs 1 more of cpu on n1"}}, NoVictims: "too young", NoVictimsCode: "MinRun"})
	w.seen()
	for _, c := range []struct {
		job      string
		position int32 // 0: it is not in line
		codes    []string
		text     string // of the first
	}{
		{"first", 1, nil, ""},
		{"room", 2, []string{"Turn", "Room", "Victims"}, "1 job is ahead of it"},
		{"never", 0, []string{"Never"}, "it asks for the moon"},
		{"quota", 0, []string{"Quota"}, "cpu of namespace default"},
		{"orphan", 1, []string{"Scheduler"}, "scheduler ml"},
		{"retry", 0, []string{"Retry"}, "its next attempt, in "},
		{"runs", 0, nil, ""},
	} {
		e, err := w.insight.Explain(w.ctx, &ohmv1.GetJobRequest{Job: c.job})
		if err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, u := range e.GetUnblocks() {
			codes = append(codes, u.GetCode())
		}
		if e.GetQueue().GetPosition() != c.position || !slices.Equal(codes, c.codes) {
			t.Errorf("%s: %v and %v; want position %d and %v", c.job, e.GetQueue(), e.GetUnblocks(), c.position, c.codes)
		} else if len(codes) > 0 && !strings.Contains(e.GetUnblocks()[0].GetText(), c.text) {
			t.Errorf("%s: %q does not say %q", c.job, e.GetUnblocks()[0].GetText(), c.text)
		}
	}
}
