package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// attachBooted opens a session of a machine that booted under an id.
func (w *world) attachBooted(node, session, boot string) *agent {
	w.t.Helper()
	stream, err := w.nodes.Session(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	a := &agent{w: w, node: node, stream: stream}
	facts := celltest.Node{Name: node}.Proto()
	facts.BootId = boot
	a.send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Hello{Hello: &ohmv1.Hello{Node: facts, Session: session}}})
	a.until("complete", func() bool { return a.want != nil })
	return a
}

// What stood on a machine before it booted is over, and the agent is told so; what is placed
// there afterwards is not, whatever else changes of the node.
func TestBootEndsWhatStoodThere(t *testing.T) {
	w := serve(t, nil)
	w.submit(celltest.Job{Name: "a", Count: 3})
	w.attachBooted("n1", "s1", "boot-1")
	w.seen()
	w.cell.Place("a", 0, "n1")
	a := w.attachBooted("n1", "s2", "boot-1")
	if got := a.assignment("a/main/0").GetStopCause(); got != "" {
		t.Fatalf("after a new session of the same boot the cause is %q", got)
	}
	a = w.attachBooted("n1", "s3", "boot-2")
	old := a.assignment("a/main/0")
	if got := old.GetStopCause(); got != task.NodeLost {
		t.Fatalf("after a boot the cause is %q", got)
	}
	w.seen()
	w.cell.Place("a", 1, "n1")
	a = w.attachBooted("n1", "s4", "boot-2")
	if got := a.assignment("a/main/1").GetStopCause(); got != "" {
		t.Fatalf("of what was placed after the boot the cause is %q", got)
	}
	over := state(old, task.Lost)
	over.Cause = task.NodeLost
	a.report(over)
	s := w.until("the end is stored", func(s *cellstate.Snapshot) bool { return taskRow(s, "a", 0).Placement == nil })
	if j := s.Job(celltest.Name("a")); reconcile.Classify(taskRow(s, "a", 0).Ended[0].GetStatus()) != reconcile.Excused || reconcile.Job(s, j, time.Now()).Done != nil {
		t.Error("a boot spends a retry")
	}
}

// Only a silent node can be called lost, and its next session ends that.
func TestCallingANodeLost(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "s1")
	w.seen()
	call := func() error {
		_, err := w.nodes.SetIntent(w.ctx, &ohmv1.SetIntentRequest{Node: "n1", Lost: proto.Bool(true), Labels: map[string]string{"k": "v"}})
		return err
	}
	wantCode(t, call(), codes.FailedPrecondition)
	a.cancel()
	w.until("the node is silent", func(s *cellstate.Snapshot) bool { return s.Node("n1").Alive == nil })
	if err := call(); err != nil {
		t.Fatal(err)
	}
	if n := w.seen().Node("n1"); !n.Intent.GetLost() {
		t.Fatalf("intent %v", n.Intent)
	}
	w.attach("n1", "s2")
	if n := w.seen().Node("n1"); n.Intent.GetLost() || n.Intent.GetLabels()["k"] != "v" {
		t.Fatalf("after a new session: %v", n.Intent)
	}
}

func TestListSaysThatNothingIsGivenUp(t *testing.T) {
	w := serve(t, nil)
	w.submit(celltest.Job{Name: "a"})
	w.cell.Node(celltest.Node{Name: "n1"})
	w.cell.Place("a", 0, "n1")
	w.cell.Node(celltest.Node{Name: "n2"})
	w.cell.Put(cellstate.Record{Key: cellstate.MetaKey(reconcile.BrakeMeta), Value: &ohmv1.Meta{Value: "two of two"}})
	w.seen()
	list, err := w.nodes.List(w.ctx, &ohmv1.ListNodesRequest{})
	if err != nil || list.GetAlarm() != "two of two" {
		t.Fatalf("alarm %q, %v", list.GetAlarm(), err)
	}
	if got := list.Nodes[0].State + " " + list.Nodes[1].State; got != "Silent Lost" {
		t.Errorf("nodes with and without tasks are %s", got)
	}
	job, err := w.jobs.Get(w.ctx, &ohmv1.GetJobRequest{Job: "a"})
	if want := "1 task on node n1, which is silent: two of two"; err != nil || job.GetStatus().GetMessage() != want {
		t.Errorf("the job says %q, %v; want %q", job.GetStatus().GetMessage(), err, want)
	}
}

// Field case 52: a dry run says for each task what a drain will do, by the rule by which it
// is done, and changes nothing.
func TestPlanDrain(t *testing.T) {
	w := serve(t, nil)
	w.attach("n1", "s1")
	w.attach("n2", "s1")
	w.attach("n3", "s1")
	w.submit(celltest.Job{Name: "web", Kind: "service", Count: 1})
	w.submit(celltest.Job{Name: "sum", Count: 1})
	w.submit(celltest.Job{Name: "big", Count: 1, CPU: 3000})
	w.submit(celltest.Job{Name: "gpu", Count: 1, GPUs: 2})
	w.submit(celltest.Job{Name: "logs", Kind: "system", Precedence: 300})
	w.submit(celltest.Job{Name: "done", Count: 1})
	w.submit(celltest.Job{Name: "db", Kind: "service", Count: 1, Disruption: &ohmv1.Disruption{MaxUnavailable: 1}})
	for _, job := range []string{"web", "sum", "gpu", "logs", "done", "db"} {
		w.cell.Place(job, 0, "n1")
	}
	w.cell.Place("big", 0, "n1")
	w.submit(celltest.Job{Name: "other", CPU: 2000})
	w.cell.Place("other", 0, "n2") // so there is none for big
	w.cell.Put(cellstate.Record{Key: cellstate.IntentKey("n3"), Value: &ohmv1.Intent{Node: "n3", Ineligible: true}})
	w.seen()
	if _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"done"}}); err != nil {
		t.Fatal(err)
	}
	before := w.seen()
	plan := func(within *durationpb.Duration) string {
		t.Helper()
		resp, err := w.nodes.PlanDrain(w.ctx, &ohmv1.PlanDrainRequest{Node: "n1", DrainWithin: within})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, s := range resp.GetSteps() {
			lines = append(lines, fmt.Sprintf("%s %s %s %d", s.GetTask(), s.GetAction(), s.GetNext(), s.GetNodes()))
		}
		return strings.Join(lines, "\n")
	}
	const now = "done/main/0 Stopping None 0\nbig/main/0 Stop Pending 0\ngpu/main/0 Stop Replaced 1\nsum/main/0 Stop Replaced 1\nweb/main/0 Stop Replaced 1\ndb/main/0 InTurn Replaced 1\nlogs/main/0 StopLast None 0"
	if got := plan(nil); got != now {
		t.Errorf("at once:\n%s\nwant\n%s", got, now)
	}
	const later = "done/main/0 Stopping None 0\nweb/main/0 Stop Replaced 1\ndb/main/0 InTurn Replaced 1\nbig/main/0 Wait Pending 0\ngpu/main/0 Wait Replaced 1\nsum/main/0 Wait Replaced 1\nlogs/main/0 StopLast None 0"
	if got := plan(durationpb.New(time.Hour)); got != later {
		t.Errorf("with a deadline:\n%s\nwant\n%s", got, later)
	}
	if after := w.seen(); after.Revision() != before.Revision() {
		t.Error("a dry run has written something")
	}
	_, err := w.nodes.PlanDrain(w.ctx, &ohmv1.PlanDrainRequest{Node: "nowhere"})
	wantCode(t, err, codes.NotFound)
	_, err = w.nodes.PlanDrain(w.ctx, &ohmv1.PlanDrainRequest{Node: "n1", DrainWithin: durationpb.New(-1)})
	wantCode(t, err, codes.InvalidArgument)
	_, err = w.nodes.SetIntent(w.ctx, &ohmv1.SetIntentRequest{Node: "n1", DrainWithin: durationpb.New(1)})
	wantCode(t, err, codes.InvalidArgument)
}
