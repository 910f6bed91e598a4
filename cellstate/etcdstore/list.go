package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ohmcell/ohm/cellstate"
)

// List says what stands in a range; see cellstate.Lister. etcd counts the whole range for
// each answer, so a large one should be cut by who asks, not by most.
func (s *Store) List(ctx context.Context, at cellstate.Revision, from, end cellstate.Key, most int) (page []cellstate.KeyRevision, more bool, err error) {
	until := clientv3.GetPrefixRangeEnd(s.prefix)
	if end != "" {
		until = s.key(end).String()
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.key(from).String(), clientv3.WithRange(until), clientv3.WithLimit(int64(most)), clientv3.WithRev(int64(at)), clientv3.WithKeysOnly())
	if err != nil {
		return nil, false, s.unread(err)
	}
	if _, cluster := s.identity(); resp.Header.ClusterId != cluster {
		return nil, false, cellstate.ErrIncarnation
	}
	page = make([]cellstate.KeyRevision, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		page[i] = cellstate.KeyRevision{Key: cellstate.Key(strings.TrimPrefix(string(kv.Key), s.prefix)), Revision: cellstate.Revision(kv.ModRevision)}
	}
	return page, resp.More, nil
}

// Fences returns the fences of all nodes; see cellstate.Lister.
func (s *Store) Fences(ctx context.Context, at cellstate.Revision) (map[cellstate.NodeName]cellstate.Revision, error) {
	fences := map[cellstate.NodeName]cellstate.Revision{}
	_, err := s.readRange(ctx, s.fences, int64(at), true, func(kv *mvccpb.KeyValue) error {
		fences[cellstate.NodeName(strings.TrimPrefix(string(kv.Key), s.fences))] = cellstate.Revision(kv.ModRevision)
		return nil
	})
	return fences, err
}

// unread says why a read at a revision was refused.
func (s *Store) unread(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return cellstate.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return fmt.Errorf("%w: %w", cellstate.ErrIncarnation, err)
	}
	return s.failed(err)
}

// scopes returns the fences of all scopes as of a revision.
func (s *Store) scopes(ctx context.Context, at int64) (map[string]cellstate.Revision, error) {
	scopes := map[string]cellstate.Revision{}
	prefix := s.side + cellstate.SideScopes
	_, err := s.readRange(ctx, prefix, at, true, func(kv *mvccpb.KeyValue) error {
		scopes[strings.TrimPrefix(string(kv.Key), prefix)] = cellstate.Revision(kv.ModRevision)
		return nil
	})
	return scopes, err
}
