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
	assignEvery = 5 * time.Millisecond   // between two looks at the sessions, at least
	flushEvery  = company / 8            // between two looks for those that have waited for company
	retryStore  = 250 * time.Millisecond // before a store that did not answer is asked again
)

// Why a session ends, if not by the agent.
var (
	errClosing  = refuse(errUnavailable, "this server is closing; turn to another")
	errReplaced = refuse(errPrecondition, "a newer session of the same node has replaced this one")
	errSilent   = refuse(errUnavailable, "nothing was heard from the agent for too long")
	errSlow     = refuse(errUnavailable, "the agent does not read what it is sent")
	errRestored = refuse(errUnavailable, "the store was restored; open another session to learn what is desired now")
)

// gateway holds the agents' sessions of this server. One loop looks at all of them on
// each newer snapshot, another commits what they report, a third keeps their alive
// records.
type gateway struct {
	server  *Server
	log     *zap.Logger
	alive   *aliveKeeper
	reports *reports
	execs   execs
	usages  usages
	closing chan struct{} // closed when run ends: streams must end, too
	wake    chan struct{} // the loop has something to look at though the snapshot is the same
	streams sync.WaitGroup

	// joint are the nodes of sessions that have been told of jobs of which more matters than
	// what stands there: the assign loop's own.
	joint map[cellstate.NodeName]bool
	// late are the nodes of which sessions have still to be told that placements have gone:
	// the assign loop's own.
	late    map[cellstate.NodeName]bool
	flushed time.Time // when they were looked at last

	mu       sync.Mutex
	closed   bool // run has ended, or is about to
	sessions map[cellstate.NodeName]*session
	logs     map[string]*logRelay // by request id, until the agent has answered
	told     cellstate.Revision   // of the last round: of that snapshot all sessions know
	rounds   chan struct{}        // closed at the end of the next round; nil: nobody waits for it
}

func newGateway(s *Server) *gateway {
	g := &gateway{
		server: s, log: s.log, closing: make(chan struct{}), wake: make(chan struct{}, 1),
		joint: map[cellstate.NodeName]bool{}, late: map[cellstate.NodeName]bool{}, sessions: map[cellstate.NodeName]*session{}, logs: map[string]*logRelay{},
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

// look has the assign loop look at every session soon.
func (g *gateway) look() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// assign tells each session what has changed for its node. A round looks only at nodes of
// which the row is another one than in the last round; now and then, and when somebody asks
// for it, at all. What has changed meanwhile is one round's work, so a loop that is late
// does not get later by pausing less.
func (g *gateway) assign(ctx context.Context) error {
	silent := g.server.cfg.Limits.Silent
	tick := time.NewTicker(silent / 8)
	defer tick.Stop()
	ticked := time.Now()
	var last *cellstate.Snapshot // nil: look at all
	for {
		snapshot, newer := g.server.cfg.Mirror.Watch()
		if snapshot != nil {
			g.round(snapshot, last, time.Now())
			g.roundOver(snapshot.Revision())
		}
		var flush <-chan time.Time
		if len(g.late) > 0 {
			flush = time.After(flushEvery)
		}
		last = snapshot
		if pause(ctx, assignEvery) != nil {
			return nil
		}
		select {
		case <-newer:
		case <-flush:
		case <-g.wake:
			last = nil
		case <-tick.C:
			last = nil
			// A server that was itself stopped for a while has no right to judge.
			fair := time.Since(ticked) < silent/2
			ticked = time.Now()
			g.judge(ticked, fair)
		case <-ctx.Done():
			return nil
		}
	}
}

// looked is a session with its node's row.
type looked struct {
	session *session
	row     *cellstate.Node
}

// looks are the sessions of which the node has changed since another snapshot, or whose
// joint jobs may have; of all nodes where that is nil.
func (g *gateway) looks(snapshot, since *cellstate.Snapshot) (looks []looked) {
	g.mu.Lock()
	defer g.mu.Unlock()
	add := func(row *cellstate.Node) {
		if s := g.sessions[row.Name]; s != nil && s.alive.Load() > 0 && s.ready.Load() && s.ctx.Err() == nil {
			looks = append(looks, looked{s, row})
		}
	}
	if since != nil {
		if changes, same := snapshot.NodeChanges(since); same {
			for _, row := range changes {
				add(row)
			}
			for name := range g.joint {
				if row := snapshot.Node(name); row != nil {
					add(row) // perhaps for the second time, which says nothing
				}
			}
			return looks
		}
	}
	for row := range snapshot.Nodes() {
		add(row)
	}
	return looks
}

func (g *gateway) round(snapshot, since *cellstate.Snapshot, now time.Time) {
	if since == nil || since.Incarnation() != snapshot.Incarnation() {
		g.endOthers(snapshot.Incarnation())
	}
	moved := movedSince(snapshot, since)
	for _, l := range append(g.looks(snapshot, since), g.lateLooks(snapshot, now)...) {
		s, row := l.session, l.row
		if snapshot.Revision() < cellstate.Revision(s.alive.Load()) {
			continue // the row is to change once more
		}
		switch {
		case row.Alive == nil:
			if !g.alive.renew(s) {
				g.look()
			}
		case row.Alive.GetSession() != s.id && row.AliveRevision > cellstate.Revision(s.alive.Load()):
			s.end(errReplaced)
			continue
		}
		s.tell(snapshot, row, g.server.cfg.Cell, moved, now)
		if len(s.told.removed) > 0 {
			g.late[s.node] = true
		} else {
			delete(g.late, s.node)
		}
		if len(s.told.joint) > 0 {
			g.joint[s.node] = true
		} else {
			delete(g.joint, s.node)
		}
	}
}

// roundOver wakes whoever waits for the end of a round.
func (g *gateway) roundOver(at cellstate.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = at
	if g.rounds != nil {
		close(g.rounds)
		g.rounds = nil
	}
}

// caughtUp waits until what a snapshot of that revision says of the session's node is on its
// way to the agent: what is asked after that does not overtake it.
func (g *gateway) caughtUp(ctx context.Context, s *session, at cellstate.Revision) error {
	for {
		g.mu.Lock()
		if g.told >= at && s.complete.Load() && !s.behind.Load() {
			g.mu.Unlock()
			return nil
		}
		if g.rounds == nil {
			g.rounds = make(chan struct{})
		}
		over := g.rounds
		g.mu.Unlock()
		select {
		case <-over:
		case <-g.closing:
			return errClosing
		case <-s.ctx.Done():
			return s.hasEnded()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// endOthers ends the sessions of another incarnation of the store. Their revisions compare
// with none of this one, and it may not even know their nodes.
func (g *gateway) endOthers(incarnation string) {
	for _, s := range g.attached() {
		if s.incarnation != incarnation {
			s.end(errRestored)
		}
	}
}

// lateLooks are, now and then, the sessions that have still to be told of what has gone.
func (g *gateway) lateLooks(snapshot *cellstate.Snapshot, now time.Time) (looks []looked) {
	if len(g.late) == 0 || now.Before(g.flushed.Add(flushEvery)) {
		return nil
	}
	g.flushed = now
	for name := range g.late {
		row, s := snapshot.Node(name), g.session(name)
		if row == nil || s == nil || s.alive.Load() == 0 || !s.ready.Load() {
			delete(g.late, name)
			continue
		}
		looks = append(looks, looked{s, row})
	}
	return looks
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
