package cellstate

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// drawPlacement is a record of a slot's placement: as schedulers write them, of which much is
// the same; or with parts that are absent, or there but empty, or another's.
func drawPlacement(t *rapid.T, slot Slot) *ohmv1.Placement {
	some := func(what string) bool { return rapid.IntRange(0, 5).Draw(t, what) == 0 }
	one := func(what string) int64 { return rapid.SampledFrom([]int64{0, 1, 1 << 40, -1}).Draw(t, what) }
	p := &ohmv1.Placement{
		Slot: slot.Proto(), Attempt: int32(one("attempt")), Node: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"),
		Resources: &ohmv1.Resources{CpuMilli: 1 + rapid.Int64Range(0, 1).Draw(t, "cpu")}, Precedence: 100,
		Scheduler: "batch", Instance: "batch-0", Txn: "01KB", Mode: Incremental, TxnClaims: 3, SnapshotRevision: 7, JobRevision: one("job"),
		Time: &timestamppb.Timestamp{Seconds: 5}, Fence: &ohmv1.Fence{Compared: one("compared"), Records: int32(one("records"))},
	}
	if some("gang") {
		p.World, p.WorldSize, p.Rank = "01KA", 4, int32(one("rank"))
	}
	if some("slot of another") {
		p.Slot = rapid.SampledFrom([]*ohmv1.Slot{nil, {}, {Namespace: "default", Job: "other", Group: "main"},
			{Namespace: slot.Namespace, Job: slot.Job, Group: slot.Group, Index: int32(slot.Index), Version: slot.Version + 1}}).Draw(t, "slot")
	}
	if some("resources left out") {
		p.Resources = nil
	}
	if some("fence left out") {
		p.Fence = nil
	}
	if some("gpus") {
		p.Gpus, p.Ports = []*ohmv1.DeviceShare{{Id: "gpu0", Milli: 500}, {}}, []*ohmv1.Port{{Name: "http", Number: 80}}
		p.Victims, p.EvictedBy = []*ohmv1.Victim{{Txn: "other"}}, "another"
	}
	// What a later release has added, field 1023 of the record or of a part of it, is kept.
	later := []byte{0xfa, 0x3f, 2, 'h', 'i'}
	for _, m := range []proto.Message{p, p.Slot, p.Fence, p.Resources} {
		if m.ProtoReflect().IsValid() && some("unknown") {
			m.ProtoReflect().SetUnknown(later)
		}
	}
	return p
}

func drawSlot(t *rapid.T) Slot {
	name := rapid.SampledFrom([]string{"a", "ab", "b"})
	return Slot{name.Draw(t, "namespace"), name.Draw(t, "job"), name.Draw(t, "group"), rapid.IntRange(-1, 11).Draw(t, "index"), rapid.Int64Range(0, 2).Draw(t, "version")}
}

// recordsAreRead holds a reader, which takes parts of records for the same as before, against
// the generated code.
func recordsAreRead(t *rapid.T) {
	var r Reader
	type read struct {
		c    Change
		want proto.Message
	}
	var all []read
	for range rapid.IntRange(1, 6).Draw(t, "records") {
		slot := drawSlot(t)
		var key Key
		var value proto.Message
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			key, value = slot.StatusKey(), &ohmv1.Status{Attempt: 2, Message: "text"}
		case 1:
			key, value = slot.EndedKey(3), &ohmv1.Ended{PlacementRevision: 5}
		case 2:
			key, value = JobKey(slot.JobName()), &ohmv1.Job{Version: 3}
		case 3:
			key = Key(fmt.Sprint("tasks/a/b/a/", rapid.SampledFrom([]string{"1/placement", "x@1/placement", "1@1/later", "1@2/placement/more", "@"}).Draw(t, "odd")))
		default:
			key, value = slot.PlacementKey(), drawPlacement(t, slot)
		}
		var raw []byte
		if value != nil {
			raw, _ = proto.Marshal(value)
		}
		if rapid.IntRange(0, 4).Draw(t, "torn") == 0 {
			raw = raw[:rapid.IntRange(0, len(raw)).Draw(t, "length")]
		}
		deleted := value != nil && rapid.IntRange(0, 4).Draw(t, "deleted") == 0
		var want proto.Message
		var failed error
		if want = key.Parse().Kind.NewValue(); want != nil {
			failed = proto.Unmarshal(raw, want)
		}
		if deleted || failed != nil {
			want = nil
		}
		c, err := r.Change(key, raw, 9, deleted)
		if (err != nil) != (failed != nil && !deleted) {
			t.Fatalf("%s: error %v; the generated code says %v", key, err, failed)
		}
		if c.Key != key || c.Revision != 9 || c.Deleted != deleted {
			t.Fatalf("%s, deleted %v, became %+v", key, deleted, c)
		}
		k := key.Parse()
		if c.kind != KindUnknown && (c.kind != k.Kind || c.slot != k.Slot || c.attempt != k.Attempt) {
			t.Fatalf("%s was taken for %v of %v, %d", key, c.kind, c.slot, c.attempt)
		}
		for i := range raw { // what was read does not depend on the buffer it came in
			raw[i] = 0xff
		}
		all = append(all, read{c, want})
	}
	for _, got := range all {
		record := got.c.Record()
		if (record == nil) != (got.want == nil) || record != nil && !proto.Equal(record, got.want) {
			t.Fatalf("read %v; want %v", record, got.want)
		}
		if m, ok := got.want.(*ohmv1.Placement); ok {
			rowSays(t, &got.c.placed.placement, m)
		}
	}
}

// rowSays holds what a row says of its record against the record.
func rowSays(t *rapid.T, p *Placement, m *ohmv1.Placement) {
	got := &ohmv1.Placement{
		Slot: p.GetSlot(), Attempt: p.GetAttempt(), Node: p.GetNode(), Resources: p.GetResources(), Gpus: p.GetGpus(), Ports: p.GetPorts(),
		Precedence: p.GetPrecedence(), Scheduler: p.GetScheduler(), Instance: p.GetInstance(), Txn: p.GetTxn(), Mode: p.GetMode(),
		TxnClaims: p.GetTxnClaims(), SnapshotRevision: p.GetSnapshotRevision(), JobRevision: p.GetJobRevision(), Victims: p.GetVictims(),
		EvictedBy: p.GetEvictedBy(), Time: p.GetTime(), Fence: m.GetFence(), World: p.GetWorld(), WorldSize: m.GetWorldSize(), Rank: p.rank,
	}
	got.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
	if !proto.Equal(got, m) || p.compared != Revision(m.GetFence().GetCompared()) || p.records != m.GetFence().GetRecords() {
		t.Fatalf("the row of %v says %v", m, got)
	}
}

// TestOnlyTheSameIsShared reads records of which one begins as the other does.
func TestOnlyTheSameIsShared(t *testing.T) {
	slot := Slot{"default", "j", "main", 1, 1}
	short := &ohmv1.Placement{Slot: slot.Proto(), Node: "n1", Txn: "T", Fence: &ohmv1.Fence{Records: 1}}
	long := proto.CloneOf(short)
	long.Mode, long.EvictedBy = Atomic, "U"
	var r Reader
	for _, want := range []*ohmv1.Placement{long, short, long} {
		raw, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.Change(slot.PlacementKey(), raw, 1, false)
		if err != nil || c.placed.placement.whole || !proto.Equal(c.Record(), want) {
			t.Errorf("read %v, %v; want %v", c.Record(), err, want)
		}
	}
}

// TestOddPlacementsAreKept reads records that say what a row cannot.
func TestOddPlacementsAreKept(t *testing.T) {
	slot := Slot{"default", "j", "main", 1, 1}
	later := []byte{0x48, 7} // field 9, a number
	for what, change := range map[string]func(*ohmv1.Placement){
		"no slot":              func(p *ohmv1.Placement) { p.Slot = nil },
		"another index":        func(p *ohmv1.Placement) { p.Slot.Index = 2 },
		"another version":      func(p *ohmv1.Placement) { p.Slot.Version = 2 },
		"another job":          func(p *ohmv1.Placement) { p.Slot.Job = "k" },
		"a later field, slot":  func(p *ohmv1.Placement) { p.Slot.ProtoReflect().SetUnknown(later) },
		"no fence":             func(p *ohmv1.Placement) { p.Fence = nil },
		"a later field, fence": func(p *ohmv1.Placement) { p.Fence.ProtoReflect().SetUnknown(later) },
		"no node":              func(p *ohmv1.Placement) { p.Node = "" },
	} {
		want := &ohmv1.Placement{Slot: slot.Proto(), Node: "n1", Txn: "T", Fence: &ohmv1.Fence{Compared: 3, Records: 1}}
		change(want)
		raw, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		c, err := new(Reader).Change(slot.PlacementKey(), raw, 1, false)
		if err != nil || !proto.Equal(c.Record(), want) {
			t.Errorf("%s: read %v, %v; want %v", what, c.Record(), err, want)
		}
	}
}

func TestRecordsAreRead(t *testing.T) { rapid.Check(t, recordsAreRead) }

func FuzzRecordsAreRead(f *testing.F) { f.Fuzz(rapid.MakeFuzz(recordsAreRead)) }

// TestPlacementsShare shows that the placements of one transaction have but one copy of what
// is the same, and one of the names of their job and node.
func TestPlacementsShare(t *testing.T) {
	var r Reader
	var rows []*Placement
	for i := range 3 {
		slot := Slot{"default", "j", "main", i, 1}
		raw, err := proto.Marshal(&ohmv1.Placement{Slot: slot.Proto(), Attempt: 1, Node: "n1", Txn: "T", Resources: &ohmv1.Resources{CpuMilli: 1},
			JobRevision: int64(i), Fence: &ohmv1.Fence{Compared: int64(i), Records: 1}, World: "T", WorldSize: 3, Rank: int32(i)})
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.Change(slot.PlacementKey(), raw, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, &c.placed.placement)
	}
	if rows[0].whole || rows[1].shared != rows[0].shared || rows[2].shared != rows[0].shared {
		t.Fatal("three copies")
	}
	if n := testing.AllocsPerRun(100, func() { r.node([]byte("n1")); _ = r.task(&Change{Key: "tasks/default/j/main/1@1/placement"}) }); n > 1 {
		t.Errorf("%v allocations for names that are known", n)
	}
}
