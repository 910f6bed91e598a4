package etcdstore

import (
	"fmt"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func drawHeader(t *rapid.T) *pb.ResponseHeader {
	if rapid.Bool().Draw(t, "no header") {
		return nil
	}
	return &pb.ResponseHeader{ClusterId: rapid.Uint64().Draw(t, "cluster"), MemberId: rapid.Uint64().Draw(t, "member"),
		Revision: rapid.Int64().Draw(t, "revision"), RaftTerm: rapid.Uint64().Draw(t, "term")}
}

func drawKV(t *rapid.T) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(rapid.String().Draw(t, "key")), Value: []byte(rapid.String().Draw(t, "value")),
		CreateRevision: rapid.Int64().Draw(t, "create"), ModRevision: rapid.Int64().Draw(t, "mod"), Version: rapid.Int64().Draw(t, "version"), Lease: rapid.Int64().Draw(t, "lease")}
}

func drawTxn(t *rapid.T, deep int) *pb.TxnResponse {
	r := &pb.TxnResponse{Header: drawHeader(t), Succeeded: rapid.Bool().Draw(t, "succeeded")}
	for range rapid.IntRange(0, 6).Draw(t, "responses") {
		op := new(pb.ResponseOp)
		switch rapid.IntRange(0, 3).Draw(t, "operation") {
		case 0:
			op.Response = &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: drawHeader(t)}}
		case 1:
			op.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{Deleted: rapid.Int64().Draw(t, "deleted")}}
		case 2:
			got := &pb.RangeResponse{Count: 1}
			for range rapid.IntRange(0, 2).Draw(t, "kvs") {
				got.Kvs = append(got.Kvs, drawKV(t))
			}
			op.Response = &pb.ResponseOp_ResponseRange{ResponseRange: got}
		case 3:
			nested := new(pb.TxnResponse)
			if deep > 0 {
				nested = drawTxn(t, deep-1)
			}
			op.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: nested}
		}
		r.Responses = append(r.Responses, op)
	}
	return r
}

func txnRepliesAreRead(t *rapid.T) {
	want := drawTxn(t, 2)
	raw, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := txnReply{succeeded: true, found: true, nested: []bool{true}} // what was there before goes
	for _, op := range want.Responses {                                 // what the request says of its operations
		inner := op.GetResponseTxn()
		holds := 1
		if n := len(inner.GetResponses()); inner.GetSucceeded() && n > 0 && rapid.Bool().Draw(t, "joined") {
			holds = n
		} else if inner != nil && !inner.Succeeded && n == 0 {
			holds = rapid.IntRange(1, 3).Draw(t, "refused")
		}
		got.shape = append(got.shape, holds)
	}
	if err := got.parse(raw); err != nil {
		t.Fatal(err)
	}
	if got.cluster != want.Header.GetClusterId() || int64(got.revision) != want.Header.GetRevision() || got.succeeded != want.Succeeded {
		t.Fatalf("got %+v of %v", got, want)
	}
	var nested []bool
	var kvs []*mvccpb.KeyValue
	for i, op := range want.Responses {
		switch inner := op.GetResponseTxn(); {
		case got.shape[i] == 1:
			nested = append(nested, inner.GetSucceeded())
		case !inner.GetSucceeded():
			nested = append(nested, make([]bool, got.shape[i])...)
		default:
			for _, one := range inner.Responses {
				nested = append(nested, one.GetResponseTxn().GetSucceeded())
			}
		}
		kvs = append(kvs, op.GetResponseRange().GetKvs()...)
	}
	if !slices.Equal(got.nested, nested) {
		t.Fatalf("nested: got %v, want %v", got.nested, nested)
	}
	if got.found != (len(kvs) > 0) || (got.found && (got.value != string(kvs[0].Value) || got.mod != kvs[0].ModRevision)) {
		t.Fatalf("read: got %+v of %v", got, kvs)
	}
}

func TestTxnRepliesAreRead(t *testing.T) { rapid.Check(t, txnRepliesAreRead) }

func FuzzTxnRepliesAreRead(f *testing.F) { f.Fuzz(rapid.MakeFuzz(txnRepliesAreRead)) }

func drawEvent(t *rapid.T) *mvccpb.Event {
	e := &mvccpb.Event{Kv: drawKV(t)}
	if rapid.Bool().Draw(t, "deleted") {
		e.Type = mvccpb.Event_DELETE
		e.Kv.Value = nil
	}
	record := func(name string, value proto.Message) {
		e.Kv.Key = []byte("/ohm/test/" + name)
		if e.Type == mvccpb.Event_PUT {
			e.Kv.Value, _ = proto.Marshal(value)
		}
	}
	switch text := rapid.String().Draw(t, "text"); rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		record("tasks/ns/job/main/0@1/placement", &ohmv1.Placement{Node: text, Attempt: 3, Slot: &ohmv1.Slot{Job: text}})
	case 1:
		record("nodes/n1", &ohmv1.Node{Name: text})
	case 2:
		record("later/release", &ohmv1.Meta{Value: text})
	}
	return e
}

func watchRepliesAreRead(t *rapid.T) {
	want := &pb.WatchResponse{Header: drawHeader(t), WatchId: rapid.Int64().Draw(t, "id"), Created: rapid.Bool().Draw(t, "created"),
		Canceled: rapid.Bool().Draw(t, "canceled"), CompactRevision: rapid.Int64().Draw(t, "compacted"), CancelReason: rapid.String().Draw(t, "reason")}
	for range rapid.IntRange(0, 8).Draw(t, "events") {
		want.Events = append(want.Events, drawEvent(t))
	}
	raw, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := watchReply{prefix: "/ohm/test/", reader: new(reader), created: true, canceled: true, changes: []cellstate.Change{{}}, reached: 1 << 62}
	if err := got.parse(raw); err != nil {
		t.Fatal(err)
	}
	if got.cluster != want.Header.GetClusterId() || int64(got.revision) != want.Header.GetRevision() || got.created != want.Created ||
		got.canceled != want.Canceled || int64(got.compacted) != want.CompactRevision || got.reason != want.CancelReason || len(got.changes) != len(want.Events) {
		t.Fatalf("got %+v of %v", got, want)
	}
	var reached int64
	for i, e := range want.Events {
		reached = max(reached, e.Kv.ModRevision)
		c := got.changes[i]
		name, known := string(e.Kv.Key), false
		if len(name) > 10 && name[:10] == "/ohm/test/" {
			name = name[10:]
			known = name != "later/release" && e.Type == mvccpb.Event_PUT
		}
		if string(c.Key) != name || int64(c.Revision) != e.Kv.ModRevision || c.Deleted != (e.Type == mvccpb.Event_DELETE) || (c.Record() != nil) != known {
			t.Fatalf("got %+v of %v", c, e)
		}
		if known {
			value := c.Record().ProtoReflect().New().Interface()
			if err := proto.Unmarshal(e.Kv.Value, value); err != nil || !proto.Equal(value, c.Record()) {
				t.Fatalf("got %v, want %v, %v", c.Record(), value, err)
			}
		}
	}
	if int64(got.reached) != reached {
		t.Fatalf("reached %d, want %d", got.reached, reached)
	}
}

func TestWatchRepliesAreRead(t *testing.T) { rapid.Check(t, watchRepliesAreRead) }

func FuzzWatchRepliesAreRead(f *testing.F) { f.Fuzz(rapid.MakeFuzz(watchRepliesAreRead)) }

// FuzzGarbage feeds the parsers anything. What they make of it must be what the generated
// messages say where these can read it at all, and nothing may panic.
func FuzzGarbage(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x80, 0x80, 0x80, 0x80, 0x80})
	f.Add([]byte{0x0b, 0x0c, 0x14, 0x5a, 0x02, 0x12, 0x7f})
	f.Add(benchReply())
	f.Add(benchEvents())
	f.Fuzz(func(t *testing.T, raw []byte) {
		var txn txnReply
		if err := txn.parse(raw); err == nil {
			var want pb.TxnResponse
			if proto.Unmarshal(raw, &want) == nil && len(txn.nested) != len(want.Responses) {
				t.Fatalf("%d responses, want %d", len(txn.nested), len(want.Responses))
			}
		}
		watch := watchReply{prefix: "/ohm/test/", reader: new(reader)}
		if err := watch.parse(raw); err == nil {
			var want pb.WatchResponse
			if proto.Unmarshal(raw, &want) == nil && (len(watch.changes) != len(want.Events) || watch.canceled != want.Canceled) {
				t.Fatalf("%+v of %v", watch, &want)
			}
		}
	})
}

func TestARecordThatCannotBeReadIsNamed(t *testing.T) {
	raw, err := proto.Marshal(&pb.WatchResponse{Events: []*mvccpb.Event{{Kv: &mvccpb.KeyValue{Key: []byte("/ohm/test/nodes/n1"), Value: []byte{0xff}, ModRevision: 7}}}})
	if err != nil {
		t.Fatal(err)
	}
	got := watchReply{prefix: "/ohm/test/", reader: new(reader)}
	if err := got.parse(raw); err != nil || got.unreadable == nil {
		t.Fatalf("%v, %v", err, got.unreadable)
	}
}

// benchReply answers 300 writes, each with a fence and a placement put.
func benchReply() []byte {
	put := func() *pb.ResponseOp {
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: &pb.ResponseHeader{Revision: 1_000_000}}}}
	}
	r := &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 1 << 60, MemberId: 1 << 61, Revision: 1_000_000, RaftTerm: 2}, Succeeded: true, Responses: []*pb.ResponseOp{put()}}
	for range 300 {
		r.Responses = append(r.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{
			Header: &pb.ResponseHeader{}, Succeeded: true, Responses: []*pb.ResponseOp{put(), put()}}}})
	}
	raw, _ := proto.Marshal(r)
	return raw
}

// benchEvents is a revision of 300 placements.
func benchEvents() []byte {
	r := &pb.WatchResponse{Header: &pb.ResponseHeader{ClusterId: 1 << 60, MemberId: 1 << 61, Revision: 1_000_000, RaftTerm: 2}}
	for _, w := range benchWrites() {
		raw, _ := proto.Marshal(w.Records[0].Value)
		r.Events = append(r.Events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte(fmt.Sprintf("/ohm/test/%s", w.Records[0].Key)), Value: raw, ModRevision: 1_000_000, CreateRevision: 1_000_000, Version: 1}})
	}
	raw, _ := proto.Marshal(r)
	return raw
}

// BenchmarkReply reads the reply to a request of 300 writes.
func BenchmarkReply(b *testing.B) {
	raw := benchReply()
	b.Run("by=hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r txnReply
			if err := r.parse(raw); err != nil || len(r.nested) != 301 {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r pb.TxnResponse
			if err := proto.Unmarshal(raw, &r); err != nil || len(r.Responses) != 301 {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEvents reads a revision of 300 placements, records included.
func BenchmarkEvents(b *testing.B) {
	raw := benchEvents()
	b.Run("by=hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := watchReply{prefix: "/ohm/test/", reader: new(reader)}
			if err := r.parse(raw); err != nil || len(r.changes) != 300 {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r pb.WatchResponse
			if err := proto.Unmarshal(raw, &r); err != nil {
				b.Fatal(err)
			}
			changes := make([]cellstate.Change, 0, len(r.Events))
			var records cellstate.Reader
			for _, e := range r.Events {
				c, err := records.Change(cellstate.Key(e.Kv.Key[len("/ohm/test/"):]), e.Kv.Value, cellstate.Revision(e.Kv.ModRevision), false)
				if err != nil {
					b.Fatal(err)
				}
				changes = append(changes, c)
			}
			if len(changes) != 300 {
				b.Fatal(len(changes))
			}
		}
	})
}
