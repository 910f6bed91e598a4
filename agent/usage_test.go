package agent

import (
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestUsage: running tasks are sampled, no more than so many samples are kept, and a
// question is answered with one more.
func TestUsage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Sample, w.config.Samples = 10*time.Second, 4
		w.m.abilities = []string{driver.CanStats}
		used := driver.Stats{MemoryPeak: 70, MemoryLimit: 100, Processes: 2, ThrottledPeriods: 3}
		w.m.stats = func() driver.Stats { // a tenth of a core, and one byte more each time
			used.CPU += time.Second
			used.Memory++
			return used
		}
		w.start()
		a := assignment("a", 100)
		w.complete(a)
		w.pass(time.Minute)
		ask := func() *ohmv1.UsageReport {
			t.Helper()
			w.session().out <- &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Usage{Usage: &ohmv1.UsageRequest{Id: "u", TaskIds: []string{a.Id, "unknown"}}}}
			w.pass(10 * time.Second)
			x := w.session()
			w.mu.Lock()
			defer w.mu.Unlock()
			return x.usage
		}
		got := ask()
		u := got.GetTasks()[a.Id]
		equal(t, "tasks", len(got.GetTasks()), 1)
		equal(t, "samples", u.GetSamples(), 4)
		m := u.GetMemoryBytes()
		equal(t, "memory", []int64{m.GetMin(), m.GetAvg(), m.GetMax(), m.GetLast()}, []int64{m.GetLast() - 3, m.GetLast() - 2, m.GetLast(), m.GetLast()})
		equal(t, "the rest", []int64{u.GetMemoryPeakBytes(), u.GetMemoryLimitBytes(), u.GetProcesses(), u.GetThrottledPeriods()}, []int64{70, 100, 2, 3})
		if c := u.GetCpuMilli(); c.GetMin() != 100 || c.GetAvg() < 100 || c.GetAvg() > 200 {
			t.Errorf("cpu %v", c)
		}
		w.m.exit(a.Id, 0)
		w.pass(time.Minute)
		equal(t, "samples of an ended task", len(w.agent.usage.kept), 0)
		equal(t, "an ended task", len(ask().GetTasks()), 0)
	})
}

// TestDiskLimit: a task that takes more of the disk than it asked for is ended, by its own
// fault; one that asked for as much, and one that asked for none, run on.
func TestDiskLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Sample, w.config.Node.Capacity.DiskBytes = 10*time.Second, 10<<30
		w.m.abilities = []string{driver.CanStats}
		w.start()
		disk := func(bytes int64) func(*ohmv1.Assignment) {
			return func(a *ohmv1.Assignment) { a.Placement.Resources.DiskBytes = bytes }
		}
		greedy, exact, free := assignment("greedy", 100, disk(2<<30)), assignment("exact", 100, disk(3<<30)), assignment("free", 100)
		w.complete(greedy, exact, free)
		w.pass(time.Minute)
		equal(t, "before it has written much", w.last(greedy.Id).GetState(), task.Running)
		w.m.mu.Lock()
		w.m.disk = map[string]int64{greedy.Id: 3 << 30, exact.Id: 3 << 30, free.Id: 3 << 30}
		w.m.mu.Unlock()
		w.pass(time.Minute)
		last := w.last(greedy.Id)
		equal(t, "end", task.Name(last.GetState())+" "+last.GetCause(), "Failed DiskExceeded")
		equal(t, "message", last.GetMessage(), "it took 3Gi of the disk; its limit is 2Gi")
		equal(t, "as much as it asked for", w.last(exact.Id).GetState(), task.Running)
		equal(t, "nothing asked for", w.last(free.Id).GetState(), task.Running)
	})
}
