package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

type fataler interface{ Fatal(...any) }

// clientOp is a write as etcd's client would put it, which is slow and the reference.
func clientOp(t fataler, s *Store, w cellstate.Write, i int) clientv3.Op {
	var cmps []clientv3.Cmp
	var ops []clientv3.Op
	puts := false
	for _, g := range w.Guards {
		k := s.key(g.Key).String()
		c := clientv3.Compare(clientv3.ModRevision(k), "=", int64(g.Revision))
		switch {
		case g.NotNewer:
			c = clientv3.Compare(clientv3.ModRevision(k), "<", int64(g.Revision)+1)
		case g.Revision == 0:
			c = clientv3.Compare(clientv3.CreateRevision(k), "=", 0)
		}
		var ranged []clientv3.OpOption
		if g.End != "" {
			c = c.WithRange(s.key(g.End).String())
			ranged = append(ranged, clientv3.WithRange(s.key(g.End).String()))
		}
		cmps = append(cmps, c)
		if g.Delete {
			ops = append(ops, clientv3.OpDelete(k, ranged...))
		}
	}
	for _, f := range w.Fences {
		k := s.fenceKey(&f).String()
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(k), "=", int64(f.Compared)))
		if f.Drop {
			ops = append(ops, clientv3.OpDelete(k))
			continue
		}
		ops = append(ops, clientv3.OpPut(k, ""))
		puts = true
	}
	for _, r := range w.Records {
		k := s.key(r.Key).String()
		if r.Read != cellstate.ReadGuarded {
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(k), "=", int64(r.Read)))
		}
		if r.Value == nil {
			ops = append(ops, clientv3.OpDelete(k))
			continue
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, clientv3.OpPut(k, string(raw), clientv3.WithLease(clientv3.LeaseID(r.Lease))))
		puts = true
	}
	if !puts {
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("%st/%s/proof/%d", s.side, s.cfg.Sender, i), "-"))
	}
	if len(ops) > max(len(cmps), 8) {
		var deeper []clientv3.Op
		for len(ops) > 0 {
			k := min(8, len(ops))
			deeper = append(deeper, clientv3.OpTxn(nil, ops[:k], nil))
			ops = ops[k:]
		}
		ops = deeper
	}
	return clientv3.OpTxn(cmps, ops, nil)
}

// pathOf is etcd's own count of the operations along a path of a transaction.
func pathOf(r *pb.TxnRequest) int {
	deepest := 0
	for _, op := range append(slices.Clip(r.Success), r.Failure...) {
		if nested := op.GetRequestTxn(); nested != nil {
			deepest = max(deepest, pathOf(nested))
		}
	}
	return max(len(r.Compare), len(r.Success), len(r.Failure)) + deepest
}

// apart takes joined writes apart: each has the compares that stand above it.
func apart(op *pb.RequestOp) (ops []*pb.RequestOp) {
	above := op.GetRequestTxn().Compare
	for _, inner := range op.GetRequestTxn().Success {
		nested := inner.GetRequestTxn()
		nested.Compare = append(slices.Clone(above), nested.Compare...)
		ops = append(ops, inner)
	}
	return ops
}

// capture is a server that keeps what it is asked.
type capture struct {
	pb.KVClient
	got *pb.TxnRequest
}

func (c *capture) Txn(_ context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	c.got = r
	return nil, errors.New("captured")
}

// clientRequest is a whole request as etcd's client would send it.
func clientRequest(t fataler, s *Store, l *lane, incarnation string, writes []cellstate.Write) *pb.TxnRequest {
	k := s.key(cellstate.MetaKey("incarnation")).String()
	ops := []clientv3.Op{clientv3.OpPut(l.key.String(), strconv.FormatInt(l.seq+1, 10))}
	for i, w := range writes {
		ops = append(ops, clientOp(t, s, w, i))
	}
	var c capture
	_, _ = clientv3.NewKVFromKVClient(&c, nil).Txn(context.Background()).
		If(clientv3.Compare(clientv3.ModRevision(l.key.String()), "=", l.mod), clientv3.Compare(clientv3.Value(k), "=", incarnation)).
		Then(ops...).Else(clientv3.OpGet(k)).Commit()
	return c.got
}

// unconnected is a store that only encodes.
func unconnected(ops, bytes int) *Store {
	return &Store{cfg: Config{Sender: "me", MaxTxnOps: ops, MaxRequestBytes: bytes}, prefix: "/ohm/test/", side: "/ohm/test!", fences: "/ohm/test!f/"}
}

// draw is any write: what it means does not matter here.
func draw(t *rapid.T) cellstate.Write {
	keys := rapid.Custom(func(t *rapid.T) cellstate.Key { return cellstate.Key(rapid.StringN(1, 200, 300).Draw(t, "key")) })
	revisions := rapid.Custom(func(t *rapid.T) cellstate.Revision {
		return cellstate.Revision(rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Min(0)).Draw(t, "revision"))
	})
	var w cellstate.Write
	for range rapid.IntRange(0, 5).Draw(t, "guards") {
		g := cellstate.Guard{Key: keys.Draw(t, "key"), Revision: revisions.Draw(t, "revision"), NotNewer: rapid.Bool().Draw(t, "not newer"), Delete: rapid.Bool().Draw(t, "delete")}
		if rapid.Bool().Draw(t, "ranged") {
			g.End = keys.Draw(t, "end")
		}
		if g.NotNewer {
			g.Revision = min(g.Revision, 1<<60)
		}
		w.Guards = append(w.Guards, g)
	}
	for range rapid.IntRange(0, 20).Draw(t, "fences") {
		f := cellstate.FenceBump{Compared: revisions.Draw(t, "compared")}
		if name := string(keys.Draw(t, "name")); rapid.Bool().Draw(t, "of a node") {
			f.Node = cellstate.NodeName(name)
		} else {
			f.Scope, f.Drop = name, rapid.Bool().Draw(t, "drop")
		}
		w.Fences = append(w.Fences, f)
	}
	for range rapid.IntRange(0, 40).Draw(t, "records") {
		r := cellstate.Record{Key: keys.Draw(t, "key"), Read: revisions.Draw(t, "read"), Lease: cellstate.Lease(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, "lease"))}
		if rapid.Bool().Draw(t, "guarded") {
			r.Read = cellstate.ReadGuarded
		}
		text := rapid.StringN(0, 300, 400).Draw(t, "text")
		switch rapid.IntRange(0, 4).Draw(t, "value") {
		case 0:
			r.Lease = 0 // deleted
		case 1:
			r.Value = new(ohmv1.Placement) // nothing in it
		case 2:
			r.Value = &ohmv1.Placement{Node: text, Slot: &ohmv1.Slot{Job: text, Index: 3}, Attempt: 1}
		case 3:
			r.Value = &timestamppb.Timestamp{Seconds: int64(len(text))} // without a fast codec
		case 4:
			r.Value = &ohmv1.Meta{Value: text}
		}
		w.Records = append(w.Records, r)
	}
	return w
}

// appendedAsClient asserts that what is appended decodes to what etcd's client would have
// sent, and that the requests keep the server's limits.
func appendedAsClient(t *rapid.T) {
	s := unconnected(rapid.IntRange(128, 400).Draw(t, "operations"), rapid.IntRange(40_000, 200_000).Draw(t, "bytes"))
	l := &lane{key: key{s.side, "t/me/0"}, seq: rapid.Int64Range(0, 1<<40).Draw(t, "seq"), mod: rapid.Int64Min(0).Draw(t, "mod")}
	incarnation := rapid.String().Draw(t, "incarnation")
	var writes []cellstate.Write
	for range rapid.IntRange(1, 12).Draw(t, "writes") {
		w := draw(t)
		if last := len(writes) - 1; last >= 0 && len(writes[last].Guards) > 0 && rapid.Bool().Draw(t, "shared") {
			n := rapid.IntRange(1, len(writes[last].Guards)).Draw(t, "shared guards")
			w.Guards = append(slices.Clone(writes[last].Guards[:n]), w.Guards...)
			w.Fences, w.Records = w.Fences[:min(2, len(w.Fences))], w.Records[:min(2, len(w.Records))]
		}
		writes = append(writes, w)
	}
	requests, err := s.requests(writes)
	if err != nil {
		t.Fatal(err)
	}
	want := clientRequest(t, s, l, incarnation, writes)
	var all []*pb.RequestOp
	for _, r := range requests {
		raw := append(s.head(l, incarnation), r.body.ReadOnlyData()...)
		var got pb.TxnRequest
		if err := proto.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Compare, got.Compare, protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(want.Failure, got.Failure, protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
		if !proto.Equal(want.Success[0], got.Success[0]) {
			t.Fatalf("the lane: %v", got.Success[0])
		}
		if len(r.shape) != len(got.Success)-1 {
			t.Fatalf("%d operations, of which %d are announced", len(got.Success), len(r.shape))
		}
		if n := pathOf(&got); n > s.cfg.MaxTxnOps || (len(raw) > s.cfg.MaxRequestBytes && len(r.proofs) > 1) {
			t.Fatalf("a request of %d operations and %d bytes for %d and %d", n, len(raw), s.cfg.MaxTxnOps, s.cfg.MaxRequestBytes)
		}
		var ops []*pb.RequestOp
		for i, n := range r.shape {
			switch op := got.Success[1+i]; {
			case n == 1:
				ops = append(ops, op)
			case len(op.GetRequestTxn().GetSuccess()) != n || len(op.GetRequestTxn().GetCompare()) == 0:
				t.Fatalf("%d writes joined in %v", n, op)
			default:
				ops = append(ops, apart(op)...)
			}
		}
		if r.first != len(all) || len(r.proofs) != len(ops) {
			t.Fatalf("request from write %d with %d proofs and %d writes, %d came before", r.first, len(r.proofs), len(ops), len(all))
		}
		for i, proof := range r.proofs {
			if !putsKey(ops[i], proof.String()) {
				t.Fatalf("%q is not put by %v", proof, ops[i])
			}
		}
		all = append(all, ops...)
		r.body.Free()
	}
	if diff := cmp.Diff(want.Success[1:], all, protocmp.Transform()); diff != "" {
		t.Fatal(diff)
	}
}

func putsKey(op *pb.RequestOp, k string) bool {
	if put := op.GetRequestPut(); put != nil {
		return string(put.Key) == k
	}
	for _, o := range op.GetRequestTxn().GetSuccess() {
		if putsKey(o, k) {
			return true
		}
	}
	return false
}

func TestAppendedRequestsAreTheClients(t *testing.T) { rapid.Check(t, appendedAsClient) }

func FuzzAppendedRequestsAreTheClients(f *testing.F) { f.Fuzz(rapid.MakeFuzz(appendedAsClient)) }

func TestWritesBeyondTheLimits(t *testing.T) {
	record := func(i int) cellstate.Record {
		return cellstate.Record{Key: cellstate.MetaKey(fmt.Sprint(i)), Value: &ohmv1.Meta{Value: "0123456789"}}
	}
	var many cellstate.Write
	for i := range 130 {
		many.Records = append(many.Records, record(i))
	}
	for name, row := range map[string]struct {
		store *Store
		write cellstate.Write
	}{
		"operations": {unconnected(128, 1<<20), many},
		"bytes":      {unconnected(8192, 4000), many},
	} {
		_, err := row.store.requests([]cellstate.Write{{Records: []cellstate.Record{record(0)}}, row.write})
		if !errors.Is(err, cellstate.ErrRequestLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// benchWrites are 300 placements on as many nodes, each a write with its guards.
func benchWrites() []cellstate.Write {
	writes := make([]cellstate.Write, 300)
	for i := range writes {
		slot := cellstate.Slot{Namespace: "default", Job: "job-00000017", Group: "main", Index: i, Version: 1}
		name := fmt.Sprintf("node-%05d", i)
		p := &ohmv1.Placement{
			Slot: slot.Proto(), Attempt: 1, Node: name, Resources: &ohmv1.Resources{CpuMilli: 1000, MemoryBytes: 1 << 30},
			Precedence: 100, Scheduler: "batch", Instance: "batch-0", Txn: "01KB0000000000000000000000", Mode: cellstate.Incremental,
			TxnClaims: 100, SnapshotRevision: 1_000_000, JobRevision: 1_000_000, Time: &timestamppb.Timestamp{Seconds: 1_700_000_000, Nanos: 123456789},
			Fence: &ohmv1.Fence{Compared: 1_000_000, Records: 1},
		}
		from, end := cellstate.TasksKeys(slot.JobName())
		writes[i] = cellstate.Write{
			Guards:  []cellstate.Guard{{Key: cellstate.JobKey(slot.JobName()), Revision: 1_000_000}, {Key: from, End: end}},
			Fences:  []cellstate.FenceBump{{Node: cellstate.NodeName(name), Compared: 1_000_000}},
			Records: []cellstate.Record{{Key: slot.PlacementKey(), Value: p, Read: cellstate.ReadGuarded}},
		}
	}
	return writes
}

// BenchmarkEncode encodes a request of 300 placements: by hand, and as etcd's client does.
func BenchmarkEncode(b *testing.B) {
	s, writes := unconnected(8192, 8<<20), benchWrites()
	l := &lane{key: key{s.side, "t/me/0"}, seq: 17, mod: 1_000_000}
	b.Run("by=hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			requests, err := s.requests(writes)
			if err != nil || len(requests) != 1 {
				b.Fatal(len(requests), err)
			}
			_ = s.head(l, "incarnation")
			requests[0].body.Free()
		}
	})
	b.Run("by=client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := proto.Marshal(clientRequest(b, s, l, "incarnation", writes)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
