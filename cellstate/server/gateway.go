package server

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/ohmcell/ohm/cellstate"
)

const (
	assignEvery = 5 * time.Millisecond   // between two looks at all sessions, at least
	retryStore  = 250 * time.Millisecond // before a store that did not answer is asked again
)

// Why a session ends, if not by the agent.
var (
	errClosing  = refuse(errUnavailable, "this server is closing; turn to another")
	errReplaced = refuse(errPrecondition, "a newer session of the same node has replaced this one")
	errSilent   = refuse(errUnavailable, "nothing was heard from the agent for too long")
	errSlow     = refuse(errUnavailable, "the agent does not read what it is sent")
)

// gateway holds the agents' sessions of this server. One loop looks at all of them on
// each newer snapshot, another commits what they report, a third keeps their alive
// records.
type gateway struct {
	server  *Server
	log     *zap.Logger
	alive   *aliveKeeper
	reports *reports
	closing chan struct{} // closed when run ends: streams must end, too
	wake    chan struct{} // the loop has something to look at though the snapshot is the same
	streams sync.WaitGroup

	mu       sync.Mutex
	closed   bool // run has ended, or is about to
	sessions map[cellstate.NodeName]*session
	logs     map[string]*logRelay // by request id, until the agent has answered
}

func newGateway(s *Server) *gateway {
	g := &gateway{
		server: s, log: s.log, closing: make(chan struct{}), wake: make(chan struct{}, 1),
		sessions: map[cellstate.NodeName]*session{}, logs: map[string]*logRelay{},
	}
	g.alive = newAliveKeeper(s, g)
	g.reports = newReports(s)
	return g
}

// run serves sessions until ctx ends; then it closes them all and gives the lease back.
func (g *gateway) run(ctx context.Context) error {
	// The three loops outlive the sessions, which still have something to write.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var group errgroup.Group
	group.Go(func() error { return g.alive.run(inner) })
	group.Go(func() error { return g.reports.run(inner) })
	group.Go(func() error { return g.assign(inner) })
	<-ctx.Done()
	g.mu.Lock()
	g.closed = true
	close(g.closing)
	for _, s := range g.sessions {
		s.end(errClosing)
	}
	g.mu.Unlock()
	g.streams.Wait()
	cancel()
	return group.Wait()
}

// open counts a stream, or a write, which calls streams.Done at its end, so that run can
// wait for it and for what it has started.
func (g *gateway) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosing
	}
	g.streams.Add(1)
	return nil
}

// enter registers a session as its node's and ends the one before, whose end the
// caller must await before it writes anything for the node.
func (g *gateway) enter(s *session) (before *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		s.end(errClosing)
	}
	before = g.sessions[s.node]
	g.sessions[s.node] = s
	if before != nil {
		before.end(errReplaced)
	}
	return before
}

func (g *gateway) leave(s *session) {
	g.mu.Lock()
	if g.sessions[s.node] == s {
		delete(g.sessions, s.node)
	}
	g.mu.Unlock()
	close(s.left)
}

// session is the node's session with this server; nil if there is none.
func (g *gateway) session(node cellstate.NodeName) *session {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sessions[node]
}

// attached are the sessions whose alive record has been written.
func (g *gateway) attached() map[cellstate.NodeName]*session {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[cellstate.NodeName]*session, len(g.sessions))
	for name, s := range g.sessions {
		if s.alive.Load() > 0 && s.ready.Load() {
			out[name] = s
		}
	}
	return out
}

func (g *gateway) look() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// assign tells each session what has changed for its node. A round costs little for a
// node whose row is the same; the pause after it grows with what the round has cost.
func (g *gateway) assign(ctx context.Context) error {
	silent := g.server.cfg.Limits.Silent
	tick := time.NewTicker(silent / 8)
	defer tick.Stop()
	ticked := time.Now()
	for {
		start := time.Now()
		snapshot, newer := g.server.cfg.Mirror.Watch()
		if snapshot != nil {
			g.round(snapshot)
		}
		if pause(ctx, max(assignEvery, 2*time.Since(start))) != nil {
			return nil
		}
		select {
		case <-newer:
		case <-g.wake:
		case <-tick.C:
			// A server that was itself stopped for a while has no right to judge.
			fair := time.Since(ticked) < silent/2
			ticked = time.Now()
			g.judge(ticked, fair)
		case <-ctx.Done():
			return nil
		}
	}
}

func (g *gateway) round(snapshot *cellstate.Snapshot) {
	sessions := g.attached()
	if len(sessions) == 0 {
		return
	}
	for row := range snapshot.Nodes() {
		s := sessions[row.Name]
		if s == nil || snapshot.Revision() < cellstate.Revision(s.alive.Load()) {
			continue
		}
		switch {
		case row.Alive == nil:
			g.alive.renew(s)
		case row.Alive.GetSession() != s.id && row.AliveRevision > cellstate.Revision(s.alive.Load()):
			s.end(errReplaced)
			continue
		}
		s.tell(snapshot, row, g.server.cfg.Cell)
	}
}

// judge ends sessions that are silent or do not read.
func (g *gateway) judge(now time.Time, fair bool) {
	limits := g.server.cfg.Limits
	for _, s := range g.attached() {
		switch {
		case !fair:
			s.heard.Store(now.UnixNano())
		case now.Sub(time.Unix(0, s.heard.Load())) > limits.Silent:
			s.end(errSilent)
		case s.sending.Load() > 0 && now.Sub(time.Unix(0, s.sending.Load())) > limits.Slow:
			s.end(errSlow)
		}
	}
}
