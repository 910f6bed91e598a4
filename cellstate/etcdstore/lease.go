package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ohmcell/ohm/cellstate"
)

// Grant begins an etcd lease; ttl is rounded up to whole seconds.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (cellstate.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	resp, err := s.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return 0, s.failed(err)
	}
	return cellstate.Lease(resp.ID), nil
}

// KeepAlive renews the lease until ctx ends or the lease is lost.
func (s *Store) KeepAlive(ctx context.Context, l cellstate.Lease) error {
	alive, err := s.client.KeepAlive(ctx, clientv3.LeaseID(l))
	if err != nil {
		return s.failed(err)
	}
	for range alive { // closed when the lease has expired or ctx has ended
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%w: lease %x", cellstate.ErrNotFound, int64(l))
}

// Revoke ends the lease; one that is gone already is no error.
func (s *Store) Revoke(ctx context.Context, l cellstate.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if _, err := s.client.Revoke(ctx, clientv3.LeaseID(l)); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return s.failed(err)
	}
	return nil
}
