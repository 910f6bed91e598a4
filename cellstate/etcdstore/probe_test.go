package etcdstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
)

// probed says whether a request asks for a limit: it is larger than any of ours may be.
func probed(request any) bool {
	switch r := request.(type) {
	case *pb.TxnRequest:
		return len(r.Compare) > presetTxnOps
	case *pb.RangeRequest:
		return len(r.Key) > presetRequestBytes
	}
	return false
}

// faulty hurts the probes for which hurt says so, by their number: answered is whether
// the store has answered, and the answer is lost.
func faulty(fault error, answered bool, hurt func(probe int64) bool) (grpc.DialOption, *atomic.Int64) {
	var probes, hurts atomic.Int64
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if !probed(req) || !hurt(probes.Add(1)) {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		hurts.Add(1)
		if answered {
			_ = invoke(ctx, method, req, reply, cc, opts...)
		}
		return fault
	}), &hurts
}

// probeFaults are what may become of a probe that says nothing of a limit.
func probeFaults() map[string]struct {
	fault    error
	answered bool
} {
	return map[string]struct {
		fault    error
		answered bool
	}{
		"the reply is lost":                  {status.Error(codes.Unavailable, "the reply was lost"), true},
		"the leader changes":                 {rpctypes.ErrGRPCLeaderChanged, false},
		"there is no leader":                 {rpctypes.ErrGRPCNoLeader, false},
		"the leader fails":                   {rpctypes.ErrGRPCTimeoutDueToLeaderFail, false},
		"etcd has more to do than it can do": {rpctypes.ErrGRPCRequestTooManyRequests, false},
	}
}

// Limits are what the store has, whatever happens to every second question for them: who
// took a fault for a refusal would go with less for as long as it runs.
func TestLimitsAreFoundOutUnderFaults(t *testing.T) {
	const ops, bytes = 777, 5 << 20
	server, err := embedded.Settings{MaxTxnOps: ops, MaxRequestBytes: bytes}.Start(t.Context(), t.TempDir(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, f := range probeFaults() {
		t.Run(name, func(t *testing.T) {
			dial, hurts := faulty(f.fault, f.answered, func(probe int64) bool { return probe%2 == 1 })
			s, err := Open(t.Context(), Config{Endpoints: []string{server.Endpoint()}, Timeout: 30 * time.Second, dial: []grpc.DialOption{dial}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := s.Config(); got.MaxTxnOps != ops || got.MaxRequestBytes > bytes || got.MaxRequestBytes < bytes-64<<10 {
				t.Errorf("%d operations and %d bytes, want %d and %d", got.MaxTxnOps, got.MaxRequestBytes, ops, bytes)
			}
			if hurts.Load() < 5 {
				t.Errorf("%d faults", hurts.Load())
			}
		})
	}
}

// A store that never answers is not opened with limits that nobody has told.
func TestLimitsAreNotGuessed(t *testing.T) {
	for name, f := range probeFaults() {
		t.Run(name, func(t *testing.T) {
			dial, _ := faulty(f.fault, f.answered, func(int64) bool { return true })
			s, err := Open(t.Context(), Config{Endpoints: []string{endpoint(t)}, Timeout: 500 * time.Millisecond, dial: []grpc.DialOption{dial}})
			if !errors.Is(err, cellstate.ErrUnreachable) {
				t.Errorf("opened: %v, error %v", s != nil, err)
			}
			if s != nil {
				s.Close()
			}
		})
	}
}
