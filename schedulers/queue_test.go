package schedulers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testQueue is a queue over a snapshot that a test grows record by record.
type testQueue struct {
	*queue
	t        *testing.T
	snapshot *cellstate.Snapshot
	now      time.Time
}

func newTestQueue(t *testing.T) *testQueue {
	s, err := cellstate.NewSnapshot(1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &testQueue{newQueue(reconcile.Defaults(), 10*time.Second), t, s, start}
}

func (q *testQueue) put(c cellstate.Change) {
	q.t.Helper()
	c.Revision = q.snapshot.Revision() + 1
	next, _, err := q.snapshot.Apply(cellstate.Batch{Revision: c.Revision, Changes: []cellstate.Change{c}})
	if err != nil {
		q.t.Fatal(err)
	}
	q.snapshot = next
}

// job submits a job of count tasks, age seconds before the start.
func (q *testQueue) job(name, kind string, precedence int32, age int, count int32) {
	q.put(cellstate.Change{Key: cellstate.JobKey(cellstate.JobName{Namespace: "default", Name: name}), Value: &ohmv1.Job{
		Spec: &ohmv1.JobSpec{
			Namespace: "default", Name: name, Kind: kind, Scheduler: "s", Precedence: proto.Int32(precedence),
			Groups: []*ohmv1.Group{{Name: "main", Count: count}},
		},
		Version: 1, SubmitTime: timestamppb.New(start.Add(-time.Duration(age) * time.Second)),
	}})
}

// room lets something change that could make room.
func (q *testQueue) room() {
	q.put(cellstate.Change{Key: cellstate.NodeKey("n"), Value: &ohmv1.Node{Name: "n"}})
}

// next is the work of the next round: "b:3 a:1", jobs with the number of their needs.
func (q *testQueue) next() ([]Work, string) {
	q.t.Helper()
	q.refresh(q.snapshot, "s", shares{instances: []string{"a"}, self: "a", member: true}, q.now)
	work, _ := q.pick(q.snapshot, mostNeeds, q.now)
	var out []string
	for _, w := range work {
		out = append(out, fmt.Sprintf("%s:%d", w.Job.Name.Name, len(w.Needs)))
	}
	return work, strings.Join(out, " ")
}

// refuse parks all of the work.
func (q *testQueue) refuse(work []Work) {
	for _, w := range work {
		for _, n := range w.Needs {
			q.jobs[w.Job.Name].park([]cellstate.Slot{n.Slot}, q.snapshot.Revision(), q.now.Add(q.sweep))
		}
	}
}

func (q *testQueue) expect(want string) []Work {
	q.t.Helper()
	work, got := q.next()
	if got != want {
		q.t.Fatalf("the next round is %q, want %q", got, want)
	}
	return work
}

func TestQueueOrder(t *testing.T) {
	q := newTestQueue(t)
	q.job("young", "batch", 100, 1, 1)
	q.job("old", "batch", 100, 9, 1)
	q.job("web", "service", 200, 0, 2)
	q.job("other", "batch", 100, 1, 1) // as young as young, but stored later
	q.expect("web:2 old:1 young:1 other:1")
}

// A wall of batch is cut, and a service that comes later goes before the rest of it.
func TestAServiceDoesNotQueueBehindAWall(t *testing.T) {
	q := newTestQueue(t)
	q.job("wall", "batch", 100, 9, 1000)
	first := q.expect("wall:300")
	q.refuse(first)
	q.job("web", "service", 200, 0, 1)
	second := q.expect("web:1 wall:299")
	if a, b := first[0].Needs[299].Slot.Index, second[1].Needs[0].Slot.Index; a != 299 || b != 300 {
		t.Errorf("the second round goes on at %d after %d", b, a)
	}
}

// A pass that ends without work goes over into the next one at once: nobody would wake
// the loop for what is free already.
func TestAPassEndsWhereItsRestIsHeld(t *testing.T) {
	q := newTestQueue(t)
	q.room()
	q.job("j", "batch", 100, 0, 301)
	q.refuse(q.expect("j:300"))
	e := q.jobs[cellstate.JobName{Namespace: "default", Name: "j"}]
	last := e.needs[300].Slot
	q.room() // the first 300 are free again, and the last one waits after its losses
	e.lose(last, q.snapshot.Revision(), q.now, time.Second, 0)
	e.lose(last, q.snapshot.Revision(), q.now, time.Second, 0)
	q.expect("j:300")
}

func TestAGangIsNeverCut(t *testing.T) {
	q := newTestQueue(t)
	q.job("a", "batch", 100, 9, 250)
	q.job("gang", "ml", 100, 8, 400)
	q.job("b", "batch", 100, 7, 1)
	q.refuse(q.expect("a:250 gang:400"))
	q.expect("b:1")
}

func TestParkedUntilRoomOrSweep(t *testing.T) {
	q := newTestQueue(t)
	q.room()
	q.job("j", "batch", 100, 0, 2)
	q.refuse(q.expect("j:2"))
	q.expect("")
	q.job("k", "batch", 100, 0, 1) // a change that makes no room
	q.refuse(q.expect("k:1"))
	q.expect("")
	q.room()
	q.refuse(q.expect("j:2 k:1"))
	q.now = q.now.Add(10*time.Second - 1)
	q.expect("")
	if _, wake := q.pick(q.snapshot, mostNeeds, q.now); !wake.Equal(start.Add(10 * time.Second)) {
		t.Errorf("it wakes at %v, want the sweep", wake)
	}
	q.now = q.now.Add(1)
	q.refuse(q.expect("j:2 k:1"))
	q.put(cellstate.Change{Key: cellstate.JobKey(cellstate.JobName{Namespace: "default", Name: "j"}), Value: &ohmv1.Job{
		Spec:    &ohmv1.JobSpec{Namespace: "default", Name: "j", Kind: "batch", Scheduler: "s", Groups: []*ohmv1.Group{{Name: "main", Count: 1}}},
		Version: 2,
	}})
	q.refuse(q.expect("j:1")) // it has changed, so it is tried at once
	q.put(cellstate.Change{Key: cellstate.JobKey(cellstate.JobName{Namespace: "default", Name: "j"}), Value: &ohmv1.Job{
		Spec:    &ohmv1.JobSpec{Namespace: "default", Name: "j", Kind: "batch", Scheduler: "s", Precedence: proto.Int32(1), Groups: []*ohmv1.Group{{Name: "main", Count: 1}}},
		Version: 2,
	}})
	q.expect("j:1") // also by a change that makes no new version
}

// A large job that never fits is tried with each change of room and still does not
// hide a small one behind it.
func TestNobodyStarvesBehindWhatNeverFits(t *testing.T) {
	q := newTestQueue(t)
	q.job("huge", "batch", 100, 9, 300) // as many as a round takes
	q.job("small", "batch", 100, 1, 1)
	for round := range 10 {
		work, _ := q.next()
		if slices.ContainsFunc(work, func(w Work) bool { return w.Job.Name.Name == "small" }) {
			return
		}
		if len(work) == 0 {
			t.Fatalf("round %d has no work", round)
		}
		q.refuse(work)
		q.room() // everything is free to be tried again
	}
	t.Fatal("small was not tried in 10 rounds")
}

func TestLossesBackOffAndAreForgotten(t *testing.T) {
	q := newTestQueue(t)
	q.job("j", "batch", 100, 0, 2)
	e := func() *entry { return q.jobs[cellstate.JobName{Namespace: "default", Name: "j"}] }
	work := q.expect("j:2")
	slot := work[0].Needs[0].Slot
	q.refuse([]Work{{Job: work[0].Job, Needs: work[0].Needs[1:]}})
	e().lose(slot, 5, q.now, time.Second, 0.5)
	q.expect("j:1") // the first loss costs nothing
	var waits []time.Duration
	for range 12 {
		e().lose(slot, 5, q.now, time.Second, 0.5)
		q.expect("")
		_, wake := q.pick(q.snapshot, mostNeeds, q.now)
		waits = append(waits, wake.Sub(q.now))
		q.now = wake
		q.refuse([]Work{{Job: work[0].Job, Needs: work[0].Needs[1:]}})
		q.expect("j:1")
	}
	if waits[0] != 3750*time.Microsecond || waits[1] != 2*waits[0] || waits[11] != 750*time.Millisecond {
		t.Errorf("waits %v", waits)
	}
	q.put(cellstate.Change{Key: slot.PlacementKey(), Value: &ohmv1.Placement{Slot: slot.Proto(), Attempt: 1, Node: "n"}})
	q.next()
	if len(e().losses) != 0 {
		t.Errorf("a placed slot's losses are remembered: %v", e().losses)
	}
}

// Unchanged rows cost no second decision; a wake that is due does.
func TestDecisionsAreRemembered(t *testing.T) {
	q := newTestQueue(t)
	q.job("j", "batch", 100, 0, 1)
	name := cellstate.JobName{Namespace: "default", Name: "j"}
	work := q.expect("j:1")
	slot := work[0].Needs[0].Slot
	first := &q.jobs[name].needs[0]
	q.room()
	q.expect("j:1")
	if &q.jobs[name].needs[0] != first {
		t.Error("an unchanged job was decided on again")
	}
	q.put(cellstate.Change{Key: cellstate.JobKey(name), Value: func() *ohmv1.Job {
		j := work[0].Job.Record
		return &ohmv1.Job{Spec: &ohmv1.JobSpec{Namespace: "default", Name: "j", Kind: "batch", Scheduler: "s", Retries: 1, Groups: j.Spec.Groups}, Version: 1}
	}()})
	q.put(cellstate.Change{Key: slot.EndedKey(1), Value: &ohmv1.Ended{
		Placement: &ohmv1.Placement{Slot: slot.Proto(), Attempt: 1}, Status: &ohmv1.Status{Cause: "OOMKilled", Ended: timestamppb.New(q.now)}}})
	q.expect("")
	_, wake := q.pick(q.snapshot, mostNeeds, q.now)
	if !wake.Equal(q.now.Add(time.Second)) {
		t.Fatalf("it wakes at %v", wake)
	}
	q.now = wake
	q.expect("j:1")
}

func TestSystemJobsFollowTheNodes(t *testing.T) {
	q := newTestQueue(t)
	q.job("agentd", "system", 300, 0, 0)
	q.expect("")
	q.room()
	q.put(cellstate.Change{Key: cellstate.AliveKey("n"), Value: &ohmv1.Alive{Node: "n"}})
	if work := q.expect("agentd:1"); work[0].Needs[0].Node != "n" {
		t.Errorf("the need is for node %q", work[0].Needs[0].Node)
	}
}

func TestSharesAreEvenAndStable(t *testing.T) {
	three := shares{instances: []string{"a", "b", "c"}, self: "a", member: true}
	two := shares{instances: []string{"a", "b"}, self: "a", member: true}
	owned, moved := 0, 0
	for i := range 3000 {
		j := cellstate.JobName{Namespace: "default", Name: fmt.Sprintf("job-%d", i)}
		owners := 0
		for _, self := range three.instances {
			if s := (shares{instances: three.instances, self: self, member: true}); s.owns(j) {
				owners++
			}
		}
		if owners != 1 {
			t.Fatalf("%v has %d owners", j, owners)
		}
		if three.owns(j) {
			owned++
			if !two.owns(j) {
				moved++
			}
		}
	}
	if owned < 900 || owned > 1100 || moved != 0 {
		t.Errorf("a owns %d of 3000, and loses %d when c goes", owned, moved)
	}
	if (&shares{instances: []string{"b"}, self: "a"}).owns(cellstate.JobName{Namespace: "default", Name: "j"}) {
		t.Error("an instance that is not registered owns a job")
	}
}

func TestHomeIsAmongInstancesAndSchedulers(t *testing.T) {
	q := newTestQueue(t)
	for _, k := range []string{"ml/x", "batch/b", "batch/a", "service/a"} {
		name, instance, _ := strings.Cut(k, "/")
		q.put(cellstate.Change{Key: cellstate.InstanceKey(name, instance), Value: &ohmv1.SchedulerInstance{Scheduler: name, Instance: instance}})
	}
	for k, want := range map[string]Home{"batch/a": {0, 2, 0, 3}, "batch/b": {1, 2, 0, 3}, "ml/x": {0, 1, 1, 3}, "service/a": {0, 1, 2, 3}} {
		name, instance, _ := strings.Cut(k, "/")
		if got := sharesOf(q.snapshot, name, instance); got.home != want || !got.member {
			t.Errorf("%s has home %v, want %v", k, got.home, want)
		}
	}
	if got := sharesOf(q.snapshot, "batch", "z"); got.member {
		t.Error("an unregistered instance is a member")
	}
}
