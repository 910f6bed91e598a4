package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
)

// TestRenew: whoever knew the store before commits nothing until it has loaded again.
func TestRenew(t *testing.T) {
	s := open(t, Config{})
	before, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	incarnation, err := s.Renew(t.Context())
	if err != nil || incarnation == before.Incarnation() {
		t.Fatalf("%s after %s: %v", incarnation, before.Incarnation(), err)
	}
	write := cellstate.Write{Records: []cellstate.Record{numbered(1)}}
	if out, err := s.Commit(t.Context(), write); !errors.Is(err, cellstate.ErrIncarnation) {
		t.Errorf("%+v, %v", out, err)
	}
	after, err := s.Load(t.Context())
	if err != nil || after.Incarnation() != incarnation {
		t.Fatalf("loaded %s, %v; want %s", after.Incarnation(), err, incarnation)
	}
	if out, err := s.Commit(t.Context(), write); err != nil || out.Applied[0] == 0 {
		t.Errorf("%+v, %v", out, err)
	}
	other := open(t, Config{})
	empty, err := Dial(Config{Endpoints: other.cfg.Endpoints, Cell: "never"})
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if _, err := empty.Renew(t.Context()); !errors.Is(err, cellstate.ErrNotFound) {
		t.Errorf("a cell that never was: %v", err)
	}
}

// goesBack loses a reply and takes the store back to before the request meanwhile.
type goesBack struct {
	grpc.ClientStream
	restore func()
}

func (g goesBack) RecvMsg(m any) error {
	if err := g.ClientStream.RecvMsg(m); err != nil || g.restore == nil {
		return err
	}
	g.restore()
	return status.Error(codes.Unavailable, "the reply was lost")
}

// TestARequestOfTheTimeBeforeARestore was applied there, and may have been seen: nobody is
// told that it was not. whether its sender still waits or not.
func TestARequestOfTheTimeBeforeARestore(t *testing.T) {
	for _, gaveUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("its sender has given up=%v", gaveUp), func(t *testing.T) {
			var restore func()
			s := open(t, Config{dial: []grpc.DialOption{grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				stream, err := open(ctx, desc, cc, method, opts...)
				if err == nil && method == pb.KV_Txn_FullMethodName && restore != nil {
					stream, restore = goesBack{stream, restore}, nil
				}
				return stream, err
			})}})
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			restore = func() { // lanes that were never used, a record that was never put
				for _, prefix := range []string{s.side + "t/", s.key(numbered(1).Key).String()} {
					if _, err := s.client.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
						t.Error(err)
					}
				}
				if _, err := s.Renew(t.Context()); err != nil {
					t.Error(err)
				}
				if gaveUp {
					giveUp()
				}
			}
			out, err := s.Commit(ctx, cellstate.Write{Records: []cellstate.Record{numbered(1)}})
			if !errors.Is(err, cellstate.ErrUnknown) || !errors.Is(err, cellstate.ErrIncarnation) {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
}
