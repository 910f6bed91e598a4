package etcdstore

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ohmcell/ohm/cellstate"
)

// Compact makes etcd forget what was before a revision. It does not wait until the room
// is given back: etcd does that in small steps of its own.
func (s *Store) Compact(ctx context.Context, at cellstate.Revision) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if _, err := s.client.Compact(ctx, int64(at)); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return s.failed(err)
	}
	return nil
}

// Size is that of the first endpoint's member.
func (s *Store) Size(ctx context.Context) (cellstate.Size, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	status, err := s.client.Status(ctx, s.client.Endpoints()[0])
	if err != nil {
		return cellstate.Size{}, s.failed(err)
	}
	return cellstate.Size{InUse: status.DbSizeInUse, File: status.DbSize, Quota: max(0, status.DbSizeQuota)}, nil
}
