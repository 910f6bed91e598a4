package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestWholeTaskReachesTheDriver: nothing of what an assignment asks for is left out.
func TestWholeTaskReachesTheDriver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		begin := time.Now()
		a := assignment("a", 100, func(a *ohmv1.Assignment) {
			a.Box = &ohmv1.Box{
				Image: "example.org/a:1", User: "1:2", Dir: "/d", ReadOnlyRoot: true, Confined: true,
				Mounts:          []*ohmv1.Mount{{Target: "/t", Source: "/s", ReadOnly: true}, {Target: "/tmp", TmpfsBytes: 7}},
				AddCapabilities: []string{"CAP_KILL"}, DropCapabilities: []string{"ALL"},
			}
			a.CpuMaxMilli, a.Pids, a.StartDeadline = 200, 50, durationpb.New(time.Hour)
		})
		b := assignment("b", 100, func(b *ohmv1.Assignment) {
			b.Command, b.Env = nil, nil
			b.Containers = []*ohmv1.Container{
				{Name: "i", Role: "init", Command: []string{"x"}, Env: map[string]string{"A": "1"}, Box: &ohmv1.Box{Image: "tar:/i"}},
				{Name: "s", Role: "sidecar", Box: &ohmv1.Box{Image: "oci:/s"}},
				{Name: "m", Role: "main", Command: []string{"y"}},
				{Name: "later", Role: "of a later release"},
			}
		})
		w.complete(a, b)
		w.m.mu.Lock()
		defer w.m.mu.Unlock()
		want := driver.Task{
			ID: a.Id, Command: a.Command, Env: a.Env, Resources: a.Placement.Resources, CPUMax: 200, Pids: 50, StartBy: begin.Add(time.Hour),
			Box: driver.Box{
				Image: "example.org/a:1", User: "1:2", Dir: "/d", ReadOnlyRoot: true, Confined: true, AddCaps: []string{"CAP_KILL"}, DropCaps: []string{"ALL"},
				Mounts: []driver.Mount{{Target: "/t", Source: "/s", ReadOnly: true}, {Target: "/tmp", Size: 7}},
			},
		}
		same := cmp.Comparer(func(a, b *ohmv1.Resources) bool { return a.GetCpuMilli() == b.GetCpuMilli() })
		if diff := cmp.Diff(want, w.m.told[a.Id], same); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		want = driver.Task{ID: b.Id, Resources: b.Placement.Resources, StartBy: begin.Add(2 * time.Minute), Containers: []driver.Container{
			{Name: "i", Role: driver.Init, Command: []string{"x"}, Env: map[string]string{"A": "1"}, Box: driver.Box{Image: "tar:/i"}},
			{Name: "s", Role: driver.Sidecar, Box: driver.Box{Image: "oci:/s"}},
			{Name: "m", Role: driver.Main, Command: []string{"y"}},
			{Name: "later", Role: -1},
		}}
		if diff := cmp.Diff(want, w.m.told[b.Id], same); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestStartOutlastsAStep: a start may take as long as its deadline says, and a moment to
// clean up.
func TestStartOutlastsAStep(t *testing.T) {
	inWorld(t, func(w *world) {
		w.m.slow = 9 * time.Minute
		w.start()
		a := assignment("a", 100, func(a *ohmv1.Assignment) { a.StartDeadline = durationpb.New(10 * time.Minute) })
		w.complete(a)
		w.pass(8 * time.Minute)
		equal(t, "told", w.told(a.Id), []string{"Starting"})
		w.pass(time.Minute + time.Second)
		equal(t, "told", w.told(a.Id), []string{"Starting", "Running"})
	})
}

// TestStopWhileItStarts: a start that waits is given up at once when the task is not wanted
// any more, and one that is quick is left to its end.
func TestStopWhileItStarts(t *testing.T) {
	for _, c := range []struct {
		name string
		slow time.Duration
		stop func(w *world, a *ohmv1.Assignment)
		call string
		told []string
	}{
		{"slow and stopped", time.Minute, func(w *world, a *ohmv1.Assignment) { w.incremental(nil, assignment("a", 100, stopFor(task.Drained))) },
			"kill", []string{"Starting", "Stopped Drained"}},
		{"slow and gone", time.Minute, func(w *world, a *ohmv1.Assignment) { w.incremental([]string{a.Id}) },
			"kill", []string{"Starting"}},
		{"quick and stopped", 900 * time.Millisecond, func(w *world, a *ohmv1.Assignment) { w.incremental(nil, assignment("a", 100, stopFor(task.Stop))) },
			"signal", []string{"Starting", "Stopped Stopped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.m.slow = c.slow
				w.start()
				a := assignment("a", 100)
				w.complete(a)
				w.pass(500 * time.Millisecond)
				w.m.did()
				c.stop(w, a)
				w.pass(3 * time.Second)
				if calls := w.m.did(); !slices.ContainsFunc(calls, func(s string) bool { return strings.HasPrefix(s, c.call+" "+a.Id) }) {
					t.Errorf("calls: %v, want %s", calls, c.call)
				}
				told := slices.DeleteFunc(w.told(a.Id), func(s string) bool { return s == "Running" }) // for a moment
				equal(t, "told", told, c.told)
				w.pass(time.Minute)
				equal(t, "on the machine", len(w.m.knows()), len(c.told)/2) // what was told as ended waits for its release
			})
		})
	}
}

// TestStartedInSpiteOfIt: a start that could not be given up leaves a task that is asked to
// end like any other.
func TestStartedInSpiteOfIt(t *testing.T) {
	inWorld(t, func(w *world) {
		a := assignment("a", 100)
		w.m.slow = 2 * time.Second
		w.m.uncut = true
		w.start()
		w.complete(a)
		w.incremental(nil, assignment("a", 100, stopFor(task.Stop)))
		w.pass(10 * time.Second)
		equal(t, "calls", w.m.did(), []string{"kill " + a.Id, "start " + a.Id, "signal " + a.Id + " 15"})
		equal(t, "end", w.last(a.Id).GetCause(), task.Stop)
	})
}

// TestWaitingStartsHoldNobodyUp: other tasks do not wait for a registry that is down.
func TestWaitingStartsHoldNobodyUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Steps = 2
		w.start()
		var all []*ohmv1.Assignment
		for i := range 6 {
			a := assignment(fmt.Sprintf("waits%d", i), 100)
			w.m.slows[a.Id] = time.Hour
			a.StartDeadline = durationpb.New(2 * time.Hour)
			all = append(all, a)
		}
		w.complete(all...)
		quick := assignment("quick", 100)
		w.incremental(nil, quick)
		w.pass(4 * waitingAfter)
		if state := w.last(quick.Id).GetState(); state != task.Running {
			t.Errorf("behind starts that wait it is %s", task.Name(state))
		}
		_, most := w.m.peaks()
		equal(t, "starts under way", most, 6)
	})
}
