package server_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/cellstate/server"
	"github.com/ohmcell/ohm/pkg/ability"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test.
const patience = time.Minute

// world is a served cell on a store in memory.
type world struct {
	t       *testing.T
	store   *memstore.Store
	cell    *celltest.Cell
	mirror  *mirror.Mirror
	server  *server.Server
	jobs    ohmv1.JobsClient
	nodes   ohmv1.NodesClient
	info    ohmv1.CellClient
	insight ohmv1.InsightClient
	ctx     context.Context
	restart func() // ends the server; the world is over
}

type setting func(*server.Config)

// serve serves a cell; where store is nil, on a fresh one.
func serve(t *testing.T, store *memstore.Store, settings ...setting) *world {
	t.Helper()
	if store == nil {
		store = memstore.New()
	}
	log := zap.NewNop()
	w := &world{t: t, store: store, cell: celltest.New(t, store)}
	cfg := server.Config{Store: store, Cell: "test", Name: "s1", Version: "v0", Log: log}
	for _, s := range settings {
		s(&cfg)
	}
	w.mirror = mirror.New(cfg.Store, log)
	cfg.Mirror = w.mirror
	w.server = server.New(cfg)
	g := grpc.NewServer(w.server.Options()...)
	w.server.Register(g)
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var running sync.WaitGroup
	running.Go(func() { _ = w.mirror.Run(ctx) })
	running.Go(func() { _ = g.Serve(listener) })
	serving, stop := context.WithCancel(ctx)
	var served sync.WaitGroup
	served.Go(func() { _ = w.server.Run(serving) })
	conn, err := grpc.NewClient("passthrough:///cell", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	w.ctx = ctx
	w.jobs, w.nodes = ohmv1.NewJobsClient(conn), ohmv1.NewNodesClient(conn)
	w.info, w.insight = ohmv1.NewCellClient(conn), ohmv1.NewInsightClient(conn)
	w.restart = sync.OnceFunc(func() {
		stop()
		served.Wait()
		g.Stop()
		_ = conn.Close()
		cancel()
		running.Wait()
	})
	t.Cleanup(w.restart)
	w.until("built-in schedulers", func(s *cellstate.Snapshot) bool { return s.Scheduler("system") != nil })
	return w
}

// until waits for a snapshot of which is holds, and returns it.
func (w *world) until(what string, is func(*cellstate.Snapshot) bool) *cellstate.Snapshot {
	w.t.Helper()
	limit := time.After(patience)
	for {
		s, newer := w.mirror.Watch()
		if s != nil && is(s) {
			return s
		}
		select {
		case <-newer:
		case <-limit:
			w.t.Fatalf("still waiting for: %s", what)
		}
	}
}

// seen is the mirror's snapshot, once it shows all that has been written so far.
func (w *world) seen() *cellstate.Snapshot {
	w.t.Helper()
	s, err := w.mirror.WaitSnapshot(w.ctx, w.cell.Snapshot().Revision())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) submit(j celltest.Job) *ohmv1.Submitted {
	w.t.Helper()
	resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec(j)}})
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.GetJobs()[0]
}

// spec is a job that a client may submit.
func spec(j celltest.Job) *ohmv1.JobSpec {
	if j.CPU == 0 {
		j.CPU = 100
	}
	if j.Memory == 0 {
		j.Memory = 1 << 20
	}
	s := j.Proto()
	if s.Kind != "ml" {
		s.Gang = nil
	}
	return s
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("code %v (%v), want %v", got, err, want)
	}
}

// agent is a node's agent that does what the test says.
type agent struct {
	w      *world
	node   string
	stream grpc.BidiStreamingClient[ohmv1.AgentMessage, ohmv1.ServerMessage]
	cancel context.CancelFunc

	revision int64 // of the last message about the desired state
	want     map[string]*ohmv1.Assignment
	logs     []*ohmv1.LogRequest
	unknown  bool // one of them is of a task that it had not been told of
	execs    []*ohmv1.ExecRequest
}

// attach opens a session and waits for Complete.
func (w *world) attach(node, session string) *agent {
	w.t.Helper()
	a := w.open(node, session)
	a.until("complete", func() bool { return a.want != nil })
	return a
}

func (w *world) open(node, session string) *agent {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	w.t.Cleanup(cancel)
	stream, err := w.nodes.Session(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	a := &agent{w: w, node: node, stream: stream, cancel: cancel}
	facts := celltest.Node{Name: node, GPUs: 2, Ports: [2]int32{20000, 20099}}.Proto()
	facts.Capabilities = []string{ability.HostRoot, ability.Image, ability.Registry, ability.Containers, ability.User, ability.Mount, ability.CPUMax, ability.Pids}
	a.send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Hello{Hello: &ohmv1.Hello{Node: facts, Session: session}}})
	return a
}

func (a *agent) send(m *ohmv1.AgentMessage) {
	a.w.t.Helper()
	if err := a.stream.Send(m); err != nil {
		a.w.t.Fatal(err)
	}
}

// next takes in one message; an error is the end of the session.
func (a *agent) next() error {
	a.w.t.Helper()
	m, err := a.stream.Recv()
	if err != nil {
		return err
	}
	switch m := m.GetMessage().(type) {
	case *ohmv1.ServerMessage_Complete:
		if a.want != nil {
			a.w.t.Fatal("complete was sent twice")
		}
		a.want = map[string]*ohmv1.Assignment{}
		a.take(m.Complete.GetAssignments(), nil)
		a.revision = m.Complete.GetRevision()
	case *ohmv1.ServerMessage_Incremental:
		if m.Incremental.GetFromRevision() != a.revision {
			a.w.t.Fatalf("a message was lost: the last was of %d, this one follows %d", a.revision, m.Incremental.GetFromRevision())
		}
		a.take(m.Incremental.GetAssignments(), m.Incremental.GetRemoved())
		a.revision = m.Incremental.GetRevision()
	case *ohmv1.ServerMessage_Logs:
		a.unknown = a.unknown || a.want[m.Logs.GetTaskId()] == nil
		a.logs = append(a.logs, m.Logs)
	case *ohmv1.ServerMessage_Exec:
		a.execs = append(a.execs, m.Exec)
	}
	return nil
}

func (a *agent) take(assignments []*ohmv1.Assignment, removed []string) {
	for _, one := range assignments {
		a.want[one.GetId()] = one
	}
	for _, id := range removed {
		delete(a.want, id)
	}
}

// until takes in messages until is holds. The world's context bounds it.
func (a *agent) until(what string, is func() bool) {
	a.w.t.Helper()
	for !is() {
		if err := a.next(); err != nil {
			a.w.t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// ended takes in messages until the session ends, and returns why.
func (a *agent) ended() error {
	for {
		if err := a.next(); err != nil {
			return err
		}
	}
}

// assignment is the one for a task such as a/main/0; nil if there is none.
func (a *agent) assignment(taskName string) *ohmv1.Assignment {
	for _, one := range a.want {
		if cellstate.SlotOf(one.GetPlacement().GetSlot()).Task() == taskName {
			return one
		}
	}
	return nil
}

func (a *agent) report(statuses ...*ohmv1.Status) {
	a.w.t.Helper()
	a.send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Statuses{Statuses: &ohmv1.StatusBatch{Statuses: statuses}}})
}

// state is a report about an assignment.
func state(a *ohmv1.Assignment, s task.State) *ohmv1.Status {
	p := a.GetPlacement()
	st := &ohmv1.Status{Slot: p.GetSlot(), Attempt: p.GetAttempt(), Txn: p.GetTxn(), Node: p.GetNode(), State: s}
	switch s {
	case task.Succeeded, task.Failed:
		st.Cause = task.Exited
	case task.Stopped:
		st.Cause = task.Stop
	}
	if s == task.Failed {
		st.ExitCode = 1
	}
	return st
}

func taskRow(s *cellstate.Snapshot, job string, index int) *cellstate.Task {
	j := s.Job(celltest.Name(job))
	if j == nil {
		return nil
	}
	return j.Task(celltest.Slot(s, j.Name, "main", index))
}

func names(n int, form string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(form, i))
	}
	return out
}
