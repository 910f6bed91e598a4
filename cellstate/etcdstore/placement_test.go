package etcdstore

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// placementsAreRead holds parsePlacement against the generated code, for what is absent,
// what is there but empty, and what a later release has added.
func placementsAreRead(t *rapid.T) {
	some := func(what string) bool { return rapid.Bool().Draw(t, what) }
	number := func(what string) int64 { return rapid.Int64().Draw(t, what) }
	p := &ohmv1.Placement{Node: rapid.String().Draw(t, "node"), Txn: "txn", Attempt: int32(number("attempt")), SnapshotRevision: number("snapshot")}
	if some("slot") {
		p.Slot = &ohmv1.Slot{}
		if some("slot filled") {
			p.Slot = &ohmv1.Slot{Namespace: "default", Job: "job", Group: "main", Index: int32(number("index")), Version: number("version")}
		}
	}
	if some("resources") {
		p.Resources = &ohmv1.Resources{CpuMilli: number("cpu")}
	}
	if some("time") {
		p.Time = &timestamppb.Timestamp{Seconds: number("seconds")}
	}
	if some("fence") {
		p.Fence = &ohmv1.Fence{Compared: number("compared"), Records: int32(number("records"))}
	}
	if some("gpus") {
		p.Gpus = []*ohmv1.DeviceShare{{Id: "gpu0", Milli: 500}, {}}
		p.Victims = []*ohmv1.Victim{{Txn: "other"}}
	}
	raw, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if some("unknown") {
		raw = append(raw, 0xfa, 0x3f, 2, 'h', 'i') // field 1023
	}
	if some("torn") {
		raw = raw[:rapid.IntRange(0, len(raw)).Draw(t, "length")]
	}
	want := new(ohmv1.Placement)
	failed := proto.Unmarshal(raw, want)
	got, err := parsePlacement(raw)
	if (err != nil) != (failed != nil) {
		t.Fatalf("error %v; the generated code says %v", err, failed)
	}
	if err == nil && !proto.Equal(got, want) {
		t.Fatalf("read %v; want %v", got, want)
	}
	for i := range raw { // what was read does not depend on the buffer it came in
		raw[i] = 0xff
	}
	if err == nil && !proto.Equal(got, want) {
		t.Fatalf("with the buffer it became %v; want %v", got, want)
	}
}

func TestPlacementsAreRead(t *testing.T) { rapid.Check(t, placementsAreRead) }

func FuzzPlacementsAreRead(f *testing.F) { f.Fuzz(rapid.MakeFuzz(placementsAreRead)) }
