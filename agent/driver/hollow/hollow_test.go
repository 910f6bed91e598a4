package hollow

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/pkg/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Fixture {
		d := New()
		return drivertest.Fixture{
			Driver: d,
			Lacks:  []drivertest.Ability{drivertest.Processes, drivertest.Outlives},
			Again:  func(*testing.T) driver.Driver { return d },
			Work: func(code int, after time.Duration) driver.Task {
				w := driver.Task{Command: []string{"nothing"}, Env: map[string]string{EnvExit: strconv.Itoa(code)}}
				if after > 0 {
					w.Env[EnvSeconds] = strconv.FormatFloat(after.Seconds(), 'f', -1, 64)
				}
				return w
			},
			Leftovers: func(_ *testing.T, id string) []string {
				d.mu.Lock()
				defer d.mu.Unlock()
				if d.tasks[id] != nil {
					return []string{id}
				}
				return nil
			},
		}
	})
}

// TestPlan: what a task's environment asks for is done to the millisecond, or refused.
func TestPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			env   map[string]string
			limit time.Duration
			end   driver.Observation
			after time.Duration // 0: it cannot be started
		}{
			"ends":            {map[string]string{EnvSeconds: "1.5"}, 0, driver.Observation{State: task.Succeeded, Cause: task.Exited}, 1500 * time.Millisecond},
			"fails":           {map[string]string{EnvSeconds: "60", EnvExit: "3"}, 0, driver.Observation{State: task.Failed, Cause: task.Exited, ExitCode: 3}, time.Minute},
			"takes too long":  {map[string]string{EnvSeconds: "60"}, time.Second, driver.Observation{State: task.Failed, Cause: task.TimedOut}, time.Second},
			"takes for ever":  {nil, time.Hour, driver.Observation{State: task.Failed, Cause: task.TimedOut}, time.Hour},
			"is quick enough": {map[string]string{EnvSeconds: "1"}, time.Minute, driver.Observation{State: task.Succeeded, Cause: task.Exited}, time.Second},
			"bad seconds":     {map[string]string{EnvSeconds: "1s"}, 0, driver.Observation{}, 0},
			"between two":     {map[string]string{EnvSeconds: "1.5-1.5"}, 0, driver.Observation{State: task.Succeeded, Cause: task.Exited}, 1500 * time.Millisecond},
			"backwards":       {map[string]string{EnvSeconds: "2-1"}, 0, driver.Observation{}, 0},
			"no end":          {map[string]string{EnvSeconds: "2-"}, 0, driver.Observation{}, 0},
			"negative":        {map[string]string{EnvSeconds: "-1"}, 0, driver.Observation{}, 0},
			"no number":       {map[string]string{EnvSeconds: "NaN"}, 0, driver.Observation{}, 0},
			"too long":        {map[string]string{EnvSeconds: "1e10"}, 0, driver.Observation{}, 0},
			"bad exit":        {map[string]string{EnvExit: "x"}, 0, driver.Observation{}, 0},
			"no exit code":    {map[string]string{EnvExit: "256"}, 0, driver.Observation{}, 0},
		} {
			d, begin := New(), time.Now()
			w := driver.Task{ID: name, Command: []string{"x"}, Env: c.env, MaxRuntime: c.limit}
			err := d.Start(t.Context(), w)
			o, ok, _ := d.Observe(t.Context(), name)
			if c.after == 0 {
				if err == nil || !ok || o.Cause != task.StartFailed || o.State != task.Failed || o.Message != err.Error() {
					t.Errorf("%s: %v, observed %+v", name, err, o)
				}
				continue
			}
			if err != nil || o.State != task.Running {
				t.Errorf("%s: %v, observed %+v", name, err, o)
			}
			time.Sleep(c.after - 1) // of the bubble's clock
			if o, _, _ := d.Observe(t.Context(), name); o.State != task.Running {
				t.Errorf("%s: too early %+v", name, o)
			}
			time.Sleep(1 * time.Nanosecond)
			c.end.ID, c.end.Started, c.end.Ended = name, begin, begin.Add(c.after)
			if o, _, _ := d.Observe(t.Context(), name); o != c.end {
				t.Errorf("%s: observed %+v, want %+v", name, o, c.end)
			}
		}
	})
}

// TestWatchInTime: Watch, one goroutine for a node, calls when a task ends and not before.
func TestWatchInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, begin := New(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		calls := map[string][]time.Duration{}
		done := make(chan error)
		go func() {
			done <- d.Watch(ctx, func(id string) { calls[id] = append(calls[id], time.Since(begin)) })
		}()
		for id, seconds := range map[string]string{"a": "3", "b": "1", "c": "2"} {
			w := driver.Task{ID: id, Command: []string{"x"}, Env: map[string]string{EnvSeconds: seconds}}
			if err := d.Start(t.Context(), w); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Hour) // of the bubble's clock
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := map[string][]time.Duration{"a": {0, 3 * time.Second}, "b": {0, time.Second}, "c": {0, 2 * time.Second}}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Error(diff)
		}
	})
}

// TestHarmlessSignals: what a process survives without a handler, a hollow task survives.
func TestHarmlessSignals(t *testing.T) {
	d := New()
	if err := d.Start(t.Context(), driver.Task{ID: "a", Command: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{0, syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGCHLD, syscall.SIGURG} {
		if err := d.Signal(t.Context(), "a", sig); err != nil {
			t.Error(err)
		}
	}
	if o, _, _ := d.Observe(t.Context(), "a"); o.State != task.Running {
		t.Errorf("observed %+v", o)
	}
}

// BenchmarkLife is one task from its start to its removal.
func BenchmarkLife(b *testing.B) {
	d := New()
	for i := 0; b.Loop(); i++ {
		id := strconv.Itoa(i)
		w := driver.Task{ID: id, Command: []string{"x"}, Env: map[string]string{EnvSeconds: "0"}}
		if err := errors.Join(d.Start(b.Context(), w), d.Remove(b.Context(), id), d.RemoveLogs(b.Context(), id)); err != nil {
			b.Fatal(err)
		}
	}
}
