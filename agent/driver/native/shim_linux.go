package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/agent/driver/publish"
	"github.com/ohmcell/ohm/pkg/task"
)

// Files that the starter opens for the shim.
const (
	_          = 3 + iota // the task's lock, for as long as the shim lives
	shimReport            // how the start went, for the starter
)

// report is the shim's one word to whoever called Start and may be gone by now.
type report struct {
	Cause string `json:",omitempty"` // of pkg/task
	Error string `json:",omitempty"` // the task is over before it began
}

// shim runs one task from its start to its end and writes down both.
func shim(dir string) error {
	if err := keepFiles(); err != nil { // the lock says that a shim lives, nothing else
		return err
	}
	catch() // nothing that is sent to the shim reaches or ends the task
	t := &tended{dir: dir, starter: os.NewFile(shimReport, "starter")}
	end := t.run()
	end.Ended = folder.Now()
	err := writeExit(dir, end)
	if t.failed {
		t.tell(report{end.Cause, end.Message})
	}
	return err
}

// tended is the task of this shim.
type tended struct {
	dir   string
	spec  spec
	state state
	out   output
	ends  []*os.File // of the streams, for the containers to write to
	net   *os.File   // nil: the node's network

	starter io.WriteCloser // nil: it knows how the start went
	failed  bool           // the task did not start
}

// failed is the end of a task that did not start.
func failed(err error) folder.Exit {
	return folder.Exit{Cause: driver.StartCause(err), Message: err.Error(), Ended: folder.Now()}
}

// run returns when no process of the task is left.
func (t *tended) run() folder.Exit {
	listeners, err := t.publish()
	if err != nil {
		return t.fails(err)
	}
	defer publish.Close(listeners)
	err = t.prepare()
	defer t.out.finish() // after the ends are closed
	defer t.closeEnds()
	if err != nil {
		return t.fails(err)
	}
	publish.Pass(listeners, t.dial)
	last, err := t.proceed()
	sweepErr := t.sweep()
	if err != nil {
		return t.fails(errors.Join(err, sweepErr))
	}
	if sweepErr != nil {
		fmt.Fprintln(os.Stderr, sweepErr)
	}
	return t.verdict(last)
}

// proceed starts one container after the other, and returns the one whose end is the task's.
func (t *tended) proceed() (*container, error) {
	for i, p := range t.spec.all() {
		if t.state.begun() && folder.Killed(t.dir) {
			return nil, driver.ErrKilledEarly
		}
		c, err := t.start(i, p)
		if err != nil {
			if len(t.spec.Before) > 0 {
				err = fmt.Errorf("container %s: %w", p.name(), err)
			}
			return nil, err
		}
		if p.Role == driver.Sidecar {
			continue
		}
		t.tell(report{})
		if p.Role == driver.Main {
			t.closeEnds()
		}
		if t.wait(c); p.Role == driver.Main || !c.last.Ended || c.last.Status != 0 {
			return c, nil
		}
	}
	return nil, errors.New("it has no main container")
}

// fails is the end of a task of which a container could not be started.
func (t *tended) fails(err error) folder.Exit {
	t.failed = true
	e := failed(err)
	if t.state.begun() && folder.Killed(t.dir) {
		e.Cause, e.Signal = task.Signalled, int(syscall.SIGKILL)
	}
	e.Started = t.state.Started
	return e
}

// tell gives the starter its word, which may be gone.
func (t *tended) tell(r report) {
	if t.starter != nil {
		_ = json.NewEncoder(t.starter).Encode(r)
		t.starter.Close()
		t.starter = nil
	}
}

// prepare makes what the containers need.
func (t *tended) prepare() (err error) {
	if t.spec.Task != nil {
		return errors.New("it was to start before its image was there")
	}
	if t.state.Boot, err = proc.BootID(); err != nil {
		return err
	}
	if t.state.Shim, err = proc.Self(); err != nil {
		return err
	}
	t.state.Cgroups = t.spec.Cgroups
	if err := folder.Write(filepath.Join(t.dir, stateFile), t.state); err != nil {
		return err
	}
	// Orphans fall to the shim if an init is killed in plain mode.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := t.spec.Cgroups.Create(t.spec.Limits); err != nil {
		return fmt.Errorf("make cgroups: %w", err)
	}
	if err := t.network(); err != nil {
		return err
	}
	t.ends, err = t.out.open(t.spec.Logs, t.spec.LogLimits)
	return err
}

// closeEnds leaves nobody but the task itself with something to say.
func (t *tended) closeEnds() {
	for _, end := range t.ends {
		end.Close()
	}
	t.ends = nil
}

// sweep ends what a killed init left behind; after a good one there is nothing.
func (t *tended) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := t.spec.Cgroups.Kill(ctx)
	// The shim has no other children than what is to end.
	return errors.Join(err, end(false))
}

// reap waits for the child.
func reap(pid int) syscall.WaitStatus {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
}
