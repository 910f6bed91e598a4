package etcdstore

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Discover opens the store of the cell that conn leads to: it asks the server for the
// cell's name, where its etcd is, which must be reachable from here, too, and the limits of
// that. What cfg says itself stays as it is.
func Discover(ctx context.Context, conn grpc.ClientConnInterface, cfg Config) (*Store, error) {
	info, err := ohmv1.NewCellClient(conn).Info(ctx, &ohmv1.InfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("%w: asking the server for its store: %w", cellstate.ErrUnreachable, err)
	}
	return Open(ctx, cfg.Discovered(info))
}

// Discovered fills in what a server says of its store; what is set already stays.
func (c Config) Discovered(info *ohmv1.InfoResponse) Config {
	if c.Cell == "" {
		c.Cell = info.GetCell()
	}
	if len(c.Endpoints) > 0 {
		return c
	}
	c.Endpoints = info.GetEtcd()
	if c.MaxTxnOps == 0 {
		c.MaxTxnOps = int(info.GetEtcdMaxTxnOps())
	}
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = int(info.GetEtcdMaxRequestBytes())
	}
	return c
}
