package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestWatchEndsWithTheJob(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	w.submit(celltest.Job{Name: "a"})
	stream, err := w.jobs.Watch(w.ctx, &ohmv1.GetJobRequest{Job: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	step := map[string]func(){
		"Pending 1 waiting": func() { w.cell.Place("a", 0, "n1") },
		"Pending 1 starting": func() {
			w.cell.Status(celltest.Slot(w.cell.Snapshot(), celltest.Name("a"), "main", 0), task.Running)
		},
		"Running 1 running": func() {
			w.cell.Release(celltest.Slot(w.cell.Snapshot(), celltest.Name("a"), "main", 0), task.Succeeded)
		},
	}
	for {
		status, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		g := status.GetGroups()[0]
		text := fmt.Sprintf("%s %s", status.GetState(), map[bool]string{
			g.GetWaiting() == 1: "1 waiting", g.GetStarting() == 1: "1 starting", g.GetRunning() == 1: "1 running", g.GetSucceeded() == 1: "1 succeeded",
		}[true])
		states = append(states, text)
		if next := step[text]; next != nil {
			next()
			delete(step, text)
		}
	}
	if got := strings.Join(states, ", "); got != "Pending 1 waiting, Pending 1 starting, Running 1 running, Succeeded 1 succeeded" {
		t.Fatalf("watched: %s", got)
	}
	stream, err = w.jobs.Watch(w.ctx, &ohmv1.GetJobRequest{Job: "b"})
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.NotFound)
}

// A task that has a node and may not start there yet says why, wherever people look.
func TestHeldBackOnItsNode(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	w.cell.Put(cellstate.Record{Key: cellstate.AliveKey("n1"), Value: &ohmv1.Alive{Node: "n1"}})
	w.submit(celltest.Job{Name: "a"})
	p := w.cell.Place("a", 0, "n1")
	held := celltest.StatusOf(p, task.Assigned)
	held.Message = "waits until b has stopped"
	w.cell.Put(cellstate.Record{Key: p.Slot.StatusKey(), Value: held})
	w.seen()
	got, err := w.insight.Explain(w.ctx, &ohmv1.GetJobRequest{Job: "a"})
	if want := "1 task starting; a/main/0 on node n1 waits until b has stopped"; err != nil || got.GetMessage() != want {
		t.Errorf("explain: %q, %v; want %q", got.GetMessage(), err, want)
	}
	list, err := w.jobs.ListTasks(w.ctx, &ohmv1.ListTasksRequest{Job: "a"})
	if err != nil || list.GetTasks()[0].GetState() != "Assigned" || list.GetTasks()[0].GetMessage() != held.Message {
		t.Errorf("tasks: %v, %v", list, err)
	}
}

// A job that says nothing of its precedence gets its kind's; 0 is free.
func TestPrecedenceOfAClientThatGivesNone(t *testing.T) {
	w := serve(t, nil)
	for name, want := range map[string]int32{"service": 200, "batch": 100, "free": 0} {
		s := spec(celltest.Job{Name: name, Kind: name})
		s.Precedence = nil
		if name == "free" {
			s.Kind, s.Scheduler, s.Precedence = "batch", "batch", proto.Int32(0)
		}
		if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{s}}); err != nil {
			t.Fatal(err)
		}
		if got := w.cell.Snapshot().Job(celltest.Name(name)).Record.GetSpec(); got.Precedence == nil || got.GetPrecedence() != want {
			t.Errorf("%s: precedence %v is stored, want %d", name, got.Precedence, want)
		}
	}
}

func TestListTasks(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	w.cell.Node(celltest.Node{Name: "n2"})
	w.submit(celltest.Job{Name: "a", Count: 2, Retries: 1})
	p := w.cell.Place("a", 0, "n1")
	w.cell.Release(p.Slot, task.Failed)
	w.cell.Place("a", 0, "n2")
	w.seen()
	for _, c := range []struct {
		req  *ohmv1.ListTasksRequest
		want string
	}{
		{&ohmv1.ListTasksRequest{Job: "a"}, "a/main/0#2 Assigned n2; a/main/1#0 Pending "},
		{&ohmv1.ListTasksRequest{Job: "a", Attempts: true}, "a/main/0#1 Failed n1; a/main/0#2 Assigned n2; a/main/1#0 Pending "},
		{&ohmv1.ListTasksRequest{Node: "n2"}, "a/main/0#2 Assigned n2"},
	} {
		resp, err := w.jobs.ListTasks(w.ctx, c.req)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range resp.GetTasks() {
			got = append(got, fmt.Sprintf("%s#%d %s %s", v.GetTask(), v.GetAttempt(), v.GetState(), v.GetNode()))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%v: %s, want %s", c.req, text, c.want)
		}
	}
	_, err := w.jobs.ListTasks(w.ctx, &ohmv1.ListTasksRequest{Job: "b"})
	wantCode(t, err, codes.NotFound)
	_, err = w.jobs.ListTasks(w.ctx, &ohmv1.ListTasksRequest{Node: "n3"})
	wantCode(t, err, codes.NotFound)
}

func readLog(w *world, req *ohmv1.LogsRequest) (string, error) {
	stream, err := w.jobs.Logs(w.ctx, req)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return text.String(), err
		}
		text.Write(chunk.GetData())
	}
}

func TestLogs(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a", Count: 2, Retries: 1})
	first := w.cell.Place("a", 0, "n1")
	w.cell.Release(first.Slot, task.Failed)
	second := w.cell.Place("a", 0, "n1")
	w.seen()

	type answer struct {
		text string
		err  error
	}
	ask := func(req *ohmv1.LogsRequest) (<-chan answer, *ohmv1.LogRequest) {
		t.Helper()
		answers, n := make(chan answer, 1), len(a.logs)
		go func() {
			text, err := readLog(w, req)
			answers <- answer{text, err}
		}()
		a.until("log request", func() bool { return len(a.logs) > n })
		return answers, a.logs[n]
	}
	push := func(chunks ...*ohmv1.LogChunk) {
		t.Helper()
		stream, err := w.nodes.PushLogs(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range chunks {
			if err := stream.Send(c); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := stream.CloseAndRecv(); err != nil {
			t.Fatal(err)
		}
	}

	answers, req := ask(&ohmv1.LogsRequest{Job: "a", Index: 0, Stream: "stdout"})
	if req.GetTaskId() != second.TaskID() || req.GetStream() != "stdout" {
		t.Fatalf("the agent was asked for %v", req)
	}
	push(&ohmv1.LogChunk{Id: req.GetId(), Data: []byte("one ")}, &ohmv1.LogChunk{Data: []byte("two")})
	if got := <-answers; got.text != "one two" || got.err != nil {
		t.Fatalf("log: %q, %v", got.text, got.err)
	}
	answers, req = ask(&ohmv1.LogsRequest{Job: "a", Index: 0, Attempt: 1})
	if req.GetTaskId() != first.TaskID() {
		t.Fatalf("attempt 1: the agent was asked for %v", req)
	}
	push(&ohmv1.LogChunk{Id: req.GetId()})
	if got := <-answers; got.text != "" || got.err != nil {
		t.Fatalf("empty log: %q, %v", got.text, got.err)
	}
	answers, req = ask(&ohmv1.LogsRequest{Job: "a", Index: 0})
	push(&ohmv1.LogChunk{Id: req.GetId(), Error: "the file is gone"})
	if got := <-answers; got.err == nil || !strings.Contains(got.err.Error(), "the file is gone") {
		t.Fatalf("log that could not be read: %v", got.err)
	}
	for _, c := range []struct {
		req  *ohmv1.LogsRequest
		code codes.Code
		says string
	}{
		{&ohmv1.LogsRequest{Job: "b"}, codes.NotFound, "job default/b"},
		{&ohmv1.LogsRequest{Job: "a", Group: "other"}, codes.NotFound, "it has main"},
		{&ohmv1.LogsRequest{Job: "a", Index: 2}, codes.NotFound, "it has tasks 0 to 1"},
		{&ohmv1.LogsRequest{Job: "a", Index: 0, Attempt: 9}, codes.NotFound, "no attempt 9"},
		{&ohmv1.LogsRequest{Job: "a", AnyIndex: true}, codes.InvalidArgument, "a/main/INDEX"},
		{&ohmv1.LogsRequest{Job: "a", Stream: "log"}, codes.InvalidArgument, "log"},
		{&ohmv1.LogsRequest{Job: "a", Index: 1}, codes.FailedPrecondition, ""},
	} {
		_, err := readLog(w, c.req)
		if err == nil {
			t.Errorf("%v: no error", c.req)
			continue
		}
		wantCode(t, err, c.code)
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v does not say %q", c.req, err, c.says)
		}
	}

	a.cancel()
	w.until("detached", func(s *cellstate.Snapshot) bool { return s.Node("n1").Alive == nil })
	_, err := readLog(w, &ohmv1.LogsRequest{Job: "a", Index: 0})
	wantCode(t, err, codes.Unavailable)
	if !strings.Contains(err.Error(), "node n1, whose agent has no session") {
		t.Errorf("%v does not say where the log is", err)
	}
}

func TestFollowWaitsForANode(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a"})
	stream, err := w.jobs.Logs(w.ctx, &ohmv1.LogsRequest{Job: "a", AnyIndex: true, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	w.cell.Place("a", 0, "n1")
	a.until("log request", func() bool { return len(a.logs) > 0 })
	push, err := w.nodes.PushLogs(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := push.Send(&ohmv1.LogChunk{Id: a.logs[0].GetId(), Stream: "stderr", Data: []byte("hi")}); err != nil {
		t.Fatal(err)
	}
	chunk, err := stream.Recv()
	if err != nil || string(chunk.GetData()) != "hi" || chunk.GetStream() != "stderr" {
		t.Fatalf("%v, %v", chunk, err)
	}
}

func TestNodes(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a", CPU: 1000, GPUs: 1, Share: 300})
	w.cell.Place("a", 0, "n1")
	w.seen()
	view := func() *ohmv1.NodeView {
		t.Helper()
		v, err := w.nodes.Get(w.ctx, &ohmv1.GetNodeRequest{Node: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	got := view()
	if got.GetState() != "Ready" || got.GetUsed().GetCpuMilli() != 1000 || got.GetTasks() != 1 || got.GetServer() != "s1" ||
		len(got.GetGpus()) != 2 || got.GetGpus()[0].GetUsedMilli() != 300 || got.GetOverCommitted() {
		t.Fatalf("view: %v", got)
	}
	yes, no := true, false
	set := func(req *ohmv1.SetIntentRequest) *ohmv1.NodeView {
		t.Helper()
		req.Node = "n1"
		v, err := w.nodes.SetIntent(w.ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	stale := w.cell.Snapshot()
	if v := set(&ohmv1.SetIntentRequest{Labels: map[string]string{"zone": "a"}, Ineligible: &yes}); v.GetState() != "Ineligible" || v.GetLabels()["zone"] != "a" {
		t.Fatalf("ineligible: %v", v)
	}
	if got := w.cell.Snapshot().Node("n1"); got.Fence == stale.Node("n1").Fence || got.Fence != w.seen().Node("n1").Fence {
		t.Fatal("an intent did not bump the node's fence, or the mirror lost it")
	}
	if v := set(&ohmv1.SetIntentRequest{Drain: &yes}); v.GetState() != "Draining" || v.GetLabels()["zone"] != "a" {
		t.Fatalf("drain: %v", v)
	}
	a.until("drain", func() bool { return a.assignment("a/main/0").GetStopCause() == task.Drained })
	a.report(state(a.assignment("a/main/0"), task.Stopped))
	a.until("removal", func() bool { return len(a.want) == 0 })
	if v := view(); v.GetState() != "Drained" || v.GetTasks() != 0 {
		t.Fatalf("drained: %v", v)
	}
	if v := set(&ohmv1.SetIntentRequest{Drain: &no, Ineligible: &no, RemoveLabels: []string{"zone"}}); v.GetState() != "Ready" || len(v.GetLabels()) != 0 {
		t.Fatalf("back: %v", v)
	}
	a.cancel()
	w.until("detached", func(s *cellstate.Snapshot) bool { return s.Node("n1").Alive == nil })
	if v := view(); v.GetState() != "Lost" {
		t.Fatalf("without a session: %v", v)
	}
	_, err := w.nodes.SetIntent(w.ctx, &ohmv1.SetIntentRequest{Node: "n2", Drain: &yes})
	wantCode(t, err, codes.NotFound)
	_, err = w.nodes.SetIntent(w.ctx, &ohmv1.SetIntentRequest{Node: "n1", Labels: map[string]string{"a b": "c"}})
	wantCode(t, err, codes.InvalidArgument)
}

func TestShrunkNodeIsMarked(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1", CPU: 4000})
	w.submit(celltest.Job{Name: "a", CPU: 3000})
	w.cell.Place("a", 0, "n1")
	w.cell.Node(celltest.Node{Name: "n1", CPU: 2000})
	w.seen()
	if v, err := w.nodes.Get(w.ctx, &ohmv1.GetNodeRequest{Node: "n1"}); err != nil || !v.GetOverCommitted() {
		t.Fatalf("%v, %v", v, err)
	}
}

func TestInsight(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	w.submit(celltest.Job{Name: "a", Retries: 3})
	p := w.cell.Place("a", 0, "n1")
	w.cell.Release(p.Slot, task.Failed)
	live := w.cell.Place("a", 0, "n1")
	at := timestamppb.Now()
	for i, scheduler := range []string{"batch", "service", "batch"} {
		id := fmt.Sprintf("%03d", i)
		w.cell.Put(cellstate.Record{Key: cellstate.ConflictKey(scheduler, id), Value: &ohmv1.Conflict{
			Id: id, Time: &timestamppb.Timestamp{Seconds: at.Seconds + int64(i)}, Scheduler: scheduler, Txn: "lost" + id,
			Slot: p.GetSlot(), Node: "n1", Reason: "Resources", Dimension: "cpu",
			Winner: &ohmv1.Party{Scheduler: "ml", Txn: "won", Slot: &ohmv1.Slot{Namespace: "default", Job: "w", Group: "main"}},
		}})
	}
	w.cell.Put(cellstate.Record{Key: cellstate.WaitingKey(celltest.Name("a")), Value: &ohmv1.Waiting{
		Namespace: "default", Job: "a", JobVersion: 1, Scheduler: "batch", SnapshotRevision: 7, Groups: []*ohmv1.GroupWaiting{{Group: "main", Waiting: 1}},
	}})
	w.seen()

	explained, err := w.insight.Explain(w.ctx, &ohmv1.GetJobRequest{Job: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if explained.GetState() != "Pending" || explained.GetMessage() == "" || explained.GetSnapshotRevision() != 7 || len(explained.GetGroups()) != 1 ||
		len(explained.GetConflicts()) != 3 || len(explained.GetTasks()) != 1 || explained.GetTasks()[0].GetAttempt() != 1 {
		t.Errorf("explain: %v", explained)
	}

	list := func(req *ohmv1.ListConflictsRequest) string {
		t.Helper()
		resp, err := w.insight.ListConflicts(w.ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range resp.GetConflicts() {
			got = append(got, c.GetTransaction())
		}
		return strings.Join(got, " ")
	}
	for _, c := range []struct {
		req  *ohmv1.ListConflictsRequest
		want string
	}{
		{&ohmv1.ListConflictsRequest{}, "lost002 lost001 lost000"},
		{&ohmv1.ListConflictsRequest{Limit: 1}, "lost002"},
		{&ohmv1.ListConflictsRequest{Scheduler: "service"}, "lost001"},
		{&ohmv1.ListConflictsRequest{Scheduler: "serv"}, ""},
		{&ohmv1.ListConflictsRequest{Job: "b"}, ""},
		{&ohmv1.ListConflictsRequest{Node: "n1", Namespace: "default", Job: "a"}, "lost002 lost001 lost000"},
	} {
		if got := list(c.req); got != c.want {
			t.Errorf("%v: %q, want %q", c.req, got, c.want)
		}
	}

	for txn, want := range map[string]string{
		p.GetTxn():    "Failed",
		live.GetTxn(): "Assigned",
	} {
		v, err := w.insight.GetTxn(w.ctx, &ohmv1.GetTxnRequest{Transaction: txn})
		if err != nil || len(v.GetCommitted()) != 1 || v.GetCommitted()[0].GetState() != want || v.GetMode() != "incremental" {
			t.Errorf("transaction %s: %v, %v; want %s", txn, v, err, want)
		}
	}
	if v, err := w.insight.GetTxn(w.ctx, &ohmv1.GetTxnRequest{Transaction: "lost001"}); err != nil || len(v.GetRefused()) != 1 || v.GetScheduler() != "service" {
		t.Errorf("refused transaction: %v, %v", v, err)
	}
	_, err = w.insight.GetTxn(w.ctx, &ohmv1.GetTxnRequest{Transaction: "none"})
	wantCode(t, err, codes.NotFound)
}

func TestAudit(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	w.submit(celltest.Job{Name: "a", Count: 2})
	p := w.cell.Place("a", 0, "n1")
	report, err := w.insight.Audit(w.ctx, &ohmv1.AuditRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if report.GetToRevision() < int64(p.Revision) || report.GetPlacements() != 1 || report.GetTransactions() != 1 || len(report.GetViolations()) != 0 {
		t.Fatalf("report: %v", report)
	}
	// A record that breaks a promise, as only a broken store or a foreign hand could write it.
	forged := proto.CloneOf(p.Record())
	forged.Slot.Index, forged.Txn, forged.Resources = 1, "forged", &ohmv1.Resources{CpuMilli: 1 << 30}
	b, err := proto.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.PutRaw(w.ctx, cellstate.SlotOf(forged.GetSlot()).PlacementKey(), b); err != nil {
		t.Fatal(err)
	}
	if report, err = w.insight.Audit(w.ctx, &ohmv1.AuditRequest{}); err != nil || len(report.GetViolations()) == 0 {
		t.Fatalf("report on a forged placement: %v, %v", report, err)
	}
}

// When the reader of a log goes, so does the agent's stream, though the task says nothing.
func TestUnwantedLogEnds(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a"})
	w.cell.Place("a", 0, "n1")
	w.seen()
	ctx, leave := context.WithCancel(w.ctx)
	defer leave()
	stream, err := w.jobs.Logs(ctx, &ohmv1.LogsRequest{Job: "a", AnyIndex: true, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	a.until("log request", func() bool { return len(a.logs) > 0 })
	push, err := w.nodes.PushLogs(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := push.Send(&ohmv1.LogChunk{Id: a.logs[0].GetId(), Data: []byte("hi")}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	leave()
	wantCode(t, push.RecvMsg(&ohmv1.PushLogsResponse{}), codes.NotFound)
}
