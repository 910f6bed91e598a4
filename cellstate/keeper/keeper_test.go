package keeper

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a cell with a mirror, in a bubble of its own time.
type house struct {
	*celltest.Cell
	t      *testing.T
	store  *memstore.Store
	mirror *mirror.Mirror
	ctx    context.Context
}

// inHouse runs test in a bubble: time passes only when everything waits.
func inHouse(t *testing.T, test func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		ctx, cancel := context.WithCancel(t.Context())
		h := &house{Cell: celltest.New(t, store), t: t, store: store, mirror: mirror.New(store, zap.NewNop()), ctx: ctx}
		var running sync.WaitGroup
		running.Go(func() { _ = h.mirror.Run(ctx) })
		defer func() { cancel(); running.Wait() }()
		for _, kind := range []string{"batch", "service", "ml", "system"} {
			h.Put(cellstate.Record{Key: cellstate.SchedulerKey(kind), Value: &ohmv1.Scheduler{Name: kind}})
		}
		test(h)
	})
}

func (h *house) keeper(server string, limits Limits) *Keeper {
	return New(Config{Store: h.store, Mirror: h.mirror, Server: server, Limits: limits})
}

// run runs a keeper until the returned function is called.
func (h *house) run(k *Keeper) (stop func()) {
	ctx, cancel := context.WithCancel(h.ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = k.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	h.t.Cleanup(stop)
	return stop
}

// pass lets time pass.
func (h *house) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func (h *house) alive(node string) {
	h.t.Helper()
	h.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(node)), Value: &ohmv1.Alive{Node: node, Server: "s", Session: "x"}})
}

func (h *house) away(node string) {
	h.t.Helper()
	n := h.Snapshot().Node(cellstate.NodeName(node))
	h.Put(cellstate.Record{Key: cellstate.AliveKey(n.Name), Read: n.AliveRevision})
}

// nodes makes nodes n0, n1, … with sessions, and a service job with a task on each.
func (h *house) nodes(n int) {
	h.t.Helper()
	h.Job(celltest.Job{Name: "web", Kind: "service", Count: n})
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		h.Node(celltest.Node{Name: name})
		h.alive(name)
		h.Place("web", i, name)
	}
}

// lost counts the tasks of web that were lost.
func (h *house) lost() (n int) {
	for _, t := range h.Snapshot().Job(celltest.Name("web")).Tasks {
		for _, e := range t.Ended {
			if e.GetStatus().GetState() == task.Lost && e.GetStatus().GetCause() == task.NodeLost {
				n++
			}
		}
	}
	return n
}

func TestMarksJobsDone(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		h.Job(celltest.Job{Name: "good"})
		h.Job(celltest.Job{Name: "bad"})
		h.Job(celltest.Job{Name: "waits"})
		orphan := h.Job(celltest.Job{Name: "orphan", Scheduler: "gone"}) // of a scheduler that has no record
		stopped := h.Job(celltest.Job{Name: "stopped", Kind: "service"})
		h.run(h.keeper("s1", Limits{}))
		h.Release(h.Place("good", 0, "n1").Slot, task.Succeeded)
		h.Put(h.failure(h.Place("bad", 0, "n1"))...)
		h.Mark(stopped, func(j *ohmv1.Job) { j.Stopped = true })
		h.Mark(orphan, func(j *ohmv1.Job) { j.Stopped = true })
		h.pass(time.Second)
		for job, want := range map[string]string{"orphan": "Stopped", "good": "Succeeded", "bad": "Failed", "stopped": "Stopped", "waits": ""} {
			if got := h.Snapshot().Job(celltest.Name(job)).Record.GetDone().GetState(); got != want {
				t.Errorf("%s is %q, want %q", job, got, want)
			}
		}
	})
}

func (h *house) failure(p *cellstate.Placement) []cellstate.Record {
	status := celltest.StatusOf(p, task.Failed)
	status.ExitCode = 1
	return cellstate.ReleaseRecords(h.Snapshot().Job(p.Slot.JobName()).Task(p.Slot), status)
}

// A gang's deadline passes although nothing changes in the cell.
func TestMarksATimedOutGang(t *testing.T) {
	inHouse(t, func(h *house) {
		name := h.Job(celltest.Job{Name: "train", Kind: "ml", Count: 2, Gang: true})
		h.Mark(name, func(j *ohmv1.Job) {
			j.SubmitTime = timestamppb.Now()
			j.Spec.Gang.OnTimeout, j.Spec.Gang.Timeout = "fail", durationpb.New(10*time.Minute)
		})
		h.run(h.keeper("s1", Limits{}))
		h.pass(10*time.Minute - time.Second)
		if done := h.Snapshot().Job(name).Record.GetDone(); done != nil {
			t.Fatalf("done too early: %v", done)
		}
		h.pass(2 * time.Second)
		if done := h.Snapshot().Job(name).Record.GetDone(); done.GetState() != "Failed" {
			t.Fatalf("after the deadline: %v", done)
		}
	})
}

// A gang that is placed while the keeper finds it timed out stays alive: one of the two
// commits does not apply, whichever comes second.
func TestDoneComparesTheTasks(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "train", Kind: "ml", Count: 2, Gang: true})
		h.Mark(name, func(j *ohmv1.Job) {
			j.SubmitTime = timestamppb.Now()
			j.Spec.Gang.OnTimeout, j.Spec.Gang.Timeout = "fail", durationpb.New(time.Minute)
		})
		h.pass(time.Hour)
		stale := h.Snapshot()
		h.Place("train", 0, "n1")
		writes, names := newMarker().plan(stale, time.Now())
		if len(writes) != 1 || names[0] != name {
			t.Fatalf("marks %v, want train", names)
		}
		out, err := h.store.Commit(h.ctx, writes...)
		if err != nil || out.Applied[0] != 0 {
			t.Fatalf("marked done over a placement that the decision did not see: %v, %v", out, err)
		}
	})
}

// A job whose mark did not apply is looked at again although nothing more changes.
func TestMarksAgainWhatDidNotApply(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "a"})
		k, m := h.keeper("s1", Limits{}), newMarker()
		lead := cellstate.Guard{Key: cellstate.MetaKey(leaderMeta)}
		lead.Revision = h.Put(cellstate.Record{Key: lead.Key, Value: &ohmv1.Meta{Value: "s1"}})
		h.Release(h.Place("a", 0, "n1").Slot, task.Succeeded)
		stale := h.Snapshot()
		h.Put(cellstate.Record{Key: celltest.Slot(stale, name, "main", 0).EndedKey(7), Value: &ohmv1.Ended{}})
		if due, err := k.mark(h.ctx, lead, m, stale, time.Now()); err != nil || due.IsZero() {
			t.Fatalf("looks again at %v, %v", due, err)
		}
		s := h.Snapshot()
		m.seen = s // as if the change had been seen before
		if due, err := k.mark(h.ctx, lead, m, s, time.Now()); err != nil || !due.IsZero() {
			t.Fatalf("then looks again at %v, %v", due, err)
		}
		if done := h.Snapshot().Job(name).Record.GetDone(); done.GetState() != "Succeeded" {
			t.Fatalf("done: %v", done)
		}
	})
}

// What a look costs does not grow with the jobs that have not changed.
func TestMarkCostsWhatChanged(t *testing.T) {
	inHouse(t, func(h *house) {
		const jobs = 300
		for i := range jobs {
			h.Job(celltest.Job{Name: fmt.Sprintf("j%d", i), Count: 3})
		}
		before, err := h.mirror.WaitSnapshot(h.ctx, h.Snapshot().Revision())
		if err != nil {
			t.Fatal(err)
		}
		h.Mark(celltest.Name("j7"), func(j *ohmv1.Job) { j.Stopped = true })
		after, err := h.mirror.WaitSnapshot(h.ctx, before.Revision()+1)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		cost := func(seen *cellstate.Snapshot) float64 {
			return testing.AllocsPerRun(1, func() {
				m := newMarker()
				m.seen = seen
				if _, names := m.plan(after, now); fmt.Sprint(names) != "[default/j7]" {
					t.Errorf("marks %v", names)
				}
			})
		}
		if one, all := cost(before), cost(nil); one*20 > all {
			t.Fatalf("one change costs %v allocations, %d jobs cost %v", one, jobs, all)
		}
	})
}

func TestLosesNodes(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(4)
		h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		h.away("n0")
		h.away("n1")
		h.pass(30 * time.Second)
		h.alive("n1") // back in time
		h.pass(9 * time.Second)
		if n := h.lost(); n != 0 {
			t.Fatalf("%d tasks lost after 39 s", n)
		}
		h.pass(2 * time.Second)
		if n := h.lost(); n != 1 {
			t.Fatalf("%d tasks lost after 41 s, want n0's", n)
		}
		s := h.Snapshot()
		if len(s.Node("n0").Placements) != 0 || len(s.Node("n1").Placements) != 1 {
			t.Fatal("another node's tasks were released")
		}
	})
}

// Nothing is lost for a grace time after a leader change, however long ago the nodes went.
func TestNewLeaderWaits(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(4)
		h.away("n0")
		h.pass(time.Hour) // no keeper all that time
		h.run(h.keeper("s1", Limits{Grace: time.Minute}))
		h.pass(59 * time.Second)
		if n := h.lost(); n != 0 {
			t.Fatalf("%d tasks lost within the grace time", n)
		}
		h.pass(2 * time.Second)
		if n := h.lost(); n != 1 {
			t.Fatalf("%d tasks lost after it, want 1", n)
		}
	})
}

// Field case 54: when a large part of the nodes goes at once, nothing is lost.
func TestBrake(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(10)
		k := h.keeper("s1", Limits{})
		h.run(k)
		h.pass(2 * time.Minute)
		for i := range 5 {
			h.away(fmt.Sprintf("n%d", i))
			h.pass(5 * time.Second)
		}
		h.pass(10 * time.Minute)
		if n := h.lost(); n != 0 || !k.Braking() {
			t.Fatalf("half of the nodes unseen: %d tasks lost, braking %v", n, k.Braking())
		}
		h.alive("n0")
		h.alive("n1")
		h.pass(30 * time.Second) // those that come back later than others are not punished for it
		if n := h.lost(); n != 0 {
			t.Fatalf("%d tasks lost as soon as a few nodes were back", n)
		}
		h.pass(30 * time.Second)
		if n := h.lost(); n != 3 || k.Braking() {
			t.Fatalf("3 of 10 unseen: %d tasks lost, braking %v", n, k.Braking())
		}
	})
}

// A small cell has no brake: its last node may be lost.
func TestBrakeNeedsThree(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(2)
		h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		h.away("n0")
		h.away("n1")
		h.pass(41 * time.Second)
		if n := h.lost(); n != 2 {
			t.Fatalf("%d tasks lost, want 2", n)
		}
	})
}

// Nodes that had gone long before, with nothing on them, do not hold the brake.
func TestBrakeForgetsTheLongGone(t *testing.T) {
	inHouse(t, func(h *house) {
		for i := range 6 {
			h.Node(celltest.Node{Name: fmt.Sprintf("gone%d", i)})
		}
		h.nodes(4)
		h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		h.away("n0")
		h.pass(41 * time.Second)
		if n := h.lost(); n != 1 {
			t.Fatalf("%d tasks lost, want 1", n)
		}
	})
}

// A node that is seen again when the release is committed keeps its tasks.
func TestLostWriteComparesAlive(t *testing.T) {
	inHouse(t, func(h *house) {
		h.nodes(1)
		h.away("n0")
		stale := h.Snapshot()
		h.alive("n0")
		out, err := h.store.Commit(h.ctx, lostWrites(stale, stale.Node("n0"), time.Now())...)
		if err != nil || out.Applied[0] != 0 {
			t.Fatalf("applied at %v, %v", out.Applied, err)
		}
	})
}

func TestOneLeads(t *testing.T) {
	inHouse(t, func(h *house) {
		first, second := h.keeper("s1", Limits{}), h.keeper("s2", Limits{})
		stop := h.run(first)
		h.pass(time.Second)
		h.run(second)
		h.pass(time.Minute)
		if !first.Leads() || second.Leads() {
			t.Fatalf("leads: first %v, second %v", first.Leads(), second.Leads())
		}
		stop()
		h.pass(time.Second)
		if first.Leads() || !second.Leads() {
			t.Fatalf("after the first has stopped: first %v, second %v", first.Leads(), second.Leads())
		}
	})
}

func TestCollectors(t *testing.T) {
	inHouse(t, func(h *house) {
		k := h.keeper("s1", Limits{})
		registry := prometheus.NewRegistry()
		registry.MustRegister(k.Collectors()...)
		gauges := func() map[string]float64 {
			t.Helper()
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]float64{}
			for _, f := range families {
				all[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
			}
			return all
		}
		if got := fmt.Sprint(gauges()); got != "map[ohm_keeper_braking:0 ohm_keeper_leading:0 ohm_store_bytes:0]" {
			t.Error(got)
		}
		h.run(k)
		h.pass(time.Second)
		size, err := h.store.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(gauges()); got != fmt.Sprintf("map[ohm_keeper_braking:0 ohm_keeper_leading:1 ohm_store_bytes:%d]", size) {
			t.Error(got)
		}
	})
}

// A predecessor of the same name is dead: its leadership is taken over at once, long
// before its lease ends. Another server waits for that.
func TestTakesOverFromItsPredecessor(t *testing.T) {
	inHouse(t, func(h *house) {
		lease, err := h.store.Grant(h.ctx, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		h.Put(cellstate.Record{Key: cellstate.MetaKey(leaderMeta), Value: &ohmv1.Meta{Value: "s1"}, Lease: lease})
		other, same := h.keeper("s2", Limits{}), h.keeper("s1", Limits{})
		h.run(other)
		h.run(same)
		h.pass(time.Second)
		if other.Leads() || !same.Leads() {
			t.Fatalf("leads: other %v, same %v", other.Leads(), same.Leads())
		}
	})
}

// What an old leader still sends changes nothing.
func TestOldLeaderIsRefused(t *testing.T) {
	inHouse(t, func(h *house) {
		k := h.keeper("s1", Limits{})
		name := h.Job(celltest.Job{Name: "a"})
		old := cellstate.Guard{Key: cellstate.MetaKey(leaderMeta)}
		old.Revision = h.Put(cellstate.Record{Key: old.Key, Value: &ohmv1.Meta{Value: "s1"}})
		write := func() []cellstate.Write {
			s := h.Snapshot()
			record := &ohmv1.Job{Spec: s.Job(name).Record.GetSpec(), Version: 1, Done: &ohmv1.Outcome{State: "Failed"}}
			return []cellstate.Write{doneWrite(s, s.Job(name), record)}
		}
		h.Put(cellstate.Record{Key: old.Key, Value: &ohmv1.Meta{Value: "s2"}, Read: old.Revision})
		if applied, err := k.commit(h.ctx, old, write()); err != nil || applied[0] {
			t.Fatalf("the old leader's write applied: %v, %v", applied, err)
		}
		_, present := h.Snapshot().Meta(leaderMeta)
		if applied, err := k.commit(h.ctx, cellstate.Guard{Key: old.Key, Revision: present}, write()); err != nil || !applied[0] {
			t.Fatalf("the present leader's write did not apply: %v, %v", applied, err)
		}
	})
}

// A leader whose key is overwritten stops leading.
func TestDeposedLeaderStops(t *testing.T) {
	inHouse(t, func(h *house) {
		k := h.keeper("s1", Limits{})
		h.run(k)
		h.pass(time.Second)
		_, at := h.Snapshot().Meta(leaderMeta)
		h.Put(cellstate.Record{Key: cellstate.MetaKey(leaderMeta), Value: &ohmv1.Meta{Value: "s2"}, Read: at})
		h.pass(time.Second)
		if k.Leads() {
			t.Fatal("it leads on")
		}
	})
}

func TestRetention(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		h.run(h.keeper("s1", Limits{DoneJobs: 2}))
		old := h.Job(celltest.Job{Name: "old"})
		h.Put(cellstate.Record{Key: cellstate.WaitingKey(old), Value: &ohmv1.Waiting{Job: "old"}})
		h.Release(h.Place("old", 0, "n1").Slot, task.Succeeded)
		h.Job(celltest.Job{Name: "older"}) // not an owner of old's keys, nor the other way round
		h.pass(2 * time.Minute)
		row := h.Snapshot().Job(old)
		if row == nil || row.Record.GetDone() == nil || row.Waiting != nil || len(row.Tasks) != 1 {
			t.Fatalf("soon after its end: %+v", row)
		}
		h.pass(24 * time.Hour)
		s := h.Snapshot()
		if row := s.Job(old); row != nil {
			t.Fatalf("after a day there is left: %+v", row)
		}
		if s.Job(celltest.Name("older")) == nil {
			t.Fatal("a job that is not done was removed")
		}
		for _, name := range []string{"a", "b", "c"} {
			h.Job(celltest.Job{Name: name})
			h.Release(h.Place(name, 0, "n1").Slot, task.Succeeded)
			h.pass(time.Second)
		}
		h.pass(2 * time.Minute)
		s = h.Snapshot()
		if s.Job(celltest.Name("a")) != nil || s.Job(celltest.Name("b")) == nil || s.Job(celltest.Name("c")) == nil {
			t.Fatal("of three done jobs, not the two newest were kept")
		}
	})
}

// A job of which something is still live is never removed.
func TestLiveTasksKeepTheirJob(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "a"})
		p := h.Place("a", 0, "n1")
		h.Mark(name, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Stopped", Time: timestamppb.Now()} })
		later := time.Now().Add(48 * time.Hour)
		if got := expired(h.Snapshot(), later, Limits{}.withDefaults()); len(got) != 0 {
			t.Fatalf("to be removed: %v", got[0].Name)
		}
		h.Release(p.Slot, task.Stopped)
		if got := expired(h.Snapshot(), later, Limits{}.withDefaults()); len(got) != 1 {
			t.Fatalf("%d jobs to be removed after the end, want 1", len(got))
		}
	})
}

// A name that is used again while its old job is being removed keeps the new job.
func TestRemovalComparesEverything(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "a"})
		h.Release(h.Place("a", 0, "n1").Slot, task.Succeeded)
		h.Mark(name, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Succeeded"} })
		stale := h.Snapshot()
		h.Job(celltest.Job{Name: "a"})
		out, err := h.store.Commit(h.ctx, removal(stale, stale.Job(name)))
		if err != nil || out.Applied[0] != 0 {
			t.Fatalf("removal of a job that was submitted again: %v, %v", out, err)
		}
		h.Mark(name, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Succeeded"} })
		stale = h.Snapshot()
		slot := celltest.Slot(stale, name, "main", 0)
		h.Put(cellstate.Record{Key: slot.EndedKey(7), Value: &ohmv1.Ended{}})
		if out, err = h.store.Commit(h.ctx, removal(stale, stale.Job(name))); err != nil || out.Applied[0] != 0 {
			t.Fatalf("removal of a job with a newer record: %v, %v", out, err)
		}
		stale = h.Snapshot()
		if out, err = h.store.Commit(h.ctx, removal(stale, stale.Job(name))); err != nil || out.Applied[0] == 0 {
			t.Fatalf("removal: %v, %v", out, err)
		}
		if row := h.Snapshot().Job(name); row != nil {
			t.Fatalf("left: %+v", row)
		}
	})
}

func TestTrim(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.Job(celltest.Job{Name: "web", Kind: "service"})
		h.Job(celltest.Job{Name: "batch", Retries: 9})
		for range 10 {
			h.Put(h.failure(h.Place("web", 0, "n1"))...)
		}
		for i := range 12 {
			p := h.Place("batch", 0, "n1")
			records := h.failure(p)
			if i%2 == 0 {
				status := celltest.StatusOf(p, task.Lost)
				status.Cause = task.NodeLost
				records = cellstate.ReleaseRecords(h.Snapshot().Job(p.Slot.JobName()).Task(p.Slot), status)
			}
			h.Put(records...)
		}
		h.run(h.keeper("s1", Limits{}))
		h.pass(2 * time.Minute)
		for job, want := range map[string]string{
			"web":   "[3 4 5 6 7 8 9 10]",
			"batch": "[2 4 5 6 7 8 9 10 11 12]", // 1 and 3 were the node's fault; every other one spent a retry
		} {
			var got []int
			for _, e := range h.Snapshot().Job(celltest.Name(job)).Tasks[0].Ended {
				got = append(got, e.Attempt)
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%s keeps attempts %v, want %s", job, got, want)
			}
		}
	})
}

// Attempts of an older version stay for as long as a done job does.
func TestTrimOlderVersions(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		name := h.Job(celltest.Job{Name: "web", Kind: "service"})
		p := h.Place("web", 0, "n1")
		status := celltest.StatusOf(p, task.Stopped)
		status.Ended = timestamppb.Now()
		h.Put(cellstate.ReleaseRecords(h.Snapshot().Job(name).Task(p.Slot), status)...)
		h.Job(celltest.Job{Name: "web", Kind: "service"})
		h.Put(h.failure(h.Place("web", 0, "n1"))...)
		h.run(h.keeper("s1", Limits{}))
		h.pass(23 * time.Hour)
		if n := len(h.Snapshot().Job(name).Tasks); n != 2 {
			t.Fatalf("%d slots are stored after 23 h, want 2", n)
		}
		h.pass(2 * time.Hour)
		if tasks := h.Snapshot().Job(name).Tasks; len(tasks) != 1 || tasks[0].Slot.Version != 2 {
			t.Fatalf("%d slots are stored after 25 h, want the present version's", len(tasks))
		}
	})
}
