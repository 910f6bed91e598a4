package etcdstore

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ohmcell/ohm/cellstate"
)

// page is how many records one read of a load asks for: some 12 MB. etcd goes through all
// that is left of a range for each of its pages, so small ones cost a big cell seconds.
const page = 50_000

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
	var reader cellstate.Reader
	at, err := s.readRange(ctx, s.prefix, at, false, func(kv *mvccpb.KeyValue) error {
		c, err := reader.Change(cellstate.Key(kv.Key[len(s.prefix):]), kv.Value, cellstate.Revision(kv.ModRevision), false)
		records = append(records, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	fences, err := s.Fences(ctx, cellstate.Revision(at))
	if err != nil {
		return nil, err
	}
	scopes, err := s.scopes(ctx, at)
	if err != nil {
		return nil, err
	}
	return cellstate.NewSnapshot(cellstate.Revision(at), records, fences, scopes)
}

// readRange reads all keys with a prefix at one revision, which it returns.
func (s *Store) readRange(ctx context.Context, prefix string, at int64, keysOnly bool, each func(*mvccpb.KeyValue) error) (int64, error) {
	return s.readSpan(ctx, prefix, clientv3.GetPrefixRangeEnd(prefix), at, keysOnly, each)
}

// readSpan reads all keys of [from, end) at one revision, which it returns; 0: the present.
func (s *Store) readSpan(ctx context.Context, from, end string, at int64, keysOnly bool, each func(*mvccpb.KeyValue) error) (int64, error) {
	for {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(at)}
		if keysOnly {
			opts = append(opts, clientv3.WithKeysOnly())
		}
		reading, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		resp, err := s.client.Get(reading, from, opts...)
		cancel()
		if err != nil {
			return 0, s.unread(err)
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

// History loads the state at the compacted revision, the oldest that etcd still has.
func (s *Store) History(ctx context.Context) (*cellstate.Snapshot, cellstate.Revision, error) {
	probing, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	present, err := s.client.Get(probing, s.key(cellstate.MetaKey("format")).String())
	if err != nil {
		return nil, 0, s.failed(err)
	}
	oldest, err := s.oldest(probing)
	if err != nil {
		return nil, 0, err
	}
	snapshot, err := s.loadAt(ctx, oldest)
	return snapshot, cellstate.Revision(present.Header.Revision), err
}

// oldest is where history begins. A watch from the first revision on either shows the
// format record's first write or says it.
func (s *Store) oldest(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, ok := <-s.client.Watch(ctx, s.key(cellstate.MetaKey("format")).String(), clientv3.WithRev(1))
	if !ok || ctx.Err() != nil {
		return 0, s.failed(errors.New("no answer to a watch"))
	}
	return max(1, first.CompactRevision), nil
}
