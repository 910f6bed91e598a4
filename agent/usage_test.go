package agent

import (
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
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
