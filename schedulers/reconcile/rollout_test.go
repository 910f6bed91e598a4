package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// updated is a service that is being updated, with all who act on it: a scheduler that places
// what needs a node, agents that start and stop, the keeper.
type updated struct {
	t       testing.TB
	now     time.Time
	spec    *ohmv1.JobSpec
	records map[cellstate.Key]proto.Message
	bad     int64 // tasks of versions from this one on never come up; 0: all do
}

// newUpdated is a service all of whose count tasks run, in version 1.
func newUpdated(t testing.TB, count int, update *ohmv1.UpdatePolicy) *updated {
	u := &updated{t: t, now: t0, records: map[cellstate.Key]proto.Message{}}
	u.spec = jobOf("service", &ohmv1.Group{Name: "main", Count: int32(count), Command: []string{"a"}})
	u.spec.Update = update
	u.records[cellstate.JobKey(jobName())] = &ohmv1.Job{Spec: proto.CloneOf(u.spec), Version: 1, SubmitTime: stamp(0)}
	for i := range count {
		u.place(slotV(i, 1), 1)
		u.start(slotV(i, 1), 1)
	}
	u.now = at(1000)
	return u
}

func (u *updated) place(s cellstate.Slot, attempt int) {
	u.records[s.PlacementKey()] = placement(s, attempt, "n1")
}

func (u *updated) start(s cellstate.Slot, attempt int) {
	u.records[s.StatusKey()] = &ohmv1.Status{Slot: s.Proto(), Attempt: int32(attempt), State: task.Running, Started: stamp(u.now.Sub(t0).Seconds())}
}

func (u *updated) end(s cellstate.Slot, cause string) {
	p := u.records[s.PlacementKey()].(*ohmv1.Placement)
	delete(u.records, s.PlacementKey())
	delete(u.records, s.StatusKey())
	state := task.Failed
	if cause == task.Stop {
		state = task.Stopped
	}
	u.records[s.EndedKey(int(p.GetAttempt()))] = &ohmv1.Ended{Placement: p, Status: &ohmv1.Status{
		Slot: s.Proto(), Attempt: p.GetAttempt(), Node: "n1", State: state, Cause: cause, ExitCode: 1, Ended: stamp(u.now.Sub(t0).Seconds()),
	}}
}

func (u *updated) row() (*cellstate.Snapshot, *cellstate.Job) {
	u.t.Helper()
	var all []cellstate.Change
	for k, v := range u.records {
		all = append(all, cellstate.Change{Key: k, Value: v, Revision: 1})
	}
	s, err := cellstate.NewSnapshot(1, all, nil)
	if err != nil {
		u.t.Fatal(err)
	}
	return s, s.Job(jobName())
}

// change submits what change makes of the job.
func (u *updated) change(change func(*ohmv1.JobSpec)) {
	u.t.Helper()
	_, j := u.row()
	change(u.spec)
	u.put(reconcile.Next(j, proto.CloneOf(u.spec), u.now))
}

func (u *updated) put(job *ohmv1.Job, rollout *ohmv1.Rollout) {
	u.records[cellstate.JobKey(jobName())] = job
	if rollout != nil {
		u.records[cellstate.RolloutKey(jobName())] = rollout
	}
}

func (u *updated) rollout() *ohmv1.Rollout {
	r, _ := u.records[cellstate.RolloutKey(jobName())].(*ohmv1.Rollout)
	return r
}

// keeper takes one step with the update, and reverts it where that is asked for.
func (u *updated) keeper() {
	_, j := u.row()
	next, _ := reconcile.Advance(j, u.now)
	switch {
	case next == nil:
	case reconcile.Reverts(j, next):
		job, rollout, err := reconcile.Revert(j, u.now)
		if err != nil {
			u.t.Fatal(err)
		}
		u.put(job, rollout)
	default:
		u.put(j.Record, next)
	}
}

// acts are what may happen next.
func (u *updated) acts() (acts []func()) {
	s, j := u.row()
	needs, _ := reconcile.Defaults().Needs(s, j, u.now)
	for _, n := range needs {
		acts = append(acts, func() { u.place(n.Slot, n.Attempt) })
	}
	for _, t := range j.Tasks {
		switch {
		case t.Placement == nil:
		case reconcile.StopCause(j, t.Placement, nil) != "":
			acts = append(acts, func() { u.end(t.Slot, task.Stop) })
		case t.Status.GetState() != task.Running && u.bad > 0 && t.Slot.Version >= u.bad:
			acts = append(acts, func() { u.end(t.Slot, task.StartFailed) })
		case t.Status.GetState() != task.Running:
			acts = append(acts, func() { u.start(t.Slot, int(t.Placement.GetAttempt())) })
		}
	}
	return append(acts, u.keeper)
}

// settle lets everything happen, in order, and time pass, until nothing more does.
func (u *updated) settle() {
	u.t.Helper()
	for range 10_000 {
		acts := u.acts()
		for _, act := range acts[:len(acts)-1] {
			act()
		}
		before := u.rollout()
		u.keeper()
		if len(acts) > 1 || u.rollout() != before {
			continue
		}
		s, j := u.row()
		_, wake := reconcile.Advance(j, u.now)
		_, again := reconcile.Defaults().Needs(s, j, u.now)
		if wake.IsZero() || !again.IsZero() && again.Before(wake) {
			wake = again
		}
		if wake.IsZero() {
			return
		}
		u.now = wake
	}
	u.t.Fatal("it does not come to rest")
}

// tally is how many tasks are wanted and run, how many are live, and how many stand by version.
func (u *updated) tally() (running, live int, versions map[int64]int) {
	_, j := u.row()
	versions = map[int64]int{}
	for _, t := range j.Tasks {
		if t.Placement == nil {
			continue
		}
		live++
		if versions[t.Slot.Version]++; t.Status.GetState() == task.Running && reconcile.StopCause(j, t.Placement, nil) == "" {
			running++
		}
	}
	return running, live, versions
}

func (u *updated) stands(want string) {
	u.t.Helper()
	_, _, versions := u.tally()
	if got := fmt.Sprint(versions)[3:]; got != want {
		u.t.Errorf("tasks by version: %s, want %s", got, want)
	}
}

func env(v string) func(*ohmv1.JobSpec) {
	return func(s *ohmv1.JobSpec) { s.Groups[0].Env = map[string]string{"A": v} }
}

func policy(change func(*ohmv1.UpdatePolicy)) *ohmv1.UpdatePolicy {
	p := &ohmv1.UpdatePolicy{
		MaxUnavailable: &ohmv1.Amount{Number: 1}, Steady: durationpb.New(5 * time.Second),
		ProgressDeadline: durationpb.New(10 * time.Minute), OnFailure: "pause",
	}
	if change != nil {
		change(p)
	}
	return p
}

// Whatever happens in whatever order: no more tasks are missing than the job says, nor are there
// more than it says, and in the end all are of the newest version.
func TestUpdatesKeepTheirBounds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		count := rapid.IntRange(1, 6).Draw(r, "count")
		missing, surge := rapid.IntRange(0, 3).Draw(r, "missing"), rapid.IntRange(0, 3).Draw(r, "surge")
		u := newUpdated(t, count, policy(func(p *ohmv1.UpdatePolicy) {
			p.MaxUnavailable, p.Surge = &ohmv1.Amount{Number: int32(missing)}, &ohmv1.Amount{Number: int32(surge)}
			p.Canary = int32(rapid.IntRange(0, 2).Draw(r, "canary"))
		}))
		if missing+surge == 0 {
			missing = 1
		}
		changes := rapid.IntRange(1, 3).Draw(r, "changes")
		for step := 0; ; step++ {
			running, live, _ := u.tally()
			if running < count-missing || live > count+surge {
				r.Fatalf("step %d: %d of %d tasks run and %d are there; %d may be missing, and %d more", step, running, count, live, missing, surge)
			}
			if done := u.rollout().GetState() == reconcile.RolloutDone; step > 2000 || done && changes == 0 {
				break
			}
			switch which := rapid.IntRange(0, 9).Draw(r, "what"); {
			case which == 0 && changes > 0 && u.rollout().GetState() == reconcile.RolloutDone || u.rollout() == nil:
				changes--
				u.change(env(fmt.Sprint(step)))
			case which == 1:
				u.now = u.now.Add(time.Duration(rapid.IntRange(1, 6).Draw(r, "seconds")) * time.Second)
			case which == 2 && !u.rollout().GetPromoted():
				promoted := proto.CloneOf(u.rollout())
				promoted.Promoted = true
				_, j := u.row()
				u.put(j.Record, promoted)
			default:
				acts := u.acts()
				acts[rapid.IntRange(0, len(acts)-1).Draw(r, "act")]()
			}
		}
		u.settle()
		_, j := u.row()
		if _, live, versions := u.tally(); u.rollout().GetState() != reconcile.RolloutDone || live != count || versions[j.VersionOf("main")] != count {
			r.Fatalf("in the end: %v, tasks by version %v", u.rollout(), versions)
		}
	})
}

// An update takes the steps that its bounds let it take.
func TestUpdateSteps(t *testing.T) {
	u := newUpdated(t, 4, policy(nil))
	u.change(env("2"))
	u.keeper()
	if r := u.rollout(); len(r.GetRetired()) != 1 || r.GetRetired()[0].GetIndex() != 0 || r.GetGood().GetVersion() != 1 {
		t.Fatalf("the first step: %v", r)
	}
	u.settle()
	u.stands("[2:4]")
	if took := u.now.Sub(at(1000)); took != 20*time.Second {
		t.Errorf("it took %v, want 5 s for each", took)
	}
	if r := u.rollout(); r.GetState() != reconcile.RolloutDone || len(r.GetRetired()) != 0 || r.GetCome() != 4 {
		t.Errorf("done: %v", r)
	}
}

// Field case 76: a canary that does not come up touches nothing else; the deadline fires, and
// the job goes back by itself, of which nobody has to approve; a count that changes
// meanwhile is the last word.
func TestCase76(t *testing.T) {
	revert := policy(func(p *ohmv1.UpdatePolicy) {
		p.Canary, p.Surge, p.MaxUnavailable = 1, &ohmv1.Amount{Number: 1}, nil
		p.ProgressDeadline, p.OnFailure = durationpb.New(10*time.Second), "revert"
	})
	u := newUpdated(t, 5, revert)
	u.bad = 2
	u.change(env("bad"))
	u.settle()
	u.stands("[1:5]")
	_, j := u.row()
	if r := u.rollout(); r.GetState() != reconcile.RolloutDone || !r.GetReverts() || j.Record.GetVersion() != 3 || j.VersionOf("main") != 1 ||
		len(j.Record.GetSpec().GetGroups()[0].GetEnv()) != 0 {
		t.Errorf("after the failure: %v of %v", r, j.Record)
	}
	for i := range 5 {
		if n := j.Task(slotV(i, 1)).Attempts(); n != 1 {
			t.Errorf("task %d of the good version has %d attempts", i, n)
		}
	}
	if took := u.now.Sub(at(1000)); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}

	stay := newUpdated(t, 5, policy(func(p *ohmv1.UpdatePolicy) { p.Canary = 2 }))
	stay.change(env("2"))
	stay.settle()
	stay.stands("[1:3 2:2]")
	stay.change(func(s *ohmv1.JobSpec) { s.Groups[0].Count = 2 })
	stay.settle()
	stay.stands("[2:2]")
}

// A deadline that has passed is said with what was missing, and nothing goes on by itself.
func TestUpdateFails(t *testing.T) {
	u := newUpdated(t, 4, policy(func(p *ohmv1.UpdatePolicy) { p.ProgressDeadline = durationpb.New(time.Minute) }))
	u.bad = 2
	u.change(env("bad"))
	for u.rollout().GetState() == reconcile.RolloutRunning {
		u.now = u.now.Add(time.Second)
		for _, act := range u.acts() {
			act()
		}
		if u.now.After(at(2000)) {
			t.Fatal("the deadline does not fire")
		}
	}
	if r := u.rollout(); r.GetState() != reconcile.RolloutFailed || !strings.Contains(r.GetMessage(), "version 2 for 1m0s: main/0") {
		t.Errorf("it failed so: %v", r)
	}
	if _, _, versions := u.tally(); versions[1] != 3 {
		t.Errorf("tasks by version: %v", versions)
	}
	s, j := u.row()
	if said := reconcile.Status(s, j, u.now); said.GetRollout() != "Failed" || said.GetGroups()[0].GetOutdated() != 3 {
		t.Errorf("status: %v", said)
	}
}
