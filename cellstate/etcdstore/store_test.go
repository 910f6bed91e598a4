package etcdstore

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	"github.com/ohmcell/ohm/cellstate/storetest"
)

// shared is the etcd that the tests of this package share, each in a cell of its own. It
// runs from the first that asks for it on: fuzzing parsers needs none.
var shared struct {
	sync.Once
	dir    string
	server *embedded.Server
	err    error
}

func endpoint(t *testing.T) string {
	t.Helper()
	shared.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "ohm"); shared.err == nil {
			shared.server, shared.err = embedded.Start(context.Background(), shared.dir, zap.NewNop())
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server.Endpoint()
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		code := m.Run()
		if shared.server != nil {
			shared.server.Close()
		}
		os.RemoveAll(shared.dir)
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// testStore adds to a store what storetest uses to hurt it.
type testStore struct {
	*Store
	drop *atomic.Int64 // how many replies to transactions are lost yet
}

// forgetful loses replies that have arrived.
type forgetful struct {
	grpc.ClientStream
	drop *atomic.Int64
}

func (f forgetful) RecvMsg(m any) error {
	err := f.ClientStream.RecvMsg(m)
	if err == nil && f.drop.Load() > 0 {
		f.drop.Add(-1)
		return status.Error(codes.Unavailable, "the reply was lost")
	}
	return err
}

func (s testStore) PutRaw(ctx context.Context, key cellstate.Key, value []byte) error {
	_, err := s.client.Put(ctx, s.key(key).String(), string(value))
	return err
}

func (s testStore) DropReply() { s.drop.Store(1) }

var cells atomic.Int64

func open(t *testing.T, cfg Config) testStore {
	t.Helper()
	drop := new(atomic.Int64)
	if cfg.Endpoints == nil {
		cfg.Endpoints = []string{endpoint(t)}
	}
	cfg.MaxTxnOps, cfg.MaxRequestBytes = cmp.Or(cfg.MaxTxnOps, presetTxnOps), cmp.Or(cfg.MaxRequestBytes, presetRequestBytes)
	if cfg.Cell == "" {
		cfg.Cell = fmt.Sprintf("test-%d", cells.Add(1))
	}
	cfg.dial = append(cfg.dial, grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, cc, method, opts...)
		if err == nil && method == pb.KV_Txn_FullMethodName {
			stream = forgetful{stream, drop}
		}
		return stream, err
	}))
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return testStore{s, drop}
}

// The laws hold on an etcd with our limits and on one with its own.
func TestLaws(t *testing.T) {
	for _, row := range []struct {
		name       string
		ops, bytes uint
	}{
		{"embedded", embedded.MaxTxnOps, embedded.MaxRequestBytes},
		{"default limits", presetTxnOps, presetRequestBytes},
	} {
		t.Run(row.name, func(t *testing.T) {
			server, err := embedded.Settings{MaxTxnOps: row.ops, MaxRequestBytes: row.bytes}.Start(t.Context(), t.TempDir(), zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			cfg := Config{Endpoints: []string{server.Endpoint()}, MaxTxnOps: int(row.ops), MaxRequestBytes: int(row.bytes)}
			storetest.Run(t, func(t *testing.T) cellstate.Store { return open(t, cfg) })
		})
	}
}
