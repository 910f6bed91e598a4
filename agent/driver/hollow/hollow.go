// Package hollow runs tasks that are not there: a driver for nodes that exist only to be
// scheduled on, thousands of them in one process.
//
// A hollow task is a few numbers, and how it stands follows from them and the time, so it
// costs no process, no goroutine and no timer. It runs until it is stopped; its environment
// may ask for more:
//
//	HOLLOW_SECONDS  it ends by itself after so many seconds ("0.5"), or after some between
//	                two numbers ("1-10"), which its id decides
//	HOLLOW_EXIT     with this exit code, 0 to 255; default 0
//
// Its command, and what it is to run in, are never looked at: nothing can go wrong with an
// image or a mount that is not there, so a hollow node takes any task that makes sense. Any signal that would end a process without a handler
// ends it. The driver's value is the machine: an agent that starts again finds its tasks
// in the same value, and they are gone with it.
package hollow

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// The environment that a hollow task obeys.
const (
	EnvSeconds = "HOLLOW_SECONDS"
	EnvExit    = "HOLLOW_EXIT"
)

// maxSeconds is what a time.Duration can hold.
const maxSeconds = 9e9

// Driver is one hollow node.
type Driver struct {
	mu      sync.Mutex
	tasks   map[string]*hollow
	logs    map[string]time.Time // tasks whose logs are kept: when they were written
	watches map[*watch]bool
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Instant = (*Driver)(nil)
)

// New makes a node without tasks.
func New() *Driver {
	return &Driver{tasks: map[string]*hollow{}, logs: map[string]time.Time{}, watches: map[*watch]bool{}}
}

// hollow is one task: when it started, and how and when it ends if nobody ends it before.
type hollow struct {
	started time.Time
	ends    time.Time // zero: never by itself
	end     driver.Observation
}

// state is the task's at that time.
func (h *hollow) state(at time.Time) task.State {
	if h.ends.IsZero() || at.Before(h.ends) {
		return task.Running
	}
	return h.end.State
}

// observe is how the task stands at that time.
func (h *hollow) observe(id string, at time.Time) driver.Observation {
	if h.state(at) == task.Running {
		return driver.Observation{ID: id, State: task.Running, Started: h.started}
	}
	o := h.end
	o.ID, o.Started, o.Ended = id, h.started, h.ends
	return o
}

// plan makes the task of what its environment asks for.
func plan(t driver.Task, at time.Time) (*hollow, error) {
	h := &hollow{started: at, end: driver.Observation{State: task.Succeeded, Cause: task.Exited}}
	all := t.All()
	env := all[len(all)-1].Env // the main one's
	if s, ok := env[EnvExit]; ok {
		code, err := strconv.Atoi(s)
		if err != nil || code < 0 || code > 255 {
			return nil, fmt.Errorf("%s=%s is no exit code", EnvExit, s)
		}
		if h.end.ExitCode = code; code != 0 {
			h.end.State = task.Failed
		}
	}
	if s, ok := env[EnvSeconds]; ok {
		after, err := seconds(s, t.ID)
		if err != nil {
			return nil, err
		}
		h.ends = at.Add(time.Duration(after * float64(time.Second)))
	}
	if limit := at.Add(t.MaxRuntime); t.MaxRuntime > 0 && (h.ends.IsZero() || h.ends.After(limit)) {
		h.ends, h.end = limit, driver.Observation{State: task.Failed, Cause: task.TimedOut}
	}
	return h, nil
}

// seconds reads a number of seconds, or takes the task's own one between two.
func seconds(text, id string) (float64, error) {
	least, most, isRange := strings.Cut(text, "-")
	if !isRange {
		most = least
	}
	from, err1 := strconv.ParseFloat(least, 64)
	to, err2 := strconv.ParseFloat(most, 64)
	if err1 != nil || err2 != nil || !(from >= 0 && from <= to && to <= maxSeconds) {
		return 0, fmt.Errorf("%s=%s is no number of seconds, nor two", EnvSeconds, text)
	}
	chance := fnv.New64a()
	_, _ = chance.Write([]byte(id)) // a hash never fails
	return from + (to-from)*rand.New(rand.NewPCG(chance.Sum64(), 0)).Float64(), nil
}

// Instant says that nothing here waits.
func (d *Driver) Instant() {}

// Name is hollow.
func (d *Driver) Name() string { return "hollow" }

// Capabilities are those that ask for nothing but words: a hollow task never exceeds a limit
// or leaves its box. There is nothing in it to be looked at, entered or killed for memory.
func (d *Driver) Capabilities() []string {
	return []string{
		driver.CanCaps, driver.CanCPUMax, driver.CanPids, driver.CanConfine, driver.CanContainers, driver.CanHostRoot, driver.CanImage,
		driver.CanRegistry, driver.CanMount, driver.CanReadOnly, driver.CanUser,
	}
}

// Start fails only on an environment that makes no sense.
func (d *Driver) Start(_ context.Context, t driver.Task) error {
	if err := driver.Check(t, d.Capabilities()); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[t.ID] != nil {
		return nil
	}
	if _, ran := d.logs[t.ID]; ran {
		return fmt.Errorf("task %s ran here before and was removed", t.ID)
	}
	now := time.Now()
	h, err := plan(t, now)
	if err != nil {
		h = &hollow{ends: now, end: driver.Observation{
			State: task.Failed, Cause: task.StartFailed, Message: err.Error(),
		}}
	} else {
		d.logs[t.ID] = now
	}
	d.tasks[t.ID] = h
	for w := range d.watches {
		w.began(t.ID, h)
	}
	return err
}

// Signal ends the task if the signal would end a process that does not handle it.
func (d *Driver) Signal(_ context.Context, id string, sig syscall.Signal) error {
	switch sig {
	case 0, syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH,
		syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if h := d.tasks[id]; h != nil && !task.Ended(h.observe(id, now).State) {
		h.ends = now
		h.end = driver.Observation{State: task.Failed, Cause: task.Signalled, Signal: int(sig)}
		for w := range d.watches {
			w.ended(id)
		}
	}
	return nil
}

// Kill ends the task.
func (d *Driver) Kill(ctx context.Context, id string) error {
	return d.Signal(ctx, id, syscall.SIGKILL)
}

// Observe never fails.
func (d *Driver) Observe(_ context.Context, id string) (driver.Observation, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.tasks[id]
	if h == nil {
		return driver.Observation{}, false, nil
	}
	return h.observe(id, time.Now()), true, nil
}

// List is sorted by id.
func (d *Driver) List(context.Context) ([]driver.Observation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	list := make([]driver.Observation, 0, len(d.tasks))
	for id, h := range d.tasks {
		list = append(list, h.observe(id, now))
	}
	slices.SortFunc(list, func(a, b driver.Observation) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// Remove forgets an ended task.
func (d *Driver) Remove(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.tasks[id]; h != nil {
		if s := h.observe(id, time.Now()).State; !task.Ended(s) {
			return fmt.Errorf("task %s is %s: it cannot be removed", id, task.Name(s))
		}
		delete(d.tasks, id)
	}
	return nil
}

// Exec fails: there is nothing to be entered.
func (d *Driver) Exec(_ context.Context, id string, _ driver.Exec) (int, error) {
	return 0, fmt.Errorf("hollow task %s: %w", id, driver.ErrCannot)
}

// Stats are none.
func (d *Driver) Stats(context.Context, string) (driver.Stats, bool, error) {
	return driver.Stats{}, false, nil
}

// Logs are one line for each stream, the same for every task.
func (d *Driver) Logs(_ context.Context, id, stream string, from driver.From) (driver.Log, error) {
	if stream != "stdout" && stream != "stderr" {
		return nil, fmt.Errorf("a task has no stream %q", stream)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, kept := d.logs[id]; !kept {
		return nil, &fs.PathError{Op: "open log", Path: id + "/" + stream, Err: fs.ErrNotExist}
	}
	line := fmt.Sprintf("hollow task %s started\n", id)
	if stream == "stderr" {
		line = fmt.Sprintf("hollow task %s runs nothing\n", id)
	}
	switch written := d.logs[id]; {
	case from.Tail < 0, written.Before(from.Since):
		from.Offset = int64(len(line))
	}
	r := oneLine{strings.NewReader(line)}
	_, err := r.Seek(min(from.Offset, r.Size()), io.SeekStart)
	return r, err
}

// oneLine is a log.
type oneLine struct{ *strings.Reader }

func (oneLine) Close() error    { return nil }
func (l oneLine) Offset() int64 { return l.Size() - int64(l.Len()) }

// ListLogs never fails.
func (d *Driver) ListLogs(context.Context) (map[string]time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.logs), nil
}

// DiskBytes is 0: there is no disk.
func (d *Driver) DiskBytes(context.Context, string) (int64, error) { return 0, nil }

// LogBytes is 0: there is no disk.
func (d *Driver) LogBytes(context.Context, string) (int64, error) { return 0, nil }

// RemoveLogs forgets both streams.
func (d *Driver) RemoveLogs(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.logs, id)
	return nil
}
