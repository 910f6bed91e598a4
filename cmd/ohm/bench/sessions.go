package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// sessions are nodes' sessions with a server, held by the bench: they read assignments,
// start nothing and report nothing.
type sessions struct {
	n     int
	lag   clock
	beats atomic.Int64 // sent
	every atomic.Int64 // nanoseconds between two heartbeats of a session
	from  int64        // beats before the window

	mu      sync.Mutex
	durable map[string]time.Time // by assignment: when its placement was seen, until the message comes
	early   map[string]bool      // the message came before
}

const (
	connections = 8                // that share the sessions
	quiet       = 10 * time.Second // between two heartbeats, as a server asks for by default
	frequent    = time.Second
)

func newSessions(n int, w *world) *sessions {
	s := &sessions{n: n, durable: map[string]time.Time{}, early: map[string]bool{}}
	s.every.Store(int64(quiet))
	w.placing = append(w.placing, s.see)
	return s
}

func (s *sessions) begin() {
	s.lag.begin()
	s.from = s.beats.Load()
}

// sent is how many heartbeats were sent since begin.
func (s *sessions) sent() int64 { return s.beats.Load() - s.from }

func (s *sessions) see(p *ohmv1.Placement, at time.Time) {
	id := cellstate.TaskID(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early[id] {
		delete(s.early, id)
		s.lag.add(0)
		return
	}
	s.durable[id] = at
}

func (s *sessions) told(all []*ohmv1.Assignment, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		seen, ok := s.durable[a.GetId()]
		if !ok {
			s.early[a.GetId()] = true
			continue
		}
		delete(s.durable, a.GetId())
		s.lag.add(at.Sub(seen))
	}
}

// run holds the sessions until ctx ends.
func (s *sessions) run(ctx context.Context, address string) error {
	g, ctx := errgroup.WithContext(ctx)
	for first := range connections {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		var streams []ohmv1.Nodes_SessionClient
		for i := first; i < s.n; i += connections {
			stream, err := ohmv1.NewNodesClient(conn).Session(ctx)
			if err != nil {
				return err
			}
			hello := &ohmv1.Hello{Node: facts(i), Session: fmt.Sprintf("bench-%d", i)}
			if err := stream.Send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Hello{Hello: hello}}); err != nil {
				return err
			}
			streams = append(streams, stream)
			g.Go(func() error { return s.read(ctx, stream) })
		}
		g.Go(func() error { return s.beat(ctx, streams) })
	}
	return g.Wait()
}

func (s *sessions) read(ctx context.Context, stream ohmv1.Nodes_SessionClient) error {
	for {
		m, err := stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("a session ended: %w", err)
		}
		now := time.Now()
		s.told(m.GetComplete().GetAssignments(), now)
		s.told(m.GetIncremental().GetAssignments(), now)
	}
}

// beat sends heartbeats for some sessions, spread over the time between two of one.
func (s *sessions) beat(ctx context.Context, streams []ohmv1.Nodes_SessionClient) error {
	const slice = 20 * time.Millisecond
	owed := 0.0
	for next, last := 0, time.Now(); len(streams) > 0 && sleep(ctx, slice) == nil; {
		now := time.Now()
		owed += float64(len(streams)) * float64(now.Sub(last)) / float64(s.every.Load())
		for last = now; owed >= 1; owed-- {
			if err := streams[next].Send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Heartbeat{Heartbeat: &ohmv1.Heartbeat{}}}); err != nil {
				return nil // read says why
			}
			s.beats.Add(1)
			next = (next + 1) % len(streams)
		}
	}
	return nil
}
