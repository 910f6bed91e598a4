package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
)

// watch is one running Changes. It outlives its streams: where one breaks, the next
// begins after the last revision that was yielded.
type watch struct {
	store       *Store
	incarnation string
	cluster     uint64
	reached     cellstate.Revision
	opened      bool          // by an earlier stream
	ask         chan struct{} // for progress; holds one wish
	reader      reader
	yield       func(cellstate.Batch, error) bool
}

var (
	errBroken = errors.New("the watch broke")         // the next stream may do better
	errEnough = errors.New("the consumer had enough") // of a loop that was left
)

// Changes watches the records. etcd sends whole revisions in order; where the
// connection is lost, it goes on as soon as there is another.
func (s *Store) Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	return func(yield func(cellstate.Batch, error) bool) {
		w := &watch{store: s, reached: after, ask: make(chan struct{}, 1), yield: yield}
		w.incarnation, w.cluster = s.identity()
		s.watching(w, true)
		defer s.watching(w, false)
		for pause := newPause(); ; pause.wait(ctx) {
			before := w.reached
			err := w.follow(ctx)
			switch {
			case ctx.Err() != nil, errors.Is(err, errEnough):
				return
			case !errors.Is(err, errBroken):
				yield(cellstate.Batch{}, err)
				return
			}
			s.cfg.Log.Debug("opening the watch again", zap.Int64("revision", int64(w.reached)), zap.Error(err))
			if w.reached > before {
				pause = newPause()
			}
		}
	}
}

func (s *Store) watching(w *watch, running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if running {
		s.watches[w] = true
	} else {
		delete(s.watches, w)
	}
}

// Progress asks etcd for a progress notice on every running watch, and on one whose
// connection is lost as soon as it is back.
func (s *Store) Progress(context.Context) error {
	if state := s.wire.GetState(); state == connectivity.TransientFailure || state == connectivity.Shutdown {
		return s.failed(fmt.Errorf("the connection is in %s", state))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		select {
		case w.ask <- struct{}{}:
		default: // asked already
		}
	}
	return nil
}

// follow yields what one stream brings until it ends.
func (w *watch) follow(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	s := w.store
	stream, err := s.wire.watch(ctx)
	if err != nil {
		return s.broken(err)
	}
	if err := stream.SendMsg(w.create()); err != nil && !errors.Is(err, io.EOF) { // EOF: RecvMsg says why
		return s.broken(err)
	}
	for {
		reply := watchReply{prefix: s.prefix, reader: &w.reader}
		if err := stream.RecvMsg(&reply); err != nil {
			return s.broken(err)
		}
		switch {
		case reply.compacted > 0:
			return fmt.Errorf("%w: compacted at %d", cellstate.ErrCompacted, reply.compacted)
		case reply.canceled:
			return s.failed(fmt.Errorf("etcd canceled the watch: %s", reply.reason))
		case reply.cluster != w.cluster:
			return cellstate.ErrIncarnation
		case reply.unreadable != nil:
			return reply.unreadable
		case reply.created:
			if w.opened || reply.revision < w.reached {
				if err := w.still(ctx); err != nil {
					return err
				}
			}
			w.opened = true
			asking.Go(func() { w.asks(ctx, stream) })
			continue
		}
		// The header's revision may be ahead of the events of a watch that catches up: only
		// a progress notice promises that nothing is missing up to it.
		b := cellstate.Batch{Revision: reply.reached, Changes: reply.changes}
		if len(reply.changes) == 0 {
			b.Revision = reply.revision
		}
		if b.Revision < w.reached {
			// A restored store, or a member of etcd that lags behind the one before.
			if err := w.still(ctx); err != nil {
				return err
			}
			if len(reply.changes) == 0 {
				continue
			}
		}
		w.reached = max(w.reached, b.Revision)
		if !w.yield(b, nil) {
			return errEnough
		}
	}
}

// asks passes wishes for progress on until the stream ends. It begins when the watch is
// created: a notice before could overtake changes.
func (w *watch) asks(ctx context.Context, stream grpc.ClientStream) {
	for {
		select {
		case <-w.ask:
			if err := stream.SendMsg(bytesOf(appendString(nil, watchProgress, ""))); err != nil {
				return // the stream has ended; whoever receives on it learns why
			}
		case <-ctx.Done():
			return
		}
	}
}

// create is the request for all records after what was reached.
func (w *watch) create() mem.BufferSlice {
	b, start := begin(nil, watchCreate)
	b = appendString(b, createKey, w.store.prefix)
	b = appendString(b, createRangeEnd, clientv3.GetPrefixRangeEnd(w.store.prefix))
	b = appendInt(b, createRevision, int64(w.reached)+1)
	end(b, start)
	return bytesOf(b)
}

func bytesOf(b []byte) mem.BufferSlice { return mem.BufferSlice{mem.SliceBuffer(b)} }

// still checks that the store is the one that had come as far as this watch, and not one
// that was restored since.
func (w *watch) still(ctx context.Context) error {
	s := w.store
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.key(cellstate.MetaKey("incarnation")).String())
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	if resp.Header.ClusterId != w.cluster || cellstate.Revision(resp.Header.Revision) < w.reached ||
		len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != w.incarnation {
		return cellstate.ErrIncarnation
	}
	return nil
}

// broken judges what ended a stream: whether another may do better.
func (s *Store) broken(err error) error {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return s.failed(err)
	}
	if s.wire.GetState() == connectivity.Shutdown {
		return s.failed(err)
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

// pause between two streams grows from 20 ms to 1 s.
type pause struct{ next time.Duration }

func newPause() *pause { return &pause{20 * time.Millisecond} }

func (p *pause) wait(ctx context.Context) {
	select {
	case <-time.After(p.next):
	case <-ctx.Done():
	}
	p.next = min(2*p.next, time.Second)
}
