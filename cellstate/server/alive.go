package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// aliveKeeper keeps the alive records of this server's sessions under one lease. When
// the lease is lost, it takes another and writes them again.
type aliveKeeper struct {
	server  *Server
	gateway *gateway
	missing chan *session // its alive record has gone

	mu    sync.Mutex
	lease cellstate.Lease // 0: none now
	got   chan struct{}   // closed once there is one
}

func newAliveKeeper(s *Server, g *gateway) *aliveKeeper {
	return &aliveKeeper{server: s, gateway: g, missing: make(chan *session, 64), got: make(chan struct{})}
}

func (a *aliveKeeper) run(ctx context.Context) error {
	store := a.server.cfg.Store
	for ctx.Err() == nil {
		grant, cancel := a.server.bounded(ctx)
		lease, err := store.Grant(grant, a.server.cfg.Limits.Lease)
		cancel()
		if err != nil {
			_ = pause(ctx, retryStore)
			continue
		}
		a.set(lease)
		err = a.hold(ctx, lease)
		a.unset()
		if ctx.Err() != nil { // the sessions are over
			last, cancel := a.server.bounded(context.WithoutCancel(ctx))
			_ = store.Revoke(last, lease) // it ends by itself if the store is away
			cancel()
			return nil
		}
		a.server.log.Warn("the lease of this server's sessions was lost, taking another", zap.Error(err))
	}
	return nil
}

// hold renews the lease and meanwhile writes what is missing under it. It returns when
// the lease is lost or ctx ends.
func (a *aliveKeeper) hold(ctx context.Context, lease cellstate.Lease) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := a.server.cfg.Store.KeepAlive(ctx, lease); err != nil {
			return err
		}
		return context.Canceled // ctx has ended
	})
	group.Go(func() error {
		var again errgroup.Group
		again.SetLimit(32)
		for _, s := range a.gateway.attached() {
			again.Go(func() error { a.rewrite(ctx, s); return nil })
		}
		_ = again.Wait()
		for {
			select {
			case s := <-a.missing:
				a.rewrite(ctx, s)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

func (a *aliveKeeper) set(l cellstate.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lease = l
	close(a.got)
}

func (a *aliveKeeper) unset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lease, a.got = 0, make(chan struct{})
}

// current waits for a lease.
func (a *aliveKeeper) current(ctx context.Context) (cellstate.Lease, error) {
	for {
		a.mu.Lock()
		lease, got := a.lease, a.got
		a.mu.Unlock()
		if lease != 0 {
			return lease, nil
		}
		select {
		case <-got:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// renew asks for the session's alive record to be written again; false: too many are
// waiting for that.
func (a *aliveKeeper) renew(s *session) bool {
	select {
	case a.missing <- s:
		return true
	default:
		return false
	}
}

// attach writes the node's facts, where they have changed, and its alive record. Who
// comes later wins: whatever alive record is there is replaced.
func (a *aliveKeeper) attach(s *session, hello *ohmv1.Hello) error {
	return a.put(s.ctx, s, func(at *cellstate.Snapshot, n *cellstate.Node, record cellstate.Record) (w cellstate.Write, err error) {
		w = factsWrite(at, s.node, n, hello.GetNode())
		w.Records = append(w.Records, record)
		return w, nil
	})
}

// facts writes what an attached agent says of its node, where that has changed.
func (a *aliveKeeper) facts(s *session, said *ohmv1.Node) error {
	if err := checkFacts(said); err != nil {
		return err
	}
	if said.GetName() != string(s.node) {
		return refuse(errInvalid, "the session of node %s speaks of node %s", s.node, said.GetName())
	}
	ctx, cancel := a.server.bounded(s.ctx)
	defer cancel()
	_, err := a.server.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
		n := at.Node(s.node)
		if n == nil || n.Alive.GetSession() != s.id {
			return w, errReplaced
		}
		w = factsWrite(at, s.node, n, said)
		w.Guards = append(w.Guards, cellstate.Guard{Key: cellstate.AliveKey(s.node), Revision: n.AliveRevision})
		return w, nil
	})
	return err
}

// factsWrite puts what changes of a node because its agent speaks: its facts, if they are
// others, and the intent, if it was thought lost. Of a machine that has booted since the facts
// say so, with the revision up to which all that was placed on it is over. The write compares
// the node's fence, so nothing was placed between that revision and the write.
func factsWrite(at *cellstate.Snapshot, name cellstate.NodeName, n *cellstate.Node, said *ohmv1.Node) (w cellstate.Write) {
	facts := proto.CloneOf(said)
	facts.Fence, facts.BootAfter = nil, 0 // the write's own comes instead
	record := cellstate.Record{Key: cellstate.NodeKey(name), Value: facts}
	if n != nil && n.Facts != nil {
		facts.BootAfter = n.Facts.GetBootAfter()
		if facts.GetBootId() != n.Facts.GetBootId() {
			facts.BootAfter = int64(at.Revision())
		}
		record.Read = n.FactsRevision
	}
	var own []cellstate.Record
	if n == nil || !sameFacts(n.Facts, facts) {
		own = append(own, record)
	}
	if n != nil && n.Intent.GetLost() {
		intent := proto.CloneOf(n.Intent)
		intent.Lost = false
		own = append(own, cellstate.Record{Key: cellstate.IntentKey(name), Value: intent, Read: n.IntentRevision})
	}
	if len(own) > 0 {
		w = cellstate.NodeWrite(name, n, own...)
		if cellstate.Moves(n, facts) {
			w.Records = append(w.Records, cellstate.Barrier(at, "attributes of node "+string(name)))
		}
	}
	return w
}

// rewrite writes the alive record of a session that is attached, unless somebody else
// has the node by now.
func (a *aliveKeeper) rewrite(ctx context.Context, s *session) {
	err := a.put(ctx, s, func(_ *cellstate.Snapshot, n *cellstate.Node, record cellstate.Record) (w cellstate.Write, err error) {
		if n != nil && n.Alive != nil && n.Alive.GetSession() != s.id {
			return w, errReplaced
		}
		if n != nil && n.Alive != nil && s.lease == record.Lease { // written again already
			w.Guards = []cellstate.Guard{{Key: record.Key, Revision: record.Read}}
			return w, nil
		}
		w.Records = []cellstate.Record{record}
		return w, nil
	})
	if errors.Is(err, errReplaced) || errors.Is(err, errRestored) {
		s.end(err)
	}
}

func (a *aliveKeeper) put(ctx context.Context, s *session, plan func(*cellstate.Snapshot, *cellstate.Node, cellstate.Record) (cellstate.Write, error)) error {
	s.aliveMu.Lock()
	defer s.aliveMu.Unlock()
	if s.gone {
		return nil
	}
	ctx, cancel := a.server.bounded(ctx)
	defer cancel()
	lease, err := a.current(ctx)
	if err != nil {
		return err
	}
	value := &ohmv1.Alive{
		Node: string(s.node), Server: a.server.cfg.Name, Session: s.id, BootId: s.bootID, Since: timestamppb.New(s.since),
	}
	snapshot, err := a.server.write(ctx, func(at *cellstate.Snapshot) (cellstate.Write, error) {
		if s.ready.Load() && at.Incarnation() != s.incarnation {
			return cellstate.Write{}, errRestored
		}
		record := cellstate.Record{Key: cellstate.AliveKey(s.node), Value: value, Lease: lease}
		n := at.Node(s.node)
		if n != nil {
			record.Read = n.AliveRevision
		}
		return plan(at, n, record)
	})
	switch {
	case errors.Is(err, errReplaced), errors.Is(err, errRestored):
		return err
	case err != nil:
		return fmt.Errorf("%w: attaching node %s: %v", cellstate.ErrUnreachable, s.node, err)
	}
	n := snapshot.Node(s.node)
	if n == nil || n.Alive.GetSession() != s.id {
		return errReplaced
	}
	if !s.ready.Load() {
		s.incarnation = snapshot.Incarnation()
	}
	s.alive.Store(int64(n.AliveRevision))
	s.lease = lease
	return nil
}

// drop deletes the session's alive record, if it is still this session's. A session
// that was replaced leaves it to its successor. It tries until the store has answered:
// the lease would keep a forgotten record as long as this server lives.
func (a *aliveKeeper) drop(s *session) {
	s.aliveMu.Lock()
	defer s.aliveMu.Unlock()
	s.gone = true
	if errors.Is(context.Cause(s.ctx), errRestored) {
		s.alive.Store(0)
	}
	read := cellstate.Revision(s.alive.Load())
	if read == 0 || errors.Is(context.Cause(s.ctx), errReplaced) && a.gateway.session(s.node) != s {
		return
	}
	for {
		ctx, cancel := a.server.bounded(context.Background())
		_, err := a.server.cfg.Store.Commit(ctx, cellstate.Write{
			Records: []cellstate.Record{{Key: cellstate.AliveKey(s.node), Read: read}},
		})
		cancel()
		if err == nil {
			return
		}
		select {
		case <-a.gateway.closing: // the lease is given back next
			return
		case <-time.After(retryStore):
		}
	}
}

// sameFacts compares what an agent says of its node with what is stored.
func sameFacts(stored, said *ohmv1.Node) bool {
	if stored == nil {
		return false
	}
	stored = proto.CloneOf(stored)
	stored.Fence = nil
	return proto.Equal(stored, said)
}
