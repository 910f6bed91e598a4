package etcdstore

import (
	"context"
	"fmt"

	"github.com/oklog/ulid/v2"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Renew gives a store that was restored a new incarnation and returns it. After a restore
// revisions come again with other contents: whoever knew the store before must load it
// anew, and no request of theirs may apply. A store in which no cell was ever is
// ErrNotFound. It needs no more than Dial, and does no harm to a store that was not
// restored: everybody loads once.
func (s *Store) Renew(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	incarnation := ulid.Make().String()
	raw, err := proto.Marshal(&ohmv1.Meta{Value: incarnation, Time: timestamppb.Now()})
	if err != nil {
		return "", err
	}
	k := s.key(cellstate.MetaKey("incarnation")).String()
	got, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(k), ">", 0)).
		Then(clientv3.OpPut(k, string(raw))).
		Commit()
	if err != nil {
		return "", s.failed(err)
	}
	if !got.Succeeded {
		return "", fmt.Errorf("%w: the store holds no cell %q", cellstate.ErrNotFound, s.cfg.Cell)
	}
	return incarnation, nil
}
