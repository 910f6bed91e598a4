package cellstate_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// follow applies what happened in the store after s.
func follow(t testing.TB, store *memstore.Store, s *cellstate.Snapshot) *cellstate.Snapshot {
	t.Helper()
	now := celltest.New(t, store).Snapshot().Revision()
	for batch, err := range store.Changes(t.Context(), s.Revision()) {
		if err != nil {
			t.Fatal(err)
		}
		next, gaps, err := s.Apply(batch)
		if err != nil || len(gaps) > 0 {
			t.Fatalf("gaps %v, error %v", gaps, err)
		}
		if s = next; s.Revision() >= now {
			break
		}
	}
	return s
}

// A snapshot never changes, whatever is applied to it.
func TestApplyLeavesTheSnapshotAlone(t *testing.T) {
	store := memstore.New()
	cell := celltest.New(t, store)
	cell.Node(celltest.Node{Name: "n1"})
	cell.Job(celltest.Job{Name: "a", Count: 2, CPU: 1000})
	cell.Place("a", 0, "n1")
	before := cell.Snapshot()
	node, job := before.Node("n1"), before.Job(celltest.Name("a"))
	tasks, placements, used := slices.Clone(job.Tasks), slices.Clone(node.Placements()), node.Used().CPUMilli

	cell.Place("a", 1, "n1")
	cell.Release(slot(before, "a", 0), task.Failed)
	cell.Intent(&ohmv1.Intent{Node: "n1", Drain: true})
	after := follow(t, store, before)

	if before.Node("n1") != node || before.Job(celltest.Name("a")) != job {
		t.Error("the old snapshot has other rows")
	}
	if !slices.Equal(job.Tasks, tasks) || !slices.Equal(node.Placements(), placements) || node.Used().CPUMilli != used || node.Intent != nil || job.Tasks[0].Placement == nil {
		t.Error("the old rows were written to")
	}
	if n := after.Node("n1"); len(n.Placements()) != 1 || !n.Intent.GetDrain() || n.Placements()[0].Slot.Index != 1 {
		t.Errorf("the new row is %v", n)
	}
	if j := after.Job(celltest.Name("a")); len(j.Tasks[0].Ended) != 1 || j.Task(slot(after, "a", 0)).Attempts() != 1 {
		t.Errorf("the new job is %v", j)
	}
}

// RoomRevision moves when a task that did not fit may have come to fit, and at no other time.
func TestRoomRevision(t *testing.T) {
	store := memstore.New()
	cell := celltest.New(t, store)
	cell.Node(celltest.Node{Name: "n1"})
	cell.Job(celltest.Job{Name: "a", Count: 2, CPU: 1000})
	s := cell.Snapshot()
	for _, step := range []struct {
		name string
		do   func()
		room bool
	}{
		{"a job", func() { cell.Job(celltest.Job{Name: "b"}) }, false},
		{"a placement", func() { cell.Place("a", 0, "n1") }, false},
		{"a status", func() { cell.Status(slot(s, "a", 0), task.Running) }, false},
		{"a hold", func() { cell.Hold(&ohmv1.Hold{Node: "n1", Txn: "x"}) }, true},
		{"a release", func() { cell.Release(slot(s, "a", 0), task.Failed) }, true},
		{"an intent", func() { cell.Intent(&ohmv1.Intent{Node: "n1"}) }, true},
		{"a new node", func() { cell.Node(celltest.Node{Name: "n2"}) }, true},
	} {
		was := s.RoomRevision()
		step.do()
		s = follow(t, store, s)
		if moved := s.RoomRevision() > was; moved != step.room {
			t.Errorf("%s: moved %v, want %v", step.name, moved, step.room)
		}
	}
}

// Scheduler rows: a job leaves its scheduler's list when it is done.
func TestJobsOf(t *testing.T) {
	cell := newCell(t)
	cell.Job(celltest.Job{Name: "a"})
	cell.Job(celltest.Job{Name: "ab"})
	cell.Job(celltest.Job{Name: "s", Kind: "service"})
	cell.Job(celltest.Job{Name: "other", Namespace: "defaults", Scheduler: "batches"})
	cell.Mark(celltest.Name("ab"), func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{} })
	s := cell.Snapshot()
	var of, in []string
	for j := range s.JobsOf("batch") {
		of = append(of, j.Name.Name)
	}
	for j := range s.JobsIn("default") {
		in = append(in, j.Name.Name)
	}
	if !slices.Equal(of, []string{"a"}) || !slices.Equal(in, []string{"a", "ab", "s"}) {
		t.Errorf("of batch %v, in default %v", of, in)
	}
}

// Every key reads back as what it was built from.
func TestKeysReadBack(t *testing.T) {
	label := rapid.StringMatching(`[a-z]([a-z0-9-]{0,8}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		s := cellstate.Slot{Namespace: label.Draw(t, "ns"), Job: label.Draw(t, "job"), Group: label.Draw(t, "group"),
			Index: rapid.IntRange(0, 99999).Draw(t, "index"), Version: rapid.Int64Range(1, 1<<40).Draw(t, "version")}
		attempt := rapid.IntRange(1, 2_000_000).Draw(t, "attempt")
		name, id := label.Draw(t, "name"), label.Draw(t, "id")
		node := cellstate.NodeName(name)
		for key, want := range map[cellstate.Key]cellstate.Parsed{
			s.PlacementKey():                    {Kind: cellstate.KindPlacement, Slot: s},
			s.StatusKey():                       {Kind: cellstate.KindStatus, Slot: s},
			s.EndedKey(attempt):                 {Kind: cellstate.KindEnded, Slot: s, Attempt: attempt},
			cellstate.JobKey(s.JobName()):       {Kind: cellstate.KindJob, Job: s.JobName()},
			cellstate.WaitingKey(s.JobName()):   {Kind: cellstate.KindWaiting, Job: s.JobName()},
			cellstate.NodeKey(node):             {Kind: cellstate.KindNode, Node: node},
			cellstate.IntentKey(node):           {Kind: cellstate.KindIntent, Node: node},
			cellstate.AliveKey(node):            {Kind: cellstate.KindAlive, Node: node},
			cellstate.HoldKey(node, "T"):        {Kind: cellstate.KindHold, Node: node, ID: "T"},
			cellstate.SchedulerKey(name):        {Kind: cellstate.KindScheduler, Name: name},
			cellstate.InstanceKey(name, id):     {Kind: cellstate.KindInstance, Name: name, ID: id},
			cellstate.ConflictKey(name, id):     {Kind: cellstate.KindConflict, Name: name, ID: id},
			cellstate.ExecKey(id):               {Kind: cellstate.KindExec, ID: id},
			cellstate.MetaKey("leader/" + name): {Kind: cellstate.KindMeta, Name: "leader/" + name},
		} {
			if got := key.Parse(); got != want {
				t.Errorf("%s reads as %+v, want %+v", key, got, want)
			}
			if want.Kind.NewValue() == nil {
				t.Errorf("%s has no message", key)
			}
		}
		from, end := cellstate.TasksKeys(s.JobName())
		longer := s
		longer.Job += "0"
		if k := s.EndedKey(attempt); k < from || k >= end || longer.PlacementKey() >= from && longer.PlacementKey() < end {
			t.Errorf("range [%s, %s)", from, end)
		}
	})
}

// Ended keys sort by attempt below the placement, or a claim's range would not see them.
func TestEndedKeysSort(t *testing.T) {
	s := cellstate.Slot{Namespace: "default", Job: "a", Group: "main", Version: 1}
	keys := []cellstate.Key{s.EndedKey(1), s.EndedKey(2), s.EndedKey(10), s.EndedKey(999_999), s.PlacementKey(), s.StatusKey()}
	if !slices.IsSorted(keys) {
		t.Errorf("%v", keys)
	}
}

func TestUnknownKeys(t *testing.T) {
	for _, key := range []cellstate.Key{"", "x", "jobs/a", "jobs/a/b/c", "tasks/a/b/c/x@1/placement", "tasks/a/b/c/1/placement",
		"tasks/a/b/c/1@1/other", "tasks/a/b/c/1@1/ended/x", "tasks/a/b/c/1@1/placement/x", "nodes/a/b", "events/x/a/b", "meta"} {
		if got := key.Parse(); got.Kind != cellstate.KindUnknown {
			t.Errorf("%q reads as %+v", key, got)
		}
	}
}
