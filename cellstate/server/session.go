package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/names"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// outbox bounds what waits to be sent to an agent. When it is full nothing is added:
// the next message will hold all that has changed since the last one.
const outbox = 4

// session is one agent's conversation with this server.
type session struct {
	node   cellstate.NodeName
	id     string
	bootID string
	since  time.Time
	ctx    context.Context
	end    context.CancelCauseFunc // with the reason
	left   chan struct{}           // closed when it has written its last
	out    chan *ohmv1.ServerMessage

	ready    atomic.Bool  // its agent may be told
	complete atomic.Bool  // Complete is in the outbox, or was sent
	heard    atomic.Int64 // when the agent was last heard, Unix nanoseconds
	sending  atomic.Int64 // since when a message is being sent; 0: none is
	behind   atomic.Bool  // something to say has found no room in the outbox

	// aliveMu is held while the alive record is written, so that nothing writes it
	// after the session has deleted it.
	aliveMu sync.Mutex
	gone    bool
	lease   cellstate.Lease // that the record was last written under
	alive   atomic.Int64    // revision of the alive record that is ours; 0: there is none
	// incarnation of the store to which the session has been attached; constant once it is ready.
	incarnation string

	told told // owned by the gateway's assign loop
}

// Session is one agent's conversation; see the proto for its rules.
func (n *nodes) Session(stream grpc.BidiStreamingServer[ohmv1.AgentMessage, ohmv1.ServerMessage]) error {
	g := n.gateway
	if err := g.open(); err != nil {
		return err
	}
	defer g.streams.Done()
	hello, err := g.hello(stream)
	if err != nil {
		return err
	}
	s := &session{
		node: cellstate.NodeName(hello.GetNode().GetName()), id: hello.GetSession(), bootID: hello.GetNode().GetBootId(),
		since: time.Now(), left: make(chan struct{}), out: make(chan *ohmv1.ServerMessage, outbox),
	}
	s.ctx, s.end = context.WithCancelCause(stream.Context())
	defer s.end(nil)
	before := g.enter(s)
	defer g.leave(s)
	if before != nil {
		select {
		case <-before.left:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
		s.alive.Store(before.alive.Load()) // if this one fails, it deletes what the other left
	}
	defer g.alive.drop(s)
	if err := g.alive.attach(s, hello); err != nil {
		return cmp.Or(context.Cause(s.ctx), err)
	}
	log := g.log.With(zap.String("node", string(s.node)))
	log.Info("session attached", zap.String("session", s.id))
	if at := s.alive.Load(); hello.GetLastRevision() > at {
		// Its alive record is newer than all that any agent can have acted on.
		log.Warn("the agent has acted on a revision that the store does not have: was the store restored?",
			zap.Int64("revision", hello.GetLastRevision()), zap.Int64("store", at))
	}
	s.heard.Store(time.Now().UnixNano())
	s.out <- &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Timing{Timing: &ohmv1.Timing{
		Heartbeat: durationpb.New(n.cfg.Limits.Silent / 4),
	}}}
	s.ready.Store(true)
	g.streams.Go(func() { s.end(s.read(stream, g)) })
	g.streams.Go(func() { s.end(s.write(stream, g)) })
	g.look()
	<-s.ctx.Done() // both goroutines end when the stream does, which is when this returns
	cause := context.Cause(s.ctx)
	log.Info("session ended", zap.String("session", s.id), zap.NamedError("reason", cause))
	if errors.Is(cause, io.EOF) {
		return nil
	}
	return cause
}

// hello waits for the hello that a session begins with, for a bounded time.
func (g *gateway) hello(stream grpc.BidiStreamingServer[ohmv1.AgentMessage, ohmv1.ServerMessage]) (*ohmv1.Hello, error) {
	type first struct {
		hello *ohmv1.Hello
		err   error
	}
	heard := make(chan first, 1)
	g.streams.Go(func() { // ends with the stream at the latest
		hello, err := hear(stream)
		heard <- first{hello, err}
	})
	late := time.NewTimer(g.server.cfg.Limits.Slow)
	defer late.Stop()
	select {
	case f := <-heard:
		return f.hello, f.err
	case <-late.C:
		return nil, errSilent
	case <-g.closing:
		return nil, errClosing
	}
}

// hear reads a hello and holds it against the rules.
func hear(stream grpc.BidiStreamingServer[ohmv1.AgentMessage, ohmv1.ServerMessage]) (*ohmv1.Hello, error) {
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	hello := first.GetHello()
	if hello == nil {
		return nil, refuse(errInvalid, "a session begins with hello")
	}
	if hello.GetSession() == "" {
		return nil, refuse(errInvalid, "hello has no session id")
	}
	return hello, checkFacts(hello.GetNode())
}

// checkFacts holds what an agent says of its node against the rules.
func checkFacts(facts *ohmv1.Node) error {
	if err := names.Check("node name", facts.GetName()); err != nil {
		return refuse(errInvalid, "%v", err)
	}
	capacity := facts.GetCapacity()
	if capacity.GetCpuMilli() < 0 || capacity.GetMemoryBytes() < 0 || capacity.GetDiskBytes() < 0 {
		return refuse(errInvalid, "node %s has a negative capacity", facts.GetName())
	}
	if err := cellstate.CheckPorts(facts); err != nil {
		return refuse(errInvalid, "node %s: %v", facts.GetName(), err)
	}
	seen := map[string]bool{}
	for _, d := range facts.GetGpus() {
		if d.GetId() == "" || seen[d.GetId()] {
			return refuse(errInvalid, "node %s has two GPUs of id %q, or one without", facts.GetName(), d.GetId())
		}
		seen[d.GetId()] = true
		if d.GetMemoryBytes() < 0 || d.GetMemoryBytes() > resource.MaxBytes {
			return refuse(errInvalid, "node %s: GPU %s has no memory of %d bytes", facts.GetName(), d.GetId(), d.GetMemoryBytes())
		}
	}
	return nil
}

// read takes in what the agent says. It returns why that ended.
func (s *session) read(stream grpc.BidiStreamingServer[ohmv1.AgentMessage, ohmv1.ServerMessage], g *gateway) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		s.heard.Store(time.Now().UnixNano())
		switch m.GetMessage().(type) {
		case *ohmv1.AgentMessage_Heartbeat:
		case *ohmv1.AgentMessage_Statuses:
			g.reports.add(s.node, m.GetStatuses().GetStatuses())
		case *ohmv1.AgentMessage_Facts:
			if err := g.alive.facts(s, m.GetFacts()); err != nil {
				return err // the next session begins with them
			}
		case *ohmv1.AgentMessage_Usage:
			g.usages.answered(m.GetUsage().GetId(), m.GetUsage())
		case *ohmv1.AgentMessage_Hello:
			return refuse(errInvalid, "hello was said before; a new session needs a new stream")
		default: // of a later release
		}
	}
}

// write sends what is in the outbox. Only this goroutine is held up by a slow agent.
func (s *session) write(stream grpc.BidiStreamingServer[ohmv1.AgentMessage, ohmv1.ServerMessage], g *gateway) error {
	for {
		select {
		case m := <-s.out:
			s.sending.Store(time.Now().UnixNano())
			if err := stream.Send(m); err != nil {
				return err
			}
			s.sending.Store(0)
			if s.behind.Swap(false) {
				g.look() // there is room now for what found none
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// told is what the agent has been told.
type told struct {
	row      *cellstate.Node // nil: nothing yet
	revision cellstate.Revision
	known    map[*cellstate.Placement]*assigned
	looks    int
	joint    map[cellstate.JobName]*cellstate.Job // what becomes of other tasks of these matters here

	said    time.Time // when the last message was put into the outbox
	removed []string  // not told yet: they wait for company
}

// company is for how long after a message it is not told by itself that placements have
// gone: most have because their tasks ended there, and the next message comes soon.
const company = 500 * time.Millisecond

// waits says whether nothing but removals is to be told, and not yet.
func (t *told) waits(assignments []*ohmv1.Assignment, now time.Time) bool {
	return t.row != nil && len(assignments) == 0 && now.Before(t.said.Add(company))
}

// tell puts what has changed for the node since the last message into the outbox.
func (s *session) tell(snapshot *cellstate.Snapshot, row *cellstate.Node, cell string, moved moved, now time.Time) {
	t := &s.told
	if t.row == row && !t.jointMoved(snapshot) && (len(t.removed) == 0 || t.waits(nil, now)) {
		return
	}
	t.looks++
	change := differ(snapshot, row, cell, t, moved)
	assignments, removed := t.news(change)
	removed = append(slices.Clip(t.removed), removed...)
	if t.row != nil && len(assignments)+len(removed) == 0 || t.waits(assignments, now) {
		t.take(row, t.revision, change) // the revision of the last message
		t.removed = removed
		return
	}
	message := &ohmv1.ServerMessage{}
	if t.row == nil {
		message.Message = &ohmv1.ServerMessage_Complete{Complete: &ohmv1.Complete{
			Revision: int64(snapshot.Revision()), Assignments: assignments,
		}}
	} else {
		message.Message = &ohmv1.ServerMessage_Incremental{Incremental: &ohmv1.Incremental{
			FromRevision: int64(t.revision), Revision: int64(snapshot.Revision()), Assignments: assignments, Removed: removed,
		}}
	}
	select {
	case s.out <- message:
		t.take(row, snapshot.Revision(), change)
		t.removed, t.said = nil, now
		s.complete.Store(true)
	default:
		s.behind.Store(true)
	}
}

// news are the assignments of a difference that say something new, by slot, and the ids of
// those that are not there any more.
func (t *told) news(d difference) (assignments []*ohmv1.Assignment, removed []string) {
	var old map[string]*ohmv1.Assignment // by id: a placement's record may have been written again
	for _, p := range d.gone {
		if old == nil {
			old = make(map[string]*ohmv1.Assignment, len(d.gone))
		}
		a := t.known[p].assignment
		old[a.GetId()] = a
	}
	for _, p := range slices.SortedFunc(maps.Keys(d.fresh), func(a, b *cellstate.Placement) int { return a.Slot.Compare(b.Slot) }) {
		is, was := d.fresh[p].assignment, old[d.fresh[p].assignment.GetId()]
		delete(old, is.GetId())
		if known := t.known[p]; known != nil {
			was = known.assignment
		}
		if was == nil || !proto.Equal(was, is) {
			assignments = append(assignments, is)
		}
	}
	return assignments, slices.Sorted(maps.Keys(old))
}

// take takes over a difference of which the agent has been told.
func (t *told) take(row *cellstate.Node, at cellstate.Revision, d difference) {
	t.row, t.revision, t.joint = row, at, d.joint
	for _, p := range d.gone {
		delete(t.known, p)
	}
	if t.known == nil {
		t.known = map[*cellstate.Placement]*assigned{}
	}
	maps.Copy(t.known, d.fresh)
}

func (t *told) jointMoved(snapshot *cellstate.Snapshot) bool {
	for name, was := range t.joint {
		if snapshot.Job(name) != was {
			return true
		}
	}
	return false
}

// ask puts a message that is not about the desired state into the outbox.
func (s *session) ask(ctx context.Context, m *ohmv1.ServerMessage) error {
	select {
	case s.out <- m:
		return nil
	case <-s.ctx.Done():
		return s.hasEnded()
	case <-ctx.Done():
		return fmt.Errorf("asking node %s: %w", s.node, context.Cause(ctx))
	}
}

func (s *session) hasEnded() error {
	return refuse(errUnavailable, "the session of node %s has ended: %v", s.node, context.Cause(s.ctx))
}
