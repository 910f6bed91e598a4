package keeper

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// follows is a job that follows the first runs of others: "ok a".
func (h *house) follows(job string, after ...string) cellstate.JobName {
	name := h.Job(celltest.Job{Name: job})
	h.Mark(name, func(j *ohmv1.Job) {
		for _, a := range after {
			on, of, _ := strings.Cut(a, " ")
			j.After = append(j.After, &ohmv1.Dependency{Job: of, Run: 1, On: on})
		}
	})
	return name
}

func (h *house) status(job string) *ohmv1.JobStatus {
	return reconcile.Status(h.Snapshot(), h.Snapshot().Job(celltest.Name(job)), time.Now())
}

func (h *house) wants(want string) {
	h.t.Helper()
	var got []string
	for j := range h.Snapshot().Jobs() {
		state := h.status(j.Name.Name).State
		if j.Live() && j.Waits() {
			state = "waits"
		}
		got = append(got, j.Name.Name+" "+state)
	}
	if text := strings.Join(got, ", "); text != want {
		h.t.Errorf("jobs are %s, want %s", text, want)
	}
}

// Field case 119: A, then B, then C; A fails, and the others are skipped, each with its cause; what
// follows a failure, or an end of any kind, begins.
func TestCase119(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		h.follows("c", "ok b")
		h.follows("clean", "any c", "any a")
		h.follows("b", "ok a")
		h.follows("mend", "fail a")
		h.follows("a")
		h.run(h.keeper("s1", Limits{}))
		h.pass(time.Second)
		h.wants("a Pending, b waits, c waits, clean waits, mend waits")
		for job, want := range map[string]string{"b": "waiting for a", "clean": "waiting for c, a"} {
			if got := h.status(job); got.State != "Pending" || got.Message != want {
				t.Errorf("%s: %s, %q, want %q", job, got.State, got.Message, want)
			}
			if needs, _ := reconcile.Defaults().Needs(h.Snapshot(), h.Snapshot().Job(celltest.Name(job)), time.Now()); len(needs) > 0 {
				t.Errorf("%s needs nodes while it waits", job)
			}
		}
		h.Put(h.failure(h.Place("a", 0, "n1"))...)
		h.pass(time.Second)
		h.wants("a Failed, b Skipped, c Skipped, clean Pending, mend Pending")
		for job, want := range map[string]string{
			"b": "it was to follow the success of job a (run 1), which has ended as Failed",
			"c": "it was to follow the success of job b (run 1), which has ended as Skipped",
		} {
			if got := h.status(job).Message; got != want {
				t.Errorf("%s was skipped: %q, want %q", job, got, want)
			}
		}
	})
}

// A diamond, and a dependency that is removed, and later runs of one, while another waits.
func TestAfterDiamond(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		h.follows("a")
		h.follows("b", "ok a")
		h.follows("c", "ok a")
		h.follows("d", "ok b", "ok c")
		h.run(h.keeper("s1", Limits{RunsFor: 30 * time.Hour, Sweep: 10 * time.Minute}))
		end := func(job string) { h.Release(h.Place(job, 0, "n1").Slot, task.Succeeded); h.pass(time.Second) }
		h.pass(time.Second)
		end("a")
		h.wants("a Succeeded, b Pending, c Pending, d waits")
		end("b")
		h.pass(25 * time.Hour) // the records of a and b go, and d waits for c alone
		if h.Snapshot().Job(celltest.Name("b")).Record != nil {
			t.Fatal("b is still there")
		}
		h.pass(6 * time.Hour) // so does what was kept of their runs
		if h.Snapshot().Job(celltest.Name("b")) != nil {
			t.Fatal("something is left of b")
		}
		h.wants("c Pending, d Skipped")
		if got := h.status("d").Message; got != "it was to follow the success of job b (run 1), and nothing is kept of that run any more" {
			t.Errorf("d was skipped: %q", got)
		}
	})
}

// A run that is not over within its deadline has failed, whether it runs or waits, and its tasks are
// told to end as TimedOut; a deadline that is raised in time holds nobody up.
func TestDeadline(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		limited := func(job string, limit time.Duration) cellstate.JobName {
			name := h.Job(celltest.Job{Name: job})
			h.Mark(name, func(j *ohmv1.Job) { j.SubmitTime, j.Spec.Deadline = timestamppb.Now(), durationpb.New(limit) })
			return name
		}
		limited("waits", time.Minute)
		raised := limited("raised", time.Minute)
		limited("runs", time.Minute)
		h.run(h.keeper("s1", Limits{}))
		p := h.Place("runs", 0, "n1")
		h.pass(59 * time.Second)
		h.wants("raised Pending, runs Pending, waits Pending")
		h.Mark(raised, func(j *ohmv1.Job) { j.Spec.Deadline = durationpb.New(time.Hour) })
		h.pass(2 * time.Second)
		h.wants("raised Pending, runs Stopping, waits Failed")
		s := h.Snapshot()
		if cause := reconcile.StopCause(s.Job(celltest.Name("runs")), p, s.Node("n1")); cause != task.TimedOut {
			t.Errorf("its task is told to end as %q", cause)
		}
		status := celltest.StatusOf(p, task.Failed)
		status.Cause = task.TimedOut
		h.Put(cellstate.ReleaseRecords(s.Job(p.Slot.JobName()).Task(p.Slot), status)...)
		h.pass(time.Second)
		h.wants("raised Pending, runs Failed, waits Failed")
		if got := h.status("runs").Message; got != "the run was not over within its deadline of 1m0s" {
			t.Errorf("it failed: %q", got)
		}
	})
}

// Whatever jobs follow whatever others, and however those end, each begins or is skipped exactly as
// what it follows says, and nothing waits for ever. (In a bubble.)
func TestAfterAnyGraph(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 7).Draw(rt, "jobs")
		after := make([][]string, n)
		fails := make([]bool, n)
		for i := range n {
			fails[i] = rapid.Bool().Draw(rt, "fails")
			for k := range i {
				if on := rapid.SampledFrom([]string{"", "", "ok", "fail", "any"}).Draw(rt, "on"); on != "" {
					after[i] = append(after[i], fmt.Sprintf("%s j%d", on, k))
				}
			}
		}
		want := make([]string, n) // by the rule, in one pass: the graph has no circle
		for i := range n {
			if want[i] = "Succeeded"; fails[i] {
				want[i] = "Failed"
			}
			for _, a := range after[i] {
				var on string
				var k int
				_, _ = fmt.Sscanf(a, "%s j%d", &on, &k)
				if on == "ok" && want[k] != "Succeeded" || on == "fail" && want[k] != "Failed" {
					want[i] = "Skipped"
				}
			}
		}
		inHouse(t, func(h *house) {
			h.Node(celltest.Node{Name: "n1"})
			h.alive("n1")
			for i := range n {
				h.follows(fmt.Sprintf("j%d", i), after[i]...)
			}
			h.run(h.keeper("s1", Limits{}))
			for range 2 * n {
				h.pass(time.Second)
				for i := range n {
					j := h.Snapshot().Job(celltest.Name(fmt.Sprintf("j%d", i)))
					needs, _ := reconcile.Defaults().Needs(h.Snapshot(), j, time.Now())
					if len(needs) == 0 {
						continue
					}
					if p := h.Place(j.Name.Name, 0, "n1"); fails[i] {
						h.Put(h.failure(p)...)
					} else {
						h.Release(p.Slot, task.Succeeded)
					}
				}
			}
			for i := range n {
				if got := h.status(fmt.Sprintf("j%d", i)).State; got != want[i] {
					rt.Fatalf("j%d, which follows %v, is %s, want %s", i, after[i], got, want[i])
				}
			}
		})
	})
}
