package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// vandal writes into a running cell's etcd what no part of Ohm would. Each thing that it
// plants has a simulated node and a job of its own, which no scheduler looks at.
type vandal struct {
	t    *testing.T
	etcd *clientv3.Client
	next int
}

func (v *vandal) put(k cellstate.Key, value proto.Message) clientv3.Op {
	v.t.Helper()
	raw, err := proto.Marshal(value)
	if err != nil {
		v.t.Fatal(err)
	}
	return clientv3.OpPut("/ohm/default/"+string(k), string(raw))
}

// write writes all of it at one revision, which it returns.
func (v *vandal) write(ops ...clientv3.Op) int64 {
	v.t.Helper()
	resp, err := v.etcd.Txn(v.t.Context()).Then(ops...).Commit()
	if err != nil {
		v.t.Fatal(err)
	}
	return resp.Header.Revision
}

// victim is a job with a node to itself.
type victim struct {
	*vandal
	slot  cellstate.Slot
	node  string
	jobAt int64
}

// job plants a job that nothing is wrong with.
func (v *vandal) job(name string) *victim {
	v.t.Helper()
	slot := cellstate.Slot{Namespace: "default", Job: name, Group: "main", Version: 1}
	at := v.write(v.put(cellstate.JobKey(slot.JobName()), &ohmv1.Job{Version: 1, Spec: &ohmv1.JobSpec{
		Namespace: "default", Name: name, Kind: "batch", Scheduler: "nobody", Precedence: proto.Int32(100),
		Groups: []*ohmv1.Group{{Name: "main", Count: 3, Command: []string{"true"}, Resources: &ohmv1.Resources{CpuMilli: 100}}},
	}}))
	v.next++
	return &victim{v, slot, fmt.Sprintf("hollow-%05d", v.next), at}
}

// placement is an honest one, with the fence that has to be bumped with it.
func (v *victim) placement() (*ohmv1.Placement, clientv3.Op) {
	v.t.Helper()
	fence := "/ohm/default!f/" + v.node
	resp, err := v.etcd.Get(v.t.Context(), fence)
	if err != nil || len(resp.Kvs) != 1 {
		v.t.Fatalf("fence of %s: %v, %v", v.node, resp, err)
	}
	return &ohmv1.Placement{
		Slot: v.slot.Proto(), Attempt: 1, Node: v.node, Resources: &ohmv1.Resources{CpuMilli: 100}, Precedence: 100,
		Scheduler: "nobody", Instance: "one", Txn: "planted-" + v.slot.Job, Mode: cellstate.Incremental, TxnClaims: 1,
		SnapshotRevision: v.jobAt, JobRevision: v.jobAt,
		Fence: &ohmv1.Fence{Compared: resp.Kvs[0].ModRevision, Records: 1},
	}, clientv3.OpPut(fence, "")
}

// place plants a placement with something wrong about it.
func (v *victim) place(wrong func(*ohmv1.Placement)) *ohmv1.Placement {
	v.t.Helper()
	p, fence := v.placement()
	if wrong != nil {
		wrong(p)
	}
	v.write(v.put(v.slot.PlacementKey(), p), fence)
	return p
}

// The audit of a running cell finds each kind of violation that a store can show, names
// the promise and the record, and exits with 1.
func TestAuditFindsPlanted(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t), "--hollow-nodes", "10")
	d.run(batch("honest", 3))
	type report struct {
		FromRevision, ToRevision, Revisions, Transactions, Placements int64
		Violations                                                    []struct {
			Revision         int64
			Law, Key, Detail string
		}
	}
	if r := read[report](d.client, "audit"); len(r.Violations) != 0 || r.Placements != 3 || r.FromRevision < 1 || r.ToRevision <= r.FromRevision {
		t.Fatalf("before: %+v", r)
	}

	v := &vandal{t: t, etcd: d.store()}
	v.write(v.put(cellstate.SchedulerKey("nobody"), &ohmv1.Scheduler{Name: "nobody"}))
	var want []string
	expect := func(law string, k cellstate.Key) { want = append(want, law+" "+string(k)) }

	a := v.job("too-large")
	a.place(func(p *ohmv1.Placement) { p.Resources.CpuMilli = 65_000 })
	expect("L1", a.slot.PlacementKey())

	a = v.job("slot-taken")
	a.place(nil)
	a.place(func(p *ohmv1.Placement) { p.Txn = "another" })
	expect("L2", a.slot.PlacementKey())

	a = v.job("half-a-gang")
	a.place(func(p *ohmv1.Placement) { p.Mode, p.TxnClaims = cellstate.Atomic, 3 })
	expect("L3", a.slot.PlacementKey())

	a = v.job("not-its-job")
	a.place(func(p *ohmv1.Placement) { p.Scheduler = "batch" })
	expect("L4", a.slot.PlacementKey())

	a = v.job("no-heir")
	a.place(nil)
	a.place(func(p *ohmv1.Placement) { p.EvictedBy = "a-ghost" })
	expect("L5", a.slot.PlacementKey())

	a = v.job("applied-twice")
	p, _ := a.placement()
	v.write(v.put(a.slot.EndedKey(1), &ohmv1.Ended{
		Placement: p, PlacementRevision: 1, Status: &ohmv1.Status{Slot: p.Slot, Attempt: 1, Txn: p.Txn, Node: p.Node, State: ohmv1.TaskState_TASK_STATE_FAILED},
	}))
	a.place(func(p *ohmv1.Placement) { p.Attempt = 2 })
	expect("L6", a.slot.PlacementKey())

	a = v.job("no-fence")
	a.place(func(p *ohmv1.Placement) { p.Fence.Compared-- })
	expect("fences", a.slot.PlacementKey())

	got := d.try("audit", "-o", "json")
	if got.code != 1 {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	var found []string
	for _, x := range decode[report](t, got.stdout).Violations {
		found = append(found, x.Law+" "+x.Key)
		if x.Revision == 0 || x.Detail == "" {
			t.Errorf("it does not say when and what: %+v", x)
		}
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("it found\n%q\nplanted were\n%q\n%s", found, want, got.stdout)
	}
}

// A live audit of a running cell ends at the first broken promise, and says which.
func TestAuditFollows(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t), "--hollow-nodes", "2")
	follower := start(t, "ohm", "--address", d.address, "audit", "--follow")
	within(t, patience, "the audit follows", func() bool { return strings.Contains(follower.stderr(), "following from revision") })
	d.run(batch("honest", 2))
	v := &vandal{t: t, etcd: d.store()}
	v.write(v.put(cellstate.SchedulerKey("nobody"), &ohmv1.Scheduler{Name: "nobody"}))
	a := v.job("too-large")
	if !follower.running() {
		t.Fatalf("it ended before anything was wrong: %s%s", follower.stdout(), follower.stderr())
	}
	a.place(func(p *ohmv1.Placement) { p.Resources.CpuMilli = 65_000 })
	within(t, patience, "the audit ends", func() bool { return !follower.running() })
	if follower.code() != 1 || !strings.Contains(follower.stdout(), string(a.slot.PlacementKey())) || !strings.Contains(follower.stdout(), "2 transactions") {
		t.Errorf("exit code %d: %s%s", follower.code(), follower.stdout(), follower.stderr())
	}
}
