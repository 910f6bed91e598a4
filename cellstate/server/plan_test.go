package server_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// plan plans jobs, and finds the store as it was before.
func (w *world) plan(specs ...*ohmv1.JobSpec) *ohmv1.PlanResponse {
	w.t.Helper()
	before := w.seen()
	resp, err := w.insight.Plan(w.ctx, &ohmv1.PlanRequest{Jobs: specs})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, diff := range celltest.Differ(w.cell.Snapshot(), before) {
		if !strings.HasPrefix(diff, "meta/scheduler/") && !strings.HasPrefix(diff, "events/waiting/") { // which schedulers write by themselves
			w.t.Errorf("a plan has changed the cell: %v", diff)
		}
	}
	return resp
}

// Field case 117: of a hundred states of a cell, what a plan says of a job that is not there yet is
// what becomes of it: so many of its tasks find a node, by the code of the scheduler that owns it.
// Nothing of a plan stands in the store.
func TestCase117PlanIsRight(t *testing.T) {
	const states = 100
	cell := schedtest.New(t)
	w := serve(t, cell.Store)
	rng := rand.New(rand.NewPCG(117, 0))
	for i := range 4 {
		cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: int64(2000 * (1 + rng.IntN(3))), GPUs: 2 * (i % 2), Ports: [2]int32{20000, 20999}, Attributes: map[string]string{"zone": string(rune('a' + i%2))}})
	}
	for kind, policy := range map[string]schedulers.Scheduler{"batch": batch.New(), "service": service.New(), "ml": ml.New()} {
		cell.Run(kind, "a", policy)
	}
	cell.Until("the schedulers are there", func(s *cellstate.Snapshot) bool {
		n := 0
		for row := range s.Schedulers() {
			n += len(row.Instances)
		}
		return n == 3
	})
	fits, waits := 0, 0
	for i := range states {
		name := fmt.Sprintf("j%d", i)
		job := celltest.Job{Name: name, Kind: []string{"batch", "service", "ml"}[rng.IntN(3)], Count: 1 + rng.IntN(4), CPU: int64(100 * (1 + rng.IntN(20))), Precedence: 100}
		if rng.IntN(3) == 0 {
			job.GPUs = 1 + rng.IntN(2)
		}
		if rng.IntN(3) == 0 {
			job.Constraints = []*ohmv1.Constraint{{Key: "zone", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"a"}}}
		}
		given := spec(job)
		p := w.plan(given).GetJobs()[0].GetPlacement()
		for strings.Contains(p.GetProblem(), "has not answered") && w.ctx.Err() == nil { // a machine with much to do
			p = w.plan(given).GetJobs()[0].GetPlacement()
		}
		if p.GetProblem() != "" || len(p.GetGroups()) != 1 || p.Groups[0].GetWanted() != int32(job.Count) {
			t.Fatalf("state %d, job %v: %v", i, given, p)
		}
		if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{given}}); err != nil {
			t.Fatal(err)
		}
		s := cell.Until("it is placed, or waits", func(s *cellstate.Snapshot) bool {
			waiting := 0
			for _, g := range schedtest.Word(s, name).GetGroups() {
				waiting += int(g.GetWaiting())
			}
			return schedtest.Placed(s, name)+waiting == job.Count
		})
		placed := schedtest.Placed(s, name)
		if int(p.Groups[0].GetPlaced()) != placed || len(p.Groups[0].GetChosen()) != placed || (p.Groups[0].GetWaiting() != nil) != (placed < job.Count) {
			t.Errorf("state %d, job %v: %d placed; the plan was %v", i, given, placed, p.Groups[0])
		}
		if placed == job.Count {
			fits++
		} else {
			waits++
			if !strings.Contains(p.Groups[0].GetMessage(), "no node for") {
				t.Errorf("state %d: why it waits is said as %q", i, p.Groups[0].GetMessage())
			}
		}
		// What waits goes, and some of what runs.
		for row := range s.Jobs() {
			if !row.Live() || schedtest.Placed(s, row.Name.Name) == int(row.Group("main").GetCount()) && rng.IntN(5) > 0 {
				continue
			}
			if _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{row.Name.Name}}); err != nil {
				t.Fatal(err)
			}
			for _, task := range row.Tasks {
				if task.Placement != nil {
					cell.Cell.End(task.Slot, "Stopped")
				}
			}
		}
	}
	if fits < states/5 || waits < states/5 {
		t.Errorf("%d jobs were placed and %d waited: the states are no test", fits, waits)
	}
}

// A plan of a change says what differs, what becomes of which tasks, and why, and that a scaled count
// stays.
func TestPlanOfAChange(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	given := spec(celltest.Job{Name: "web", Kind: "service", Count: 3, CPU: 10})
	p := w.plan(given).GetJobs()[0]
	if p.GetWas() != 0 || p.GetVersion() != 1 || effects(p) != "main start 0-2 the job is new" || !strings.Contains(p.GetPlacement().GetProblem(), "no process of scheduler service") {
		t.Errorf("of a new job: %v", p)
	}
	w.submit(celltest.Job{Name: "web", Kind: "service", Count: 3, CPU: 10})
	for i := range 3 {
		w.cell.Status(w.cell.Place("web", i, "n1").Slot, task.Running)
	}
	if p := w.plan(given).GetJobs()[0]; !p.GetUnchanged() || len(p.GetChanges()) > 0 || effects(p) != "main stay 0-2" || p.GetPlacement() != nil {
		t.Errorf("of the same content: %v", p)
	}
	for _, c := range []struct {
		what    string
		change  func(*ohmv1.JobSpec)
		changes string
		want    string
	}{
		{"a label", func(s *ohmv1.JobSpec) { s.Labels = map[string]string{"a": "b"} }, "labels.a:>b", "main stay 0-2"},
		{"more", func(s *ohmv1.JobSpec) { s.Groups[0].Count = 5 }, "groups[main].count:3>5", "main stay 0-2; main start 3-4 count from 3 to 5"},
		{"fewer", func(s *ohmv1.JobSpec) { s.Groups[0].Count = 1 }, "groups[main].count:3>1", "main stay 0; main stop 1-2 count from 3 to 1"},
		{"a variable and more", func(s *ohmv1.JobSpec) { s.Groups[0].Count, s.Groups[0].Env = 4, map[string]string{"A": "1"} },
			"groups[main].count:3>4 groups[main].env.A:>1", "main update 0-2 changed: env; main start 3 count from 3 to 4"},
		{"another group", func(s *ohmv1.JobSpec) { s.Groups[0].Name = "other" },
			"", "other start 0-2 the group is new; main stop 0-2 the group is gone"},
	} {
		changed := proto.CloneOf(given)
		c.change(changed)
		p := w.plan(changed).GetJobs()[0]
		var changes []string
		for _, x := range p.GetChanges() {
			changes = append(changes, x.GetField()+":"+x.GetWas()+">"+x.GetIs())
		}
		if got := strings.Join(changes, " "); c.changes != "" && got != c.changes {
			t.Errorf("%s: changes %s; want %s", c.what, got, c.changes)
		}
		if got := effects(p); got != c.want {
			t.Errorf("%s: %s; want %s", c.what, got, c.want)
		}
	}
	if _, err := w.jobs.Scale(w.ctx, &ohmv1.ScaleRequest{Job: "web", Count: 7}); err != nil {
		t.Fatal(err)
	}
	given.Groups[0].Env = map[string]string{"A": "1"}
	if p := w.plan(given).GetJobs()[0]; len(p.GetScaled()) != 1 || p.Scaled[0].GetCount() != 7 || p.Scaled[0].GetFileCount() != 3 || len(p.GetChanges()) != 1 {
		t.Errorf("scaled: %v", p)
	}
	bad := proto.CloneOf(given)
	bad.Kind, bad.Scheduler, bad.Update = "batch", "batch", nil
	_, err := w.insight.Plan(w.ctx, &ohmv1.PlanRequest{Jobs: []*ohmv1.JobSpec{bad}})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = w.insight.Plan(w.ctx, &ohmv1.PlanRequest{})
	wantCode(t, err, codes.InvalidArgument)
}

func effects(p *ohmv1.JobPlan) string {
	var all []string
	for _, e := range p.GetEffects() {
		all = append(all, strings.TrimSpace(strings.Join([]string{e.GetGroup(), e.GetAction(), e.GetIndexes(), e.GetWhy()}, " ")))
	}
	return strings.Join(all, "; ")
}

// An apply with a token does what was planned or nothing, and says what has moved. Without one it
// leaves what is there with the same content, also where that has ended by itself: field case 82.
func TestApply(t *testing.T) {
	w := serve(t, nil)
	web, sum := spec(celltest.Job{Name: "web", Kind: "service", Count: 2}), spec(celltest.Job{Name: "sum"})
	var token string
	planned := func() { token = w.plan(web).GetToken() }
	apply := func(id string, specs ...*ohmv1.JobSpec) (*ohmv1.SubmitResponse, error) {
		return w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: specs, RequestId: id, Apply: true, Token: token})
	}
	refused := func(want string, specs ...*ohmv1.JobSpec) {
		t.Helper()
		before := w.cell.Snapshot()
		if _, err := apply("", specs...); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want that %s", err, want)
		}
		if diff := celltest.Differ(w.cell.Snapshot(), before); len(diff) > 0 {
			t.Errorf("refused, and changed: %v", diff)
		}
	}
	applied := func(id string, version int64, unchanged bool, specs ...*ohmv1.JobSpec) {
		t.Helper()
		resp, err := apply(id, specs...)
		if err != nil {
			t.Errorf("%v", err)
		} else if j := resp.GetJobs()[0]; j.GetVersion() != version || j.GetUnchanged() != unchanged {
			t.Errorf("applied: %v; want version %d, unchanged %v", j, version, unchanged)
		}
	}
	planned()
	refused("not for job default/sum", sum)
	refused("for 1 job, and this is for 2", web, sum)
	other := proto.CloneOf(web)
	other.Labels = map[string]string{"a": "b"}
	refused("content of job default/web", other)
	applied("r1", 1, false, web)
	applied("r1", 1, true, web) // its reply was lost
	web = other
	planned()
	if _, err := w.jobs.Scale(w.ctx, &ohmv1.ScaleRequest{Job: "web", Count: 7}); err != nil {
		t.Fatal(err)
	}
	w.seen()
	refused("it was version 1, and is version 2", web)
	planned()
	if _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"web"}}); err != nil {
		t.Fatal(err)
	}
	refused("it has been stopped", web)
	planned()
	applied("", 3, false, web)
	token = "nonsense"
	_, err := apply("", web)
	wantCode(t, err, codes.InvalidArgument)

	token = ""
	applied("", 1, false, sum)
	applied("", 1, true, sum)
	done := func() {
		w.cell.Mark(celltest.Name("sum"), func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Succeeded"} })
		w.seen()
	}
	done()
	applied("", 1, true, sum)
	if p := w.plan(sum).GetJobs()[0]; !p.GetUnchanged() || p.GetWasState() != "Succeeded" || len(p.GetEffects()) > 0 {
		t.Errorf("a plan of what has ended: %v", p)
	}
	again := proto.CloneOf(sum)
	again.Retries = 1
	applied("", 2, false, again)
	done()
	if resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{again}}); err != nil || resp.GetJobs()[0].GetVersion() != 3 {
		t.Errorf("a run of what has ended: %v, %v", resp, err)
	}
}
