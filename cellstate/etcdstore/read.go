package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ohmcell/ohm/cellstate"
)

// page is how many records one read of a load asks for.
const page = 10_000

// Load reads the whole cell state, in pages at one revision.
func (s *Store) Load(ctx context.Context) (*cellstate.Snapshot, error) {
	if err := s.prepare(ctx); err != nil { // a restored store has a new incarnation
		return nil, err
	}
	return s.loadAt(ctx, 0)
}

// loadAt reads the state at a revision; 0: the present one.
func (s *Store) loadAt(ctx context.Context, at int64) (*cellstate.Snapshot, error) {
	var records []cellstate.Change
	at, err := s.readRange(ctx, s.prefix, at, false, func(kv *mvccpb.KeyValue) error {
		c, err := s.change(kv)
		records = append(records, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	fences := map[cellstate.NodeName]cellstate.Revision{}
	side := s.side + "f/"
	if _, err := s.readRange(ctx, side, at, true, func(kv *mvccpb.KeyValue) error {
		fences[cellstate.NodeName(strings.TrimPrefix(string(kv.Key), side))] = cellstate.Revision(kv.ModRevision)
		return nil
	}); err != nil {
		return nil, err
	}
	return cellstate.NewSnapshot(cellstate.Revision(at), records, fences)
}

// readRange reads all keys with a prefix at one revision, which it returns.
func (s *Store) readRange(ctx context.Context, prefix string, at int64, keysOnly bool, each func(*mvccpb.KeyValue) error) (int64, error) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(at)}
		if keysOnly {
			opts = append(opts, clientv3.WithKeysOnly())
		}
		reading, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		resp, err := s.client.Get(reading, from, opts...)
		cancel()
		if errors.Is(err, rpctypes.ErrCompacted) {
			return 0, cellstate.ErrCompacted
		}
		if err != nil {
			return 0, s.unreachable(err)
		}
		if at == 0 {
			at = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			if err := each(kv); err != nil {
				return 0, err
			}
		}
		if !resp.More {
			return at, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// change decodes a record. A kind that this release does not know has no value.
func (s *Store) change(kv *mvccpb.KeyValue) (cellstate.Change, error) {
	c := cellstate.Change{Key: cellstate.Key(strings.TrimPrefix(string(kv.Key), s.prefix)), Revision: cellstate.Revision(kv.ModRevision)}
	value := c.Key.Parse().Kind.NewValue()
	if value == nil {
		return c, nil
	}
	if err := unmarshal(kv.Value, value); err != nil {
		return c, fmt.Errorf("record %s at revision %d cannot be read: %w", c.Key, kv.ModRevision, err)
	}
	c.Value = value
	return c, nil
}

// Changes watches the records. etcd sends whole revisions in order, and resumes by
// itself where its client lost the connection.
func (s *Store) Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	return func(yield func(cellstate.Batch, error) bool) {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		defer cancel()
		_, cluster := s.identity()
		reached := after
		for resp := range s.client.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithRev(int64(after)+1)) {
			switch err := resp.Err(); {
			case errors.Is(err, rpctypes.ErrCompacted), resp.CompactRevision > 0:
				yield(cellstate.Batch{}, fmt.Errorf("%w: compacted at %d", cellstate.ErrCompacted, resp.CompactRevision))
				return
			case err != nil && ctx.Err() == nil:
				yield(cellstate.Batch{}, s.unreachable(err))
				return
			}
			at := cellstate.Revision(resp.Header.Revision)
			if resp.Header.ClusterId != cluster || (resp.IsProgressNotify() && at < reached) {
				yield(cellstate.Batch{}, cellstate.ErrIncarnation)
				return
			}
			// The header's revision may be ahead of the events of a watch that catches up: only
			// a progress notice promises that nothing is missing up to it.
			b := cellstate.Batch{Changes: make([]cellstate.Change, 0, len(resp.Events))}
			if resp.IsProgressNotify() {
				b.Revision = at
			}
			for _, e := range resp.Events {
				if e.Type == clientv3.EventTypeDelete {
					b.Changes = append(b.Changes, cellstate.Change{
						Key: cellstate.Key(strings.TrimPrefix(string(e.Kv.Key), s.prefix)), Deleted: true, Revision: cellstate.Revision(e.Kv.ModRevision)})
				} else {
					c, err := s.change(e.Kv)
					if err != nil {
						yield(cellstate.Batch{}, err)
						return
					}
					b.Changes = append(b.Changes, c)
				}
				b.Revision = max(b.Revision, cellstate.Revision(e.Kv.ModRevision))
			}
			reached = max(reached, b.Revision)
			if b.Revision > 0 && !yield(b, nil) {
				return
			}
		}
		if ctx.Err() == nil {
			yield(cellstate.Batch{}, s.unreachable(errors.New("the watch ended")))
		}
	}
}

// Progress asks etcd for a progress notice on the watches of this client.
func (s *Store) Progress(ctx context.Context) error {
	if err := s.client.RequestProgress(clientv3.WithRequireLeader(ctx)); err != nil {
		return s.unreachable(err)
	}
	return nil
}

// History loads the state at the compacted revision, the oldest that etcd still has.
func (s *Store) History(ctx context.Context) (*cellstate.Snapshot, cellstate.Revision, error) {
	probing, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	present, err := s.client.Get(probing, s.key(cellstate.MetaKey("format")))
	if err != nil {
		return nil, 0, s.unreachable(err)
	}
	// A watch from the first revision on either shows the format record's first write or says
	// where history begins.
	oldest := int64(1)
	first, ok := <-s.client.Watch(probing, s.key(cellstate.MetaKey("format")), clientv3.WithRev(1))
	if !ok || probing.Err() != nil {
		return nil, 0, s.unreachable(errors.New("no answer to a watch"))
	}
	if first.CompactRevision > 0 {
		oldest = first.CompactRevision
	}
	snapshot, err := s.loadAt(ctx, oldest)
	return snapshot, cellstate.Revision(present.Header.Revision), err
}
