package etcdstore

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// steady makes the messages of a watch on a cell in steady state: as many jobs go as come,
// each with one task on each of as many nodes.
type steady struct {
	tb       testing.TB
	nodes    int
	perJob   int
	chance   *rand.Rand
	revision int64
	fences   []int64
	live     []cellstate.JobName
	next     int
}

func (c *steady) node(i int) string { return fmt.Sprintf("node-%05d", i) }

func (c *steady) put(key cellstate.Key, value proto.Message) *mvccpb.Event {
	raw, err := proto.Marshal(value)
	if err != nil {
		c.tb.Fatal(err)
	}
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("/ohm/test/" + key), Value: raw, CreateRevision: c.revision, ModRevision: c.revision, Version: 1}}
}

func (c *steady) gone(key cellstate.Key) *mvccpb.Event {
	return &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte("/ohm/test/" + key), ModRevision: c.revision}}
}

func (c *steady) message(events []*mvccpb.Event) []byte {
	raw, err := proto.Marshal(&pb.WatchResponse{Header: &pb.ResponseHeader{ClusterId: 1 << 60, MemberId: 1 << 61, Revision: c.revision, RaftTerm: 2}, Events: events})
	if err != nil {
		c.tb.Fatal(err)
	}
	return raw
}

func (c *steady) start() []byte {
	c.revision++
	var events []*mvccpb.Event
	for i := range c.nodes {
		events = append(events, c.put(cellstate.NodeKey(cellstate.NodeName(c.node(i))), celltest.Node{Name: c.node(i), CPU: 64_000}.Proto()))
	}
	return c.message(events)
}

// slot of the i-th task of a job.
func (c *steady) slot(j cellstate.JobName, i int) cellstate.Slot {
	return cellstate.Slot{Namespace: j.Namespace, Job: j.Name, Group: "main", Index: i, Version: 1}
}

// submit are jobs that come and are placed whole, a hundred tasks together.
func (c *steady) submit() []byte {
	c.revision++
	job := c.revision
	var jobs, placed []*mvccpb.Event
	at := c.chance.IntN(c.nodes)
	now := timestamppb.Now()
	for range c.jobs() {
		j := cellstate.JobName{Namespace: "default", Name: fmt.Sprintf("steady-%06d", c.next)}
		c.next++
		c.live = append(c.live, j)
		c.revision = job
		jobs = append(jobs, c.put(cellstate.JobKey(j), &ohmv1.Job{Version: 1, Spec: &ohmv1.JobSpec{Namespace: "default", Name: j.Name, Kind: "batch", Scheduler: "batch",
			Groups: []*ohmv1.Group{{Name: "main", Count: int32(c.perJob), Command: []string{"true"}, Resources: &ohmv1.Resources{CpuMilli: 1000}}}}}))
		c.revision++
		for i := range c.perJob {
			at = (at + 1 + c.chance.IntN(c.nodes/perMessage)) % c.nodes
			slot := c.slot(j, i)
			placed = append(placed, c.put(slot.PlacementKey(), &ohmv1.Placement{
				Slot: slot.Proto(), Attempt: 1, Node: c.node(at), Resources: &ohmv1.Resources{CpuMilli: 1000, MemoryBytes: 1 << 30},
				Precedence: 100, Scheduler: "batch", Instance: "batch-0", Txn: fmt.Sprintf("01KB%022d", job), Mode: cellstate.Incremental,
				TxnClaims: perMessage, SnapshotRevision: job, JobRevision: job, Time: now,
				Fence: &ohmv1.Fence{Compared: c.fences[at], Records: 1},
			}))
			c.fences[at] = c.revision
		}
	}
	return c.message(append(jobs, placed...))
}

// jobs is how many come or go together.
func (c *steady) jobs() int { return perMessage / c.perJob }

// remove are jobs that go with all that is stored of them.
func (c *steady) remove() []byte {
	c.revision++
	var events []*mvccpb.Event
	for range c.jobs() {
		i := c.chance.IntN(len(c.live))
		j := c.live[i]
		c.live[i] = c.live[len(c.live)-1]
		c.live = c.live[:len(c.live)-1]
		events = append(events, c.gone(cellstate.JobKey(j)))
		for i := range c.perJob {
			events = append(events, c.gone(c.slot(j, i).PlacementKey()))
		}
	}
	return c.message(events)
}

// perMessage are the placements of one message.
const perMessage = 100

// cpuTime of this process.
func cpuTime(tb testing.TB) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkMirrorSteady is what a placement and its end cost a mirror that has 190,000, from
// the bytes of the watch to the next snapshot. CPU time is the process's, its collector's
// included.
func BenchmarkMirrorSteady(b *testing.B) {
	const live = 190_000
	for _, perJob := range []int{1, 100} {
		c := &steady{tb: b, nodes: 5000, perJob: perJob, chance: rand.New(rand.NewPCG(1, 2))}
		c.fences = make([]int64, c.nodes)
		s, err := cellstate.NewSnapshot(0, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		var reader reader
		follow := func(raw []byte) {
			reply := watchReply{prefix: "/ohm/test/", reader: &reader}
			if err := reply.parse(raw); err != nil {
				b.Fatal(err)
			}
			next, gaps, err := s.Apply(cellstate.Batch{Revision: reply.reached, Changes: reply.changes})
			if err != nil || len(gaps) > 0 {
				b.Fatal(gaps, err)
			}
			s = next
		}
		follow(c.start())
		var each float64 // bytes of memory
		b.Run(fmt.Sprintf("tasks-per-job=%d", perJob), func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the processes of a cell have it
			if each == 0 {
				var empty, full runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&empty)
				for range live / perMessage {
					follow(c.submit())
				}
				runtime.GC()
				runtime.ReadMemStats(&full)
				each = float64(full.HeapAlloc-empty.HeapAlloc) / live
			}
			b.ReportAllocs()
			b.ResetTimer()
			var cpu time.Duration
			done := 0
			for done < b.N {
				b.StopTimer()
				var messages [][]byte
				for ahead := done; ahead < b.N && len(messages) < 200; ahead += perMessage {
					messages = append(messages, c.submit(), c.remove())
				}
				before := cpuTime(b)
				b.StartTimer()
				for _, raw := range messages {
					follow(raw)
				}
				cpu += cpuTime(b) - before
				done += len(messages) / 2 * perMessage
			}
			b.ReportMetric(each, "live-B/placement")
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(done), "cpu-ns/placement")
		})
	}
}
