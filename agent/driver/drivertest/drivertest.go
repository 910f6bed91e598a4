// Package drivertest is what every driver.Driver must show before an agent may use it.
//
// A driver's own test calls Run with a Fixture. What a driver cannot show by its nature
// its fixture declares in Lacks, and the suite then names each case that it leaves out;
// limits that depend on the machine are taken from the driver's own Capabilities.
// A number in a name (Case67) is that of a fault seen in the field.
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// Ability is something that a driver can or cannot show by its nature.
type Ability string

// The abilities. Others are never declared: they stand among the driver's Capabilities,
// which the suite holds it to, or they do not.
const (
	Processes Ability = "processes" // a task is real: its command runs and can be looked at
	Outlives  Ability = "outlives"  // a task outlives the process that started it
	Always    Ability = ""          // every driver
)

// Fixture is a driver under test, on a machine of its own. Where its tasks have Processes, it
// keeps of their logs what LogLimits says.
type Fixture struct {
	Driver driver.Driver
	Lacks  []Ability

	// Image is what every task runs in that names none; empty: such a task runs without. It
	// must have a shell and the usual small programs in PATH.
	Image string

	// RegistryAuth is the file from which the driver has credentials for registries. It need
	// not be there at first. Only where CanRegistry, of a driver with Processes.
	RegistryAuth string

	// Again makes another driver on the same machine, as an agent does that starts again.
	Again func(t *testing.T) driver.Driver
	// Work is a task that exits with a code after a time; 0: it runs until it is stopped.
	Work func(code int, after time.Duration) driver.Task
	// StartElsewhere starts the task in another process, which kill ends with SIGKILL.
	// Only where Outlives.
	StartElsewhere func(t *testing.T, tasks ...driver.Task) (kill func())
	// Leftovers names what the machine still holds of a task beside its logs: processes,
	// cgroups, mounts, folders. It does not ask the driver.
	Leftovers func(t *testing.T, id string) []string
}

// Run runs the suite. make is called once for each case. A case that the driver cannot
// show by its nature is left out and named in the log.
func Run(t *testing.T, make func(t *testing.T) Fixture) {
	probe := make(t)
	for _, c := range cases {
		if lacks := probe.lacks(c.needs); lacks != Always {
			t.Logf("left out: %s, the %s driver has no %q here", c.name, probe.Driver.Name(), lacks)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			f := make(t)
			c.run(t, &bench{T: t, Fixture: f, driver: f.Driver})
		})
	}
}

// lacks is what a case needs and the driver has not; Always: nothing. All that is looked at
// needs real processes.
func (f Fixture) lacks(needs Ability) Ability {
	for need := range strings.SplitSeq(string(needs), and) {
		if lacks := f.lacksOne(Ability(need)); lacks != Always {
			return lacks
		}
	}
	return Always
}

func (f Fixture) lacksOne(need Ability) Ability {
	switch need {
	case Always:
	case Processes, Outlives:
		if slices.Contains(f.Lacks, need) {
			return need
		}
	default:
		if !slices.Contains(f.Driver.Capabilities(), string(need)) {
			return need
		}
		return f.lacksOne(Processes)
	}
	return Always
}

// patience is for a machine with too few cores.
const patience = time.Minute

// Eventually waits until cond holds, for at most 20 s.
func Eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("after %v still not so: %s", patience, what)
		}
	}
}

// bench is where one case is tried.
type bench struct {
	*testing.T
	Fixture
	driver driver.Driver // the one in use: Fixture.Driver, or one made by restart
}

var count atomic.Int64

// MarkEnv is set, to the task's id, in the environment of every task of the suite, so
// that Fixture.Leftovers can find its processes.
const MarkEnv = "DRIVERTEST_TASK"

// named gives the task a new id, sees to its end, and marks it.
func (b *bench) named(t driver.Task) driver.Task {
	t.ID = fmt.Sprintf("drivertest-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), count.Add(1))
	env := map[string]string{MarkEnv: t.ID}
	for k, v := range t.Env {
		env[k] = v
	}
	t.Env = env
	if t.Image == "" {
		t.Image = b.Image
	}
	b.Cleanup(func() {
		ctx := context.Background()
		d := b.Again(b.T)
		if err := errors.Join(d.Kill(ctx, t.ID), d.Remove(ctx, t.ID), d.RemoveLogs(ctx, t.ID)); err != nil {
			b.Errorf("clean up %s: %v", t.ID, err)
		}
	})
	return t
}

// start starts the task under a new id.
func (b *bench) start(t driver.Task) (id string) {
	b.Helper()
	t = b.named(t)
	if err := b.driver.Start(b.Context(), t); err != nil {
		b.Fatalf("start: %v", err)
	}
	return t.ID
}

// script starts a shell script.
func (b *bench) script(script string) (id string) {
	b.Helper()
	return b.start(driver.Task{Command: []string{"sh", "-c", script}})
}

// restart goes on with a new driver, which knows nothing of what the old one did.
func (b *bench) restart() { b.driver = b.Again(b.T) }

func (b *bench) observe(id string) driver.Observation {
	b.Helper()
	o, ok, err := b.driver.Observe(b.Context(), id)
	if err != nil || !ok {
		b.Fatalf("observe %s: known %v, %v", id, ok, err)
	}
	if o.ID != id {
		b.Fatalf("observed %q instead of %q", o.ID, id)
	}
	return o
}

// running says whether the task runs now.
func (b *bench) running(id string) bool {
	b.Helper()
	return b.observe(id).State == task.Running
}

// ended waits for the task's end.
func (b *bench) ended(id string) (o driver.Observation) {
	b.Helper()
	Eventually(b.T, id+" has ended", func() bool {
		o = b.observe(id)
		return task.Ended(o.State)
	})
	if o.Started.IsZero() || o.Ended.Before(o.Started) {
		b.Errorf("it started at %v and ended at %v", o.Started, o.Ended)
	}
	return o
}

// expectExit checks an end by exit code.
func (b *bench) expectExit(o driver.Observation, code int) {
	b.Helper()
	state := task.Succeeded
	if code != 0 {
		state = task.Failed
	}
	if o.State != state || o.Cause != task.Exited || o.ExitCode != code || o.Signal != 0 {
		b.Errorf("ended as %+v, want exit code %d", o, code)
	}
}

// expectSignal checks an end by signal.
func (b *bench) expectSignal(o driver.Observation, sig int) {
	b.Helper()
	if o.State != task.Failed || o.Cause != task.Signalled || o.Signal != sig || o.ExitCode != 0 {
		b.Errorf("ended as %+v, want signal %d", o, sig)
	}
}

// must fails on an error.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// log is what the stream holds now.
func (b *bench) log(id, stream string) string {
	b.Helper()
	r, err := b.driver.Logs(b.Context(), id, stream, driver.From{})
	if err != nil {
		b.Fatalf("open %s of %s: %v", stream, id, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		b.Fatalf("read %s of %s: %v", stream, id, err)
	}
	return string(data)
}

// kept are the tasks whose logs are listed.
func (b *bench) kept() map[string]time.Time {
	b.Helper()
	kept, err := b.driver.ListLogs(b.Context())
	if err != nil {
		b.Fatalf("list logs: %v", err)
	}
	return kept
}

// says waits until stdout holds the text.
func (b *bench) says(id, text string) {
	b.Helper()
	Eventually(b.T, fmt.Sprintf("stdout of %s holds %q", id, text), func() bool {
		return strings.Contains(b.log(id, "stdout"), text)
	})
}

// clean checks that nothing but logs is left of a removed task.
func (b *bench) clean(id string) {
	b.Helper()
	if _, ok, err := b.driver.Observe(b.Context(), id); ok || err != nil {
		b.Errorf("%s is still known, or %v", id, err)
	}
	if left := b.Leftovers(b.T, id); len(left) > 0 {
		b.Errorf("left of %s: %q", id, left)
	}
}

// processes of the task that live, found by its mark in their environment.
func (b *bench) processes(id string) []string { return Marked(id) }

// Marked finds, on Linux, the living processes with the task's mark in their environment:
// their pids, with their command lines.
func Marked(id string) []string {
	mark := MarkEnv + "=" + id + "\x00"
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		env, err := os.ReadFile(path) // of a zombie it is empty
		if err == nil && strings.Contains(string(env), mark) {
			dir := filepath.Dir(path)
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
