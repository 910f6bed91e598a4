package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is the control plane as the agent sees it.
type server struct {
	ohmv1.UnimplementedNodesServer
	conn *grpc.ClientConn

	mu       sync.Mutex
	sessions []*session
	pushes   []*pushed
	away     bool // refuses sessions
	typed    []*ohmv1.ExecInput
	said     string // by programs
	end      *ohmv1.ExecEnd
	deaf     bool // ends a push of logs after its first bytes
}

// session is one session as the server sees it.
type session struct {
	s        *server
	hello    *ohmv1.Hello
	out      chan *ohmv1.ServerMessage
	end      chan struct{}
	statuses []*ohmv1.Status
	batches  int
	usage    *ohmv1.UsageReport // the newest
	beats    []time.Time
	facts    []*ohmv1.Node // after those of hello
	over     bool
}

// pushed is one push of logs.
type pushed struct {
	id, err string
	text    map[string]string
	chunks  []string // by stream
	at      map[string]int64
	dropped map[string]int64
	gone    bool
	expired time.Time
	over    bool
}

func (s *server) Session(stream ohmv1.Nodes_SessionServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.away {
		s.mu.Unlock()
		return fmt.Errorf("away")
	}
	x := &session{s: s, hello: first.GetHello(), out: make(chan *ohmv1.ServerMessage, 100), end: make(chan struct{})}
	s.sessions = append(s.sessions, x)
	s.mu.Unlock()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			m, err := stream.Recv()
			s.mu.Lock()
			switch {
			case err != nil:
				x.over = true
			case m.GetStatuses() != nil:
				x.statuses = append(x.statuses, m.GetStatuses().GetStatuses()...)
				x.batches++
			case m.GetFacts() != nil:
				x.facts = append(x.facts, m.GetFacts())
			case m.GetUsage() != nil:
				x.usage = m.GetUsage()
			case m.GetHeartbeat() != nil:
				x.beats = append(x.beats, time.Now())
			}
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	for {
		select {
		case m := <-x.out:
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-x.end:
			return fmt.Errorf("ended by the test")
		case <-read:
			return nil
		}
	}
}

// PushExec takes in what a program says; it types what the test has given, and goes when the
// program has said "go".
func (s *server) PushExec(stream ohmv1.Nodes_PushExecServer) error {
	s.mu.Lock()
	typed := s.typed
	s.mu.Unlock()
	for _, in := range typed {
		if err := stream.Send(in); err != nil {
			return err
		}
	}
	for {
		out, err := stream.Recv()
		if err != nil {
			return nil
		}
		s.mu.Lock()
		s.said += out.GetId() + string(out.GetStdout()) + string(out.GetStderr())
		if out.GetEnd() != nil {
			s.end = out.GetEnd()
		}
		s.mu.Unlock()
		if string(out.GetStdout()) == "go" || out.GetEnd() != nil {
			return nil
		}
	}
}

func (s *server) PushLogs(stream ohmv1.Nodes_PushLogsServer) error {
	p := &pushed{text: map[string]string{}, at: map[string]int64{}, dropped: map[string]int64{}}
	s.mu.Lock()
	s.pushes = append(s.pushes, p)
	s.mu.Unlock()
	defer s.locked(func() { p.over = true })
	for {
		c, err := stream.Recv()
		if err == io.EOF {
			return stream.SendAndClose(&ohmv1.PushLogsResponse{})
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		if p.id == "" {
			p.id = c.GetId()
		}
		if len(c.GetData()) > 0 {
			p.chunks = append(p.chunks, c.GetStream())
			p.text[c.GetStream()] += string(c.GetData())
		}
		if c.GetStream() != "" {
			p.dropped[c.GetStream()] += c.GetDropped()
			p.at[c.GetStream()] = c.GetOffset() + int64(len(c.GetData()))
		}
		p.err += c.GetError()
		p.gone = p.gone || c.GetGone()
		if c.GetExpired() != nil {
			p.expired = c.GetExpired().AsTime()
		}
		deaf := s.deaf && len(p.chunks) > 0
		s.mu.Unlock()
		if deaf {
			return fmt.Errorf("the reader has gone")
		}
	}
}

func (s *server) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// world is a server, a machine and the agent between them, in a bubble of time.
type world struct {
	t *testing.T
	*server
	m      *machine
	config Config
	agent  *Agent
	stop   func()
	rev    int64 // of the last message to the agent
}

// inWorld runs a test in a bubble; the machine has 4 cores and two GPUs.
func inWorld(t *testing.T, test func(*world)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 16)
		s := &server{}
		g := grpc.NewServer()
		ohmv1.RegisterNodesServer(g, s)
		served := make(chan error, 1)
		go func() { served <- g.Serve(listener) }()
		var err error
		s.conn, err = grpc.NewClient("passthrough:cell", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, server: s, m: newMachine()}
		w.config = Config{
			Node: &ohmv1.Node{
				Name: "n1", BootId: "b", Capacity: &ohmv1.Resources{CpuMilli: 4000, MemoryBytes: 1 << 30},
				Gpus: []*ohmv1.Device{{Id: "g0", Model: "T4"}, {Id: "g1", Model: "T4"}},
			},
			Driver: w.m, Conn: s.conn, Dir: dir, Log: zap.NewNop(),
		}
		defer func() {
			w.halt()
			_ = s.conn.Close()
			g.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			_ = listener.Close()
		}()
		test(w)
	})
}

// start starts an agent that knows nothing of an earlier one but its folder.
func (w *world) start() *world {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.agent = New(w.config)
	ended := make(chan error, 1)
	go func() { ended <- w.agent.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the agent ended: %v", err)
		}
	}
	w.pass(time.Second)
	return w
}

// halt ends the agent and waits for it.
func (w *world) halt() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// pass lets time pass in the bubble.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// session is the newest.
func (w *world) session() *session {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sessions) == 0 {
		w.t.Fatal("no session")
	}
	return w.sessions[len(w.sessions)-1]
}

func (w *world) sessionCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sessions)
}

func (w *world) complete(a ...*ohmv1.Assignment) {
	w.t.Helper()
	w.rev += 10
	w.session().out <- &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Complete{
		Complete: &ohmv1.Complete{Revision: w.rev, Assignments: a}}}
	w.pass(500 * time.Millisecond)
}

func (w *world) incremental(removed []string, a ...*ohmv1.Assignment) {
	w.t.Helper()
	from := w.rev
	w.rev++
	w.session().out <- &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Incremental{
		Incremental: &ohmv1.Incremental{FromRevision: from, Revision: w.rev, Assignments: a, Removed: removed}}}
	w.pass(500 * time.Millisecond)
}

// told gives back what the newest session was told of a task: state and cause.
func (w *world) told(id string) []string {
	w.t.Helper()
	x := w.session()
	w.mu.Lock()
	defer w.mu.Unlock()
	var said []string
	for _, s := range x.statuses {
		if taskID(s) == id {
			text := task.Name(s.GetState())
			if s.GetCause() != "" {
				text += " " + s.GetCause()
			}
			said = append(said, text)
		}
	}
	return said
}

// saw counts the statuses and gives the times of the heartbeats of the newest session.
func (w *world) saw() (statuses int, beats []time.Time) {
	x := w.session()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(x.statuses), slices.Clone(x.beats)
}

// last is the newest status of a task in the newest session.
func (w *world) last(id string) *ohmv1.Status {
	x := w.session()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.Backward(x.statuses) {
		if taskID(s) == id {
			return s
		}
	}
	return nil
}

func taskID(s *ohmv1.Status) string {
	return cellstate.TaskID(&ohmv1.Placement{Slot: s.GetSlot(), Txn: s.GetTxn()})
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}

// assignment of a task that needs so many thousandths of a core.
func assignment(job string, cpu int64, change ...func(*ohmv1.Assignment)) *ohmv1.Assignment {
	p := &ohmv1.Placement{
		Slot:    &ohmv1.Slot{Namespace: "default", Job: job, Group: "main", Version: 1},
		Attempt: 1, Node: "n1", Txn: "t-" + job, Resources: &ohmv1.Resources{CpuMilli: cpu},
	}
	a := &ohmv1.Assignment{
		Placement: p, Command: []string{"sleep", job}, Env: map[string]string{"OHM_JOB": job},
		Stop: &ohmv1.StopPolicy{Signal: "SIGTERM", Grace: durationpb.New(10 * time.Second)},
	}
	for _, c := range change {
		c(a)
	}
	a.Id = cellstate.TaskID(p)
	return a
}

func stopFor(cause string) func(*ohmv1.Assignment) {
	return func(a *ohmv1.Assignment) { a.StopCause = cause }
}

func maxRuntime(d time.Duration) func(*ohmv1.Assignment) {
	return func(a *ohmv1.Assignment) { a.MaxRuntime = durationpb.New(d) }
}
