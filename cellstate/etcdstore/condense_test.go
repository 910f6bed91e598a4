package etcdstore

import (
	"context"
	"fmt"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// gang is an atomic write of so many slots of one job, each for its attempt 2, on nodes
// of which none has a fence yet.
func gang(slots, nodes int) cellstate.Write {
	var w cellstate.Write
	for i := range slots {
		s := gangSlot(i)
		w.Guards = append(w.Guards, cellstate.Guard{Key: s.EndedKey(2), End: s.PlacementKey() + "\x00"})
		w.Records = append(w.Records, cellstate.Record{Key: s.PlacementKey(), Value: &ohmv1.Placement{Slot: s.Proto(), Attempt: 2}, Read: cellstate.ReadGuarded})
	}
	for i := range nodes {
		w.Fences = append(w.Fences, cellstate.FenceBump{Node: cellstate.NodeName(fmt.Sprintf("n%03d", i))})
	}
	return w
}

func gangSlot(i int) cellstate.Slot {
	return cellstate.Slot{Namespace: "default", Job: "g", Group: "main", Index: i, Version: 1}
}

// hurried does something once, right before the next transaction is sent on the wire.
type hurried struct {
	grpc.ClientStream
	before func()
}

func (h hurried) SendMsg(m any) error {
	h.before()
	return h.ClientStream.SendMsg(m)
}

// What happens to a slot between the reading and the request is noticed by the one
// condition that stands for all of them.
func TestACondensedWriteComparesEachSlot(t *testing.T) {
	const slots = 200
	first, within, last := gangSlot(0), gangSlot(123), gangSlot(9) // by key: 9@ sorts after 99@
	placement, ended := &ohmv1.Placement{Attempt: 2}, &ohmv1.Ended{}
	for _, row := range []struct {
		name    string
		put     map[cellstate.Key]proto.Message // before the reading
		between map[cellstate.Key]proto.Message // between reading and request
		applies bool
	}{
		{"nothing", nil, nil, true},
		{"the first slot is taken", nil, map[cellstate.Key]proto.Message{first.PlacementKey(): placement}, false},
		{"a slot within is taken", nil, map[cellstate.Key]proto.Message{within.PlacementKey(): placement}, false},
		{"the last slot is taken", nil, map[cellstate.Key]proto.Message{last.PlacementKey(): placement}, false},
		{"the first slot's attempt is used", nil, map[cellstate.Key]proto.Message{first.EndedKey(2): ended}, false},
		{"the last slot's attempt is used", nil, map[cellstate.Key]proto.Message{last.EndedKey(2): ended}, false},
		{"a later attempt of the last slot is used", nil, map[cellstate.Key]proto.Message{last.EndedKey(7): ended}, false},
		{"another job", nil, map[cellstate.Key]proto.Message{cellstate.Slot{Namespace: "default", Job: "gg", Group: "main", Version: 1}.PlacementKey(): placement}, true},
		{"earlier ends and another version", map[cellstate.Key]proto.Message{
			first.EndedKey(1): ended, within.EndedKey(1): ended, last.EndedKey(1): ended, within.StatusKey(): &ohmv1.Status{},
			cellstate.Slot{Namespace: "default", Job: "g", Group: "main", Index: 123, Version: 2}.PlacementKey(): placement,
		}, nil, true},
		{"the first slot had been taken", map[cellstate.Key]proto.Message{first.PlacementKey(): placement}, nil, false},
		{"a slot within had been taken", map[cellstate.Key]proto.Message{within.PlacementKey(): placement}, nil, false},
		{"the last slot had been taken", map[cellstate.Key]proto.Message{last.PlacementKey(): placement}, nil, false},
		{"the last slot's attempt had been used", map[cellstate.Key]proto.Message{last.EndedKey(3): ended}, nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s testStore
			var now sync.Mutex
			var do, sent func()
			s = open(t, Config{dial: []grpc.DialOption{grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				stream, err := open(ctx, desc, cc, method, opts...)
				if err == nil && method == pb.KV_Txn_FullMethodName {
					stream = hurried{stream, func() {
						now.Lock()
						defer now.Unlock()
						if do != nil {
							do()
							sent()
						}
					}}
				}
				return stream, err
			})}})
			put := func(records map[cellstate.Key]proto.Message) {
				for k, v := range records {
					raw, err := proto.Marshal(v)
					if err == nil {
						err = s.PutRaw(t.Context(), k, raw)
					}
					if err != nil {
						t.Error(err)
					}
				}
			}
			put(row.put)
			count := 0
			now.Lock()
			do, sent = func() { put(row.between) }, func() { count++ }
			now.Unlock()
			w, small := gang(slots, 100), cellstate.Write{Records: []cellstate.Record{numbered(1)}}
			out, err := s.Commit(t.Context(), small, w, cellstate.Write{Records: []cellstate.Record{numbered(2)}})
			if err != nil {
				t.Fatal(err)
			}
			if out.Applied[0] == 0 || out.Applied[2] == 0 {
				t.Errorf("the writes beside it: %v", out.Applied)
			}
			if applied := out.Applied[1] != 0; applied != row.applies {
				t.Errorf("applied: %v", applied)
			}
			got, err := s.client.Get(t.Context(), s.key(gangSlot(7).PlacementKey()).String(), clientv3.WithCountOnly())
			if err != nil || got.Count == 1 != row.applies {
				t.Errorf("%d placements of slot 7 stand, %v", got.Count, err)
			}
			if out.Revision < out.Applied[1] || count == 0 {
				t.Errorf("revision %d, %d requests", out.Revision, count)
			}
		})
	}
}

// operations are what etcd's server counts: along a path, each level costs the largest of
// its conditions and branches.
func operations(r *pb.TxnRequest) int {
	deeper := 0
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if inner := op.GetRequestTxn(); inner != nil {
				deeper = max(deeper, operations(inner))
			}
		}
	}
	return max(len(r.Compare), len(r.Success), len(r.Failure)) + deeper
}

// Whatever the limits say that an atomic transaction may hold fits a request.
func TestWhatTheLimitsSayFits(t *testing.T) {
	for _, row := range []struct{ ops, bytes int }{
		{presetTxnOps, presetRequestBytes}, {presetTxnOps, mostRequestBytes}, {256, presetRequestBytes}, {mostTxnOps, mostRequestBytes},
	} {
		s := unconnected(row.ops, row.bytes)
		limits := s.Limits()
		w := gang(limits.Claims, min(limits.Nodes, limits.Claims))
		w.Guards = []cellstate.Guard{{Key: "jobs/default/g", Revision: 7}, {Key: w.Guards[0].Key, End: w.Guards[limits.Claims-1].End, Revision: 9, NotNewer: true}} // as condensed
		requests, err := s.requests([]cellstate.Write{w})
		if err != nil || len(requests) != 1 {
			t.Fatalf("%+v: %d requests, %v", row, len(requests), err)
		}
		raw := append(s.head(&lane{key: key{s.side, "t/me/0"}, mod: 1 << 40}, "incarnation"), requests[0].body.ReadOnlyData()...)
		var sent pb.TxnRequest
		if err := proto.Unmarshal(raw, &sent); err != nil {
			t.Fatal(err)
		}
		if n := operations(&sent); n > row.ops || len(raw) > row.bytes {
			t.Errorf("%+v: a request of %d operations and %d bytes", row, n, len(raw))
		}
		t.Logf("%+v: %+v", row, limits)
	}
}
