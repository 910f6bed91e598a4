// Package driver is the contract between the agent and what runs its tasks, and
// the pure step that brings one task closer to what is wanted of it.
//
// Drivers are found below: native runs processes with what the kernel of this
// machine allows, hollow simulates whole nodes. Both pass the suite in drivertest;
// so must a third one.
package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/ohmcell/ohm/pkg/task"
)

// Observation is what is true of a task now, seen on the machine itself.
type Observation struct {
	ID       string
	State    task.State // Assigned (known, not started) … end state
	Cause    string     // in an end state: task.Exited, Signalled, OOMKilled, StartFailed, PortBusy, ImageNotFound, ImageDenied, StartDeadline, UnknownExit
	ExitCode int
	Signal   int
	OOM      bool   // some process of it was killed for memory, even if the task goes on
	Message  string // for people
	Pid      int    // of the task's own first process, in the node's pid namespace; 0: none
	Started  time.Time
	Ended    time.Time

	// Of an ended one, where the driver has CanStats: the most memory that it had in use,
	// page cache included, and what it might have, in bytes; 0: not known, none.
	MemoryPeak, MemoryLimit int64
}

// Exec is another program in a running task. It is held to what the container is held to:
// its root, user, limits, capabilities.
type Exec struct {
	Container string // empty: the main one
	Command   []string
	Env       map[string]string // beside the container's
	User, Dir string            // as in Box; empty: the container's
	Terminal  bool              // it has a terminal: Stdout is all that it says, Stderr stays empty
	Resize    <-chan Size       // of the terminal; nil: it stays at 80 × 24
	Stdin     io.Reader         // nil: there is nothing to read. Exec may leave one Read of it behind
	Stdout    io.Writer         // nil: not wanted
	Stderr    io.Writer
}

// Size of a terminal, in characters.
type Size struct{ Columns, Rows uint16 }

// ErrNotRunning says that there is no running task to do this to.
var ErrNotRunning = errors.New("the task does not run")

// Dialer is a driver whose tasks may have networks of their own (CanOwnNetwork).
type Dialer interface {
	// Dial connects to a TCP port of a running task, on 127.0.0.1 in the network that it has.
	Dial(ctx context.Context, id string, port int32) (net.Conn, error)
}

// PortBusyError is why a task cannot be started whose ports somebody else has.
type PortBusyError struct{ Ports []int32 }

func (e *PortBusyError) Error() string {
	if len(e.Ports) == 1 {
		return fmt.Sprintf("port %d is in use by a process outside of the cell", e.Ports[0])
	}
	return fmt.Sprintf("ports %s are in use by processes outside of the cell", strings.Trim(fmt.Sprint(e.Ports), "[]"))
}

// Stats is what a task has used until now, as its cgroups count it. Where the kernel does
// not count something, it is 0.
type Stats struct {
	CPU              time.Duration // of all cores together, since the start
	Memory           int64         // bytes in use now, without page cache that can be dropped
	MemoryPeak       int64         // bytes, the most so far, page cache included
	MemoryLimit      int64         // bytes; 0: none
	Processes        int64         // and threads, now
	ThrottledPeriods int64         // of CPUMax (100 ms each) in which it was held back
	Throttled        time.Duration // for how long, on all cores together
}

// From is where the reading of a log begins; the zero value is its beginning. Where several
// things are said, all hold.
type From struct {
	Offset int64     // bytes of the stream that come before
	Since  time.Time // what was written before is left out, to within a second
	Tail   int       // so many lines at the end; 0: all, negative: none
}

// Log is an open stream of a task's log.
type Log interface {
	io.ReadCloser
	// Offset is how many bytes of the stream come before what Read reads next. Where it
	// grows by more than was read, the difference is lost: it was rotated away before it was
	// read, or could not be written.
	Offset() int64
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
	// Capabilities says what the driver can really enforce on this machine: the abilities
	// of this package (CanMemory, …), sorted. They stand in the node's record. A task of
	// which Needs names another one is refused by Start, as by Check, before anything is
	// done for it, and is not known afterwards; no field is ever ignored.
	Capabilities() []string

	// Start starts the task unless it was started before under its id, by whomever;
	// then it changes nothing and returns nil. An error says that nothing of the task
	// is left running and that it never will: the attempt has failed.
	//
	// What cannot get better fails at once: an image that is not there (observed with cause
	// ImageNotFound) or may not be had (ImageDenied). What may get better, such as a
	// registry that is down, is tried again until the task's StartBy (StartDeadline). A
	// Kill meanwhile ends the start. Of a task with several containers Start begins the
	// first ones; it does not wait for an init container's end.
	//
	// A start that was cut short by the end of the agent's process, before any command of the
	// task ran, may be observed as Assigned: then the next Start goes on with it.
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

	// Exec runs another program in a running task and waits for its end; if ctx ends before,
	// it is killed with all that it started. It returns the exit code, 128 and the number of
	// a signal that ended it. An error says that there was no such end: the task does not run
	// (ErrNotRunning), or the program could not be started.
	Exec(ctx context.Context, id string, e Exec) (code int, err error)
	// Stats says what a running task uses. ok is false for a task that does not run, and
	// where the driver has not CanStats.
	Stats(ctx context.Context, id string) (s Stats, ok bool, err error)

	// DiskBytes is what a task has written to its scratch folder and over its images, as it
	// takes of the disk; its logs are not in it. 0 where there is nothing of it.
	DiskBytes(ctx context.Context, id string) (int64, error)

	// Logs opens one stream ("stdout" or "stderr") of a task for reading; at the end of
	// what is written so far Read returns io.EOF and may be tried again, also across a
	// rotation of the log. Links out of the task's folder are never followed. An unknown
	// task gives an error for which errors.Is(err, fs.ErrNotExist) holds.
	Logs(ctx context.Context, id, stream string, from From) (Log, error)
	// ListLogs names every task of which logs are kept, known otherwise or not, with the
	// time at which they were last written to.
	ListLogs(ctx context.Context) (map[string]time.Time, error)
	// LogBytes is what the logs of a task take of the disk; 0 where there are none.
	LogBytes(ctx context.Context, id string) (int64, error)
	// RemoveLogs forgets the logs of a task for good.
	RemoveLogs(ctx context.Context, id string) error
}

// Instant is a Driver of which no call waits for anything, but Watch's, Exec's and those of
// what Logs returns. The agent asks it on the spot, where it asks others in a goroutine with a
// deadline: a simulated node then costs little beside what it simulates.
type Instant interface{ Instant() }

// Pause waits for d or until ctx ends, whose error it then returns.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
