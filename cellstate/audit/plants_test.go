package audit_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const gi = 1 << 30

// plant is a cell in which a test breaks promises, beside all checks.
type plant struct {
	*testing.T
	*celltest.Cell
	store *memstore.Store
}

// write plants records as they are.
func (p *plant) write(records ...cellstate.Record) {
	p.Helper()
	for i := range records {
		if records[i].Read == 0 {
			records[i].Read = cellstate.ReadGuarded
		}
	}
	p.Put(records...)
}

// place plants a placement that is honest but for what change does to it.
func (p *plant) place(job string, index int, node string, change func(*ohmv1.Placement), more ...cellstate.Record) {
	p.Helper()
	p.write(append(more, p.record(job, index, node, change))...)
}

func (p *plant) record(job string, index int, node string, change func(*ohmv1.Placement)) cellstate.Record {
	s := p.Snapshot()
	slot := celltest.Slot(s, celltest.Name(job), "main", index)
	c := celltest.Claim(s, slot, cellstate.NodeName(node))
	placed := &ohmv1.Placement{
		Slot: slot.Proto(), Attempt: int32(c.Attempt), Node: node, Resources: proto.CloneOf(c.Resources), Gpus: c.GPUs, Precedence: int32(c.Precedence),
		Scheduler: "batch", Instance: "planted", Txn: fmt.Sprintf("planted-%s-%d", job, index), Mode: cellstate.Incremental, TxnClaims: 1,
		SnapshotRevision: int64(s.Revision()), JobRevision: int64(c.JobRevision), Fence: &ohmv1.Fence{Records: 1},
	}
	if n := s.Node(cellstate.NodeName(node)); n != nil {
		placed.Fence.Compared = int64(n.Fence)
	}
	if change != nil {
		change(placed)
	}
	return cellstate.Record{Key: slot.PlacementKey(), Value: placed}
}

// row is the task of job index 0.
func (p *plant) row(job string) *cellstate.Task {
	s := p.Snapshot()
	return s.Job(celltest.Name(job)).Task(celltest.Slot(s, celltest.Name(job), "main", 0))
}

// marked is a placement's record as a victim of a transaction.
func marked(old *cellstate.Placement, by string, fence *ohmv1.Fence) cellstate.Record {
	v := proto.CloneOf(old.Record())
	v.EvictedBy, v.Fence = by, fence
	return cellstate.Record{Key: old.Slot.PlacementKey(), Value: v, Read: old.Revision}
}

func victims(old *cellstate.Placement) func(*ohmv1.Placement) {
	return func(p *ohmv1.Placement) { p.Victims = []*ohmv1.Victim{celltest.Victim(old)}; p.Fence.Records = 2 }
}

// plants has one of each kind of violation that a store can show. Each plants exactly one.
func plants() []struct {
	name   string
	law    string
	detail string
	plant  func(*plant)
} {
	return []struct {
		name   string
		law    string
		detail string
		plant  func(*plant)
	}{
		{"cpu", audit.L1, "node n1 has 4 of cpu, charged with 5", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Resources.CpuMilli = 5000 })
		}},
		{"memory", audit.L1, "has 4Gi of memory, charged with 5Gi", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Resources.MemoryBytes = 5 * gi })
		}},
		{"disk", audit.L1, "of disk", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Resources.DiskBytes = 5 * gi })
		}},
		{"two that do not fit together", audit.L1, "charged with 6", func(p *plant) {
			three := func(r *ohmv1.Placement) { r.Resources.CpuMilli = 3000 }
			p.place("a", 0, "n1", three)
			p.place("a", 1, "n1", func(r *ohmv1.Placement) { three(r); r.Fence.Compared = int64(p.Snapshot().Revision()) })
		}},
		{"device shares", audit.L1, "node n1 has 1000m of device gpu-0, charged with 1200m", func(p *plant) {
			p.place("gpu", 0, "n1", nil)
			p.place("gpu", 1, "n1", func(r *ohmv1.Placement) { r.Fence.Compared = int64(p.Snapshot().Revision()) })
		}},
		{"two apart on one node", audit.L7, "antiAffinity to group main of job apart within node: default/apart/main/0@1 is on node n1, too, in node n1", func(p *plant) {
			p.Job(celltest.Job{Name: "apart", Count: 2, Distinct: "node"})
			p.place("apart", 0, "n1", nil)
			p.place("apart", 1, "n1", func(r *ohmv1.Placement) { r.Fence.Compared = int64(p.Snapshot().Revision()) })
		}},
		{"a newcomer whom another's rule forbids", audit.L7, "antiAffinity to job a within node: default/quiet/main/0@1 is on node n1", func(p *plant) {
			p.Job(celltest.Job{Name: "quiet", AntiAffinity: []*ohmv1.Affinity{{To: &ohmv1.Selector{Job: "a"}, Within: "node", Required: true}}})
			p.place("quiet", 0, "n1", nil)
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Fence.Compared = int64(p.Snapshot().Revision()) })
		}},
		{"none to be near to", audit.L7, "affinity to job a within node: there is none in node n1", func(p *plant) {
			p.Job(celltest.Job{Name: "near", Affinity: []*ohmv1.Affinity{{To: &ohmv1.Selector{Job: "a"}, Within: "node", Required: true}}})
			p.place("near", 0, "n1", nil)
		}},
		{"a skewed spread", audit.L7, "spread over node: 2 tasks in node n1", func(p *plant) {
			p.Node(celltest.Node{Name: "n2"})
			for _, name := range []cellstate.NodeName{"n1", "n2"} {
				p.write(cellstate.Record{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: string(name)}})
			}
			p.Job(celltest.Job{Name: "spread", Count: 2, Spread: &ohmv1.Spread{Over: "node", MaxSkew: 1, Required: true}})
			p.place("spread", 0, "n1", nil)
			p.place("spread", 1, "n1", func(r *ohmv1.Placement) { r.Fence.Compared = int64(p.Snapshot().Revision()) })
		}},
		{"unknown device", audit.L1, "node n1 has no device gpu-7", func(p *plant) {
			p.place("gpu", 0, "n1", func(r *ohmv1.Placement) { r.Gpus[0].Id = "gpu-7" })
		}},
		{"a share below nothing", audit.L1, "a share of -1m", func(p *plant) {
			p.place("gpu", 0, "n1", func(r *ohmv1.Placement) { r.Gpus[0].Milli = -1 })
		}},
		{"port with two owners", audit.L1, "port 80 of node n1 belongs to default/a/main/0@1", func(p *plant) {
			port := func(r *ohmv1.Placement) { r.Ports = []*ohmv1.Port{{Number: 80}}; r.Fence.Records = 2 }
			p.place("a", 0, "n1", port, p.record("a", 1, "n1", port))
		}},
		{"unknown node", audit.L1, "node n9 is not known", func(p *plant) { p.place("a", 0, "n9", nil) }},
		{"ineligible node", audit.L1, "node n1 took no new tasks", func(p *plant) {
			p.Intent(&ohmv1.Intent{Node: "n1", Ineligible: true})
			p.place("a", 0, "n1", nil)
		}},
		{"draining node", audit.L1, "node n1 took no new tasks", func(p *plant) {
			p.Intent(&ohmv1.Intent{Node: "n1", Drain: true})
			p.place("a", 0, "n1", nil)
		}},
		{"a record of another slot", audit.L2, "the record is of slot default/a/main/1@1", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Slot.Index = 1 })
		}},
		{"attempt 0", audit.L2, "attempt 0", func(p *plant) { p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Attempt = 0 }) }},
		{"attempt used again", audit.L2, "attempt 1, but attempt 1 has ended", func(p *plant) {
			p.Release(p.Place("a", 0, "n1").Slot, task.Failed)
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Attempt = 1 })
		}},
		{"a live slot taken", audit.L2, "took the slot from the live placement", func(p *plant) {
			p.Place("a", 0, "n1")
			p.place("a", 0, "n1", nil)
		}},
		{"deleted without an end", audit.L2, "was deleted without an ended record", func(p *plant) {
			p.write(cellstate.Record{Key: p.Place("a", 0, "n1").Slot.PlacementKey()})
		}},
		{"an end of something else", audit.L2, "the record is of slot default/a/main/0@1, attempt 1", func(p *plant) {
			live := p.Place("a", 0, "n1")
			p.Release(live.Slot, task.Failed)
			p.write(cellstate.Record{Key: live.Slot.EndedKey(7), Value: p.row("a").Ended[0].Ended})
		}},
		{"ended and live", audit.L2, "has ended and is live", func(p *plant) {
			live := p.Place("a", 0, "n1")
			p.write(cellstate.Record{Key: live.Slot.EndedKey(1), Value: &ohmv1.Ended{Placement: live.Record()}})
		}},
		{"an end written over", audit.L2, "stood here", func(p *plant) {
			p.Release(p.Place("a", 0, "n1").Slot, task.Failed)
			over := proto.CloneOf(p.row("a").Ended[0].Ended)
			over.Placement.Txn = "another"
			p.write(cellstate.Record{Key: p.row("a").Slot.EndedKey(1), Value: over})
		}},
		{"a part of a gang", audit.L3, "1 of 3 claims", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Mode, r.TxnClaims = cellstate.Atomic, 3 })
		}},
		{"a gang below its minimum", audit.L3, "the gang begins with 1 of at least 2 tasks in transaction w", func(p *plant) {
			p.Job(celltest.Job{Name: "g", Kind: "ml", Gang: true, Count: 2})
			p.place("g", 0, "n1", func(r *ohmv1.Placement) {
				r.Mode, r.Txn, r.World, r.WorldSize, r.Scheduler = cellstate.Atomic, "w", "w", 1, "ml"
			})
		}},
		{"no job", audit.L4, "there is no job default/none", func(p *plant) { p.place("none", 0, "n1", nil) }},
		{"stopped job", audit.L4, "the job was stopped", func(p *plant) {
			p.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Stopped = true })
			p.place("a", 0, "n1", nil)
		}},
		{"done job", audit.L4, "the job was done", func(p *plant) {
			p.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{} })
			p.place("a", 0, "n1", nil)
		}},
		{"changed job", audit.L4, "the claim saw version 1", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.JobRevision-- })
		}},
		{"scheduler", audit.L4, "placed by scheduler other", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Scheduler = "other" })
		}},
		{"precedence", audit.L4, "placed with precedence 399", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Precedence = 399 })
		}},
		{"victim deleted in the same commit", audit.L5, "was deleted in the same commit", func(p *plant) {
			old := p.Place("low", 0, "n1")
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { victims(old)(r); r.Fence.Records = 1 },
				cellstate.ReleaseRecords(p.row("low"), celltest.StatusOf(old, task.Stopped))...)
		}},
		{"victim of the same precedence", audit.L5, "has precedence 100, itself 100", func(p *plant) {
			old := p.Place("a", 1, "n1")
			next := p.record("a", 0, "n1", victims(old))
			p.write(next, marked(old, next.Value.(*ohmv1.Placement).Txn, next.Value.(*ohmv1.Placement).Fence))
		}},
		{"victim not marked", audit.L5, "is not marked", func(p *plant) {
			old := p.Place("low", 0, "n1")
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { victims(old)(r); r.Fence.Records = 1 })
		}},
		{"victim that is not there", audit.L5, "was not there", func(p *plant) {
			old := p.Place("low", 0, "n1")
			p.Release(old.Slot, task.Failed)
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { victims(old)(r); r.Fence.Records = 1 })
		}},
		{"marked without an heir", audit.L5, "which commits nothing on n1 here", func(p *plant) {
			old := p.Place("low", 0, "n1")
			p.write(marked(old, "nobody", &ohmv1.Fence{Compared: int64(p.Snapshot().Node("n1").Fence), Records: 1}))
		}},
		{"applied twice", audit.L6, "was applied again", func(p *plant) {
			old := p.Place("a", 0, "n1")
			p.Release(old.Slot, task.Failed)
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Txn = old.GetTxn() })
		}},
		{"a hold without room", audit.Holds, "has 4 of cpu, charged with 4.1, holds included", func(p *plant) {
			p.Place("a", 0, "n1")
			p.Hold(&ohmv1.Hold{Node: "n1", Txn: "x", Resources: &ohmv1.Resources{CpuMilli: 4000}})
		}},
		{"two holds of the same room", audit.Holds, "has 1000m of device gpu-0, charged with 1200m, holds included", func(p *plant) {
			for _, txn := range []string{"x", "y"} {
				p.Hold(&ohmv1.Hold{Node: "n1", Txn: txn, Gpus: []*ohmv1.DeviceShare{{Id: "gpu-0", Milli: 600}}})
			}
		}},
		{"a claim in held room", audit.Holds, "charged with 4.1, holds included", func(p *plant) {
			p.Hold(&ohmv1.Hold{Node: "n1", Txn: "x", Precedence: celltest.BatchLevel, Resources: &ohmv1.Resources{CpuMilli: 4000}})
			p.place("a", 0, "n1", nil)
		}},
		{"a claim in reserved room", audit.Holds, "charged with 4.1, holds included", func(p *plant) {
			p.Hold(&ohmv1.Hold{Node: "n1", Txn: "x", Precedence: celltest.BatchLevel, Resources: &ohmv1.Resources{CpuMilli: 4000}, Reserves: true, Starts: timestamppb.New(time.Unix(100, 0))})
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.LatestEnd = timestamppb.New(time.Unix(101, 0)) })
		}},
		{"an eviction where room is reserved", audit.Holds, "evicts on node n1, where room is reserved", func(p *plant) {
			old := p.Place("low", 0, "n1")
			p.Hold(&ohmv1.Hold{Node: "n1", Txn: "x", Precedence: celltest.BatchLevel, Resources: &ohmv1.Resources{CpuMilli: 100}, Reserves: true})
			next := p.record("a", 0, "n1", victims(old))
			p.write(next, marked(old, next.Value.(*ohmv1.Placement).Txn, next.Value.(*ohmv1.Placement).Fence))
		}},
		{"reservations of more than a node", audit.Holds, "has 4 of cpu, charged with 8, holds included", func(p *plant) {
			for _, txn := range []string{"x", "y"} {
				p.Hold(&ohmv1.Hold{Node: "n1", Txn: txn, Resources: &ohmv1.Resources{CpuMilli: 4000}, Reserves: true, Slot: &ohmv1.Slot{Job: txn}})
			}
		}},
		{"a hold that outlives its owner's commit", audit.Holds, "has committed on node n1, and its hold is still there", func(p *plant) {
			p.Hold(&ohmv1.Hold{Node: "n1", Txn: "planted-a-0", Resources: &ohmv1.Resources{CpuMilli: 4000}})
			p.place("a", 0, "n1", nil)
		}},
		{"a hold put without its fence", audit.Fences, "came without the fence of node n1", func(p *plant) {
			p.write(cellstate.Record{Key: cellstate.HoldKey("n1", "x"), Value: &ohmv1.Hold{Node: "n1", Txn: "x"}})
		}},
		{"fence compared", audit.Fences, "compared the fence of node n1 with", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Fence.Compared-- })
		}},
		{"fence count", audit.Fences, "1 records came with the fence of node n1, it says 2", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Fence.Records = 2 })
		}},
		{"no fence", audit.Fences, "came without the fence", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Fence = nil })
		}},
		{"beyond a quota, within a share", audit.Quotas, "namespace default has a quota of 150m cpu, uses 200m", func(p *plant) {
			p.place("a", 0, "n1", func(r *ohmv1.Placement) { r.Instance = "other" })
			fence := int64(p.Snapshot().Revision())
			p.Quota(celltest.Namespace("default"), celltest.CPU(150))
			p.Share(celltest.Account(celltest.Namespace("default"), "planted"), celltest.CPU(150))
			p.place("a", 1, "n1", func(r *ohmv1.Placement) { r.Fence.Compared = fence })
		}},
		{"beyond a share, within a quota", audit.Quotas, "batch planted spends 100m cpu of a share of 50m in scheduler batch", func(p *plant) {
			scope := cellstate.Scope{Kind: cellstate.SchedulerScope, Name: "batch"}
			p.Quota(scope, celltest.CPU(150))
			p.Share(celltest.Account(scope, "planted"), celltest.CPU(50))
			p.place("a", 0, "n1", nil)
		}},
		{"shares beyond a quota", audit.Quotas, "namespace default has a quota of 150m cpu, its shares sum to 200m", func(p *plant) {
			scope := celltest.Namespace("default")
			p.Quota(scope, celltest.CPU(150))
			p.Share(celltest.Account(scope, "one"), celltest.CPU(100))
			p.Share(celltest.Account(scope, "two"), celltest.CPU(100))
		}},
		{"more evicted than a budget allows", audit.L8, "of group main of job web 2 tasks are given up, of at most 1", func(p *plant) {
			web := budgeted(p)
			next := p.record("a", 0, "n1", func(r *ohmv1.Placement) {
				victims(web[0])(r)
				r.Victims, r.Fence.Records = append(r.Victims, celltest.Victim(web[1])), 3
			})
			by, fence := next.Value.(*ohmv1.Placement).Txn, next.Value.(*ohmv1.Placement).Fence
			p.write(next, marked(web[0], by, fence), marked(web[1], by, fence))
		}},
		{"more drained than a budget allows", audit.L8, "of group main of job web 2 tasks are given up, of at most 1", func(p *plant) {
			web := budgeted(p)
			b, _ := p.Snapshot().Budget(p.Snapshot().Job(celltest.Name("web")), "main")
			p.Write(cellstate.GiveUp(p.Snapshot(), b, web[:1]))
			p.End(web[0].Slot, task.Drained) // it has not come again yet
			p.Write(cellstate.GiveUp(p.Snapshot(), b, web[1:]))
		}},
		{"more live than the job allows", audit.L9, "2 tasks of the job are live, of at most 1 at a time", func(p *plant) {
			p.Place("a", 0, "n1")
			p.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Spec.MaxParallel = 1 })
			p.write(p.record("a", 1, "n1", func(*ohmv1.Placement) {}))
		}},
		{"a node put without its fence", audit.Fences, "came without the fence of node n1", func(p *plant) {
			p.write(cellstate.Record{Key: cellstate.NodeKey("n1"), Value: node().Proto()})
		}},
	}
}

// budgeted is a service of two tasks that run, of which one may be down at a time.
func budgeted(p *plant) (tasks []*cellstate.Placement) {
	p.Job(celltest.Job{Name: "web", Kind: "service", Count: 2, CPU: 100, Disruption: &ohmv1.Disruption{MaxUnavailable: 1}})
	for i := range 2 {
		tasks = append(tasks, p.Place("web", i, "n1"))
		p.Status(tasks[i].Slot, task.Running)
	}
	return tasks
}

func node() celltest.Node {
	return celltest.Node{Name: "n1", CPU: 4000, Memory: 4 * gi, Disk: 4 * gi, GPUs: 1, Model: "T4"}
}

func newPlant(t *testing.T) *plant {
	store := memstore.New()
	p := &plant{t, celltest.New(t, store), store}
	p.Node(node())
	p.Job(celltest.Job{Name: "a", Count: 2, CPU: 100, Precedence: celltest.BatchLevel})
	p.Job(celltest.Job{Name: "low", CPU: 100})
	p.Job(celltest.Job{Name: "gpu", Count: 2, GPUs: 1, Share: 600})
	return p
}
