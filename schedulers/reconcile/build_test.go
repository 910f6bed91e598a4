package reconcile_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// t0 is when the jobs of these tests are submitted.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

func stamp(seconds float64) *timestamppb.Timestamp { return timestamppb.New(at(seconds)) }

// build collects the records of a cell.
type build struct {
	t       testing.TB
	records []cellstate.Change
	spec    *ohmv1.JobSpec
}

// newBuild is a cell with one job "j" of the kind, with one group "main".
func newBuild(t testing.TB, kind string, count int32, change ...func(*ohmv1.Job)) *build {
	b := &build{t: t}
	job := &ohmv1.Job{
		Spec: &ohmv1.JobSpec{
			Namespace: "default", Name: "j", Kind: kind, Scheduler: kind, Precedence: proto.Int32(100),
			Groups: []*ohmv1.Group{{Name: "main", Count: count}},
		},
		Version: 1, SubmitTime: stamp(0),
	}
	for _, c := range change {
		c(job)
	}
	b.spec = job.Spec
	b.put(cellstate.JobKey(jobName()), job)
	return b
}

func jobName() cellstate.JobName { return cellstate.JobName{Namespace: "default", Name: "j"} }

func parallel(n int32) func(*ohmv1.Job) { return func(j *ohmv1.Job) { j.Spec.MaxParallel = n } }
func allowed(n int32) func(*ohmv1.Job)  { return func(j *ohmv1.Job) { j.Spec.AllowedFailures = n } }
func retries(n int32) func(*ohmv1.Job)  { return func(j *ohmv1.Job) { j.Spec.Retries = n } }
func stopped(j *ohmv1.Job)              { j.Stopped = true }
func version(v int64) func(*ohmv1.Job)  { return func(j *ohmv1.Job) { j.Version = v } }
func gangTimeout(then string, d time.Duration) func(*ohmv1.Job) {
	return func(j *ohmv1.Job) {
		j.Spec.Gang = &ohmv1.Gang{OnTimeout: then, Timeout: durationpb.New(d)}
	}
}

func (b *build) put(key cellstate.Key, value proto.Message) *build {
	b.records = append(b.records, cellstate.Change{Key: key, Value: value, Revision: cellstate.Revision(len(b.records) + 1)})
	return b
}

func slot(index int) cellstate.Slot { return slotV(index, 1) }

func slotV(index int, version int64) cellstate.Slot {
	return cellstate.Slot{Namespace: "default", Job: "j", Group: "main", Index: index, Version: version}
}

func placement(s cellstate.Slot, attempt int, node string) *ohmv1.Placement {
	return &ohmv1.Placement{Slot: s.Proto(), Attempt: int32(attempt), Node: node, Precedence: 100, Scheduler: "batch", Txn: "TXN", Time: stamp(0)}
}

// live puts a live placement, with a status if state is one.
func (b *build) live(s cellstate.Slot, attempt int, node string, state task.State) *build {
	b.put(s.PlacementKey(), placement(s, attempt, node))
	if state != task.Unknown {
		b.put(s.StatusKey(), &ohmv1.Status{Slot: s.Proto(), Attempt: int32(attempt), State: state, Started: stamp(0)})
	}
	return b
}

// never is when an attempt started that did not.
const never = -1

// end is how an attempt ended.
type end struct {
	cause   string
	code    int32
	started float64
	at      float64
}

func exit(code int32, at float64) end      { return end{task.Exited, code, at, at} }
func because(cause string, at float64) end { return end{cause, 0, at, at} }
func after(e end, started float64) end     { e.started = started; return e }
func (b *build) node(n *ohmv1.Node) *build {
	return b.put(cellstate.NodeKey(cellstate.NodeName(n.Name)), n)
}
func (b *build) intent(i *ohmv1.Intent) *build {
	return b.put(cellstate.IntentKey(cellstate.NodeName(i.Node)), i)
}

// up puts nodes with a live session.
func (b *build) up(names ...string) *build {
	for _, n := range names {
		b.node(&ohmv1.Node{Name: n})
		b.put(cellstate.AliveKey(cellstate.NodeName(n)), &ohmv1.Alive{Node: n})
	}
	return b
}

// ended puts ended attempts of a slot, numbered from 1, all on node n1.
func (b *build) ended(s cellstate.Slot, ends ...end) *build { return b.endedOn("n1", s, ends...) }

func (b *build) endedOn(node string, s cellstate.Slot, ends ...end) *build {
	for i, e := range ends {
		state := task.Failed
		switch {
		case e.cause == task.Exited && e.code == 0:
			state = task.Succeeded
		case e.cause == task.NodeLost:
			state = task.Lost
		}
		status := &ohmv1.Status{
			Slot: s.Proto(), Attempt: int32(i + 1), Node: node, State: state, Cause: e.cause, ExitCode: e.code,
			Started: stamp(e.started), Ended: stamp(e.at),
		}
		if e.started == never {
			status.Started = nil
		}
		b.put(s.EndedKey(i+1), &ohmv1.Ended{Placement: placement(s, i+1, node), Status: status})
	}
	return b
}

func (b *build) registered(instances ...string) *build {
	name := b.spec.Scheduler
	b.put(cellstate.SchedulerKey(name), &ohmv1.Scheduler{Name: name, Created: stamp(-1000)})
	for _, i := range instances {
		b.put(cellstate.InstanceKey(name, i), &ohmv1.SchedulerInstance{Scheduler: name, Instance: i})
	}
	return b
}

// snapshot is the cell, and the job's row.
func (b *build) snapshot() (*cellstate.Snapshot, *cellstate.Job) {
	b.t.Helper()
	s, err := cellstate.NewSnapshot(cellstate.Revision(len(b.records)), b.records, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	j := s.Job(jobName())
	if j == nil {
		b.t.Fatal("the job is not in the snapshot")
	}
	return s, j
}
