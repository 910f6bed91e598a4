// Package driver is the contract between the agent and what runs its tasks, and
// the pure step that brings one task closer to what is wanted of it.
//
// Drivers are found below: native runs processes with what the kernel of this
// machine allows, hollow simulates whole nodes. Both pass the suite in drivertest;
// so must a third one.
package driver

import (
	"context"
	"io"
	"syscall"
	"time"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Task is what a driver is told to run: one attempt of one slot.
type Task struct {
	ID         string // unique for ever; safe as a file name; at most 240 bytes
	Command    []string
	Env        map[string]string // complete: the task sees these and PATH, HOME, nothing of the agent's own
	Resources  *ohmv1.Resources  // limits; 0 in a dimension: none
	GPUs       []*ohmv1.DeviceShare
	MaxRuntime time.Duration // for drivers that simulate; the agent enforces it for real ones
}

// Observation is what is true of a task now, seen on the machine itself.
type Observation struct {
	ID       string
	State    task.State // Assigned (known, not started) … end state
	Cause    string     // in an end state: task.Exited, Signalled, OOMKilled, StartFailed, UnknownExit
	ExitCode int
	Signal   int
	OOM      bool   // some process of it was killed for memory, even if the task goes on
	Message  string // for people
	Pid      int    // of the task's own first process, in the node's pid namespace; 0: none
	Started  time.Time
	Ended    time.Time
}

// Driver runs tasks on one node. Every method is idempotent and may be called by an
// agent process that knows nothing of what an earlier one did: the truth is on the
// machine, not in the driver's memory. A task is recognised by boot id, start time
// and cgroup or label, never by its pid alone; nothing is ever signalled on a pid alone.
//
// An agent that is killed leaves its tasks running; nothing that a task needs may
// die with it.
type Driver interface {
	// Name is native, hollow, … and stands in the node's record.
	Name() string
	// Capabilities says what the driver can really enforce on this machine, such as
	// "namespaces", "cgroup-memory", "cgroup-cpu", "cgroup-pids", "cgroup-kill".
	Capabilities() []string

	// Start starts the task unless it was started before under its id, by whomever;
	// then it changes nothing and returns nil. An error says that nothing of the task
	// is left running and that it never will: the attempt has failed.
	Start(ctx context.Context, t Task) error
	// Signal sends sig to the whole task: its first process gets it for sure, also
	// where that is pid 1 of a namespace. A task that is over or not known is no error.
	Signal(ctx context.Context, id string, sig syscall.Signal) error
	// Kill ends every process of the task, those that left its session included.
	Kill(ctx context.Context, id string) error
	// Observe says how the task stands. ok is false for a task that the machine does
	// not know (never started here, or removed).
	Observe(ctx context.Context, id string) (o Observation, ok bool, err error)
	// List observes every task of this agent that the machine knows.
	List(ctx context.Context) ([]Observation, error)
	// Watch calls changed with the id of a task whose observation may have changed,
	// until ctx ends. It is a hint to make the agent quick; a missed call hurts nobody.
	Watch(ctx context.Context, changed func(id string)) error
	// Remove gives back everything of an ended task but its logs: cgroups, mounts,
	// scratch files. It refuses a task that still runs.
	Remove(ctx context.Context, id string) error

	// Logs opens one stream ("stdout" or "stderr") of a task for reading, from its
	// beginning; at the end of what is written so far Read returns io.EOF and may be
	// tried again. Links out of the task's folder are never followed. An unknown task
	// gives an error for which errors.Is(err, fs.ErrNotExist) holds.
	Logs(ctx context.Context, id, stream string) (io.ReadCloser, error)
	// ListLogs names every task of which logs are kept, known otherwise or not, with the
	// time at which they were last written to.
	ListLogs(ctx context.Context) (map[string]time.Time, error)
	// RemoveLogs forgets the logs of a task for good.
	RemoveLogs(ctx context.Context, id string) error
}
