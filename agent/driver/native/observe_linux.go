package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/pkg/task"
)

// buryTimeout is how long the rest of a task may take to end whose shim is gone.
const buryTimeout = 10 * time.Second

// Observe looks at the task's folder. A task whose shim is gone without a word is over:
// Observe ends what is left of it and writes that down.
func (d *Driver) Observe(ctx context.Context, id string) (driver.Observation, bool, error) {
	none := driver.Observation{}
	if err := folder.CheckID(id); err != nil {
		return none, false, err
	}
	dir := d.folder(id)
	held, err := folder.Held(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return none, false, nil
	}
	if err != nil {
		return none, false, err
	}
	if held {
		return running(id, dir), true, nil
	}
	d.reapShims()
	e, err := folder.Read[folder.Exit](filepath.Join(dir, exitFile))
	if err == nil {
		return e.Observation(id), true, nil
	}
	if !folder.Exists(dir) {
		return none, false, nil // removed in this moment
	}
	if !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("a task's end cannot be read", zap.String("task", id), zap.Error(err))
	}
	if unbegun(dir) {
		return driver.Observation{ID: id, State: task.Assigned}, true, nil
	}
	if e, err = d.bury(ctx, id); err != nil {
		return none, false, err
	}
	return e.Observation(id), true, nil
}

// running is a task that has a starter or a shim.
func running(id, dir string) driver.Observation {
	o := driver.Observation{ID: id, State: task.Starting}
	st, err := folder.Read[state](filepath.Join(dir, stateFile))
	if err != nil || !st.begun() {
		return o // the shim is about to say more
	}
	o.Started, o.OOM = st.Started, st.Cgroups.OOMs() > 0
	if st.Command.Pid != 0 {
		o.State, o.Pid = task.Running, st.Command.Pid
	} else if n := len(st.Before); n > 0 {
		o.Message = driver.AtMessage(st.Before[n-1].Name)
	}
	return o
}

// bury ends what is left of a task that nobody watches over any more, and writes down that
// its end was not seen. Nothing but what is surely the task's is touched.
func (d *Driver) bury(ctx context.Context, id string) (folder.Exit, error) {
	dir := d.folder(id)
	// One at a time: several agents, or calls, may come to the same grave.
	grave, err := os.OpenFile(filepath.Join(dir, graveFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return folder.Exit{}, err
	}
	defer grave.Close()
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(grave.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return folder.Exit{}, fmt.Errorf("lock %s: %w", grave.Name(), err)
	}
	if e, err := folder.Read[folder.Exit](filepath.Join(dir, exitFile)); err == nil {
		return e, nil
	}
	st, err := folder.Read[state](filepath.Join(dir, stateFile))
	e := folder.Exit{Cause: task.UnknownExit, Pid: st.Command.Pid, Started: st.Started, Ended: folder.Now()}
	switch {
	case err != nil:
		e.Cause, e.Message = task.StartFailed, "its start was cut short"
		st.Cgroups = d.cgroups(id)
	case st.Boot != d.boot:
		e.Message = "the node was restarted under it"
	default:
		e.Message = "its shim was killed"
	}
	ctx, cancel := context.WithTimeout(ctx, buryTimeout)
	defer cancel()
	if err := st.Cgroups.Kill(ctx); err != nil {
		return folder.Exit{}, fmt.Errorf("end the rest of task %s: %w", id, err)
	}
	all := append(st.inits(), st.Command)
	for _, m := range st.Before {
		all = append(all, m.Command)
	}
	for _, p := range all {
		if st.Boot != d.boot {
			break
		}
		if err := endTree(ctx, p); err != nil {
			return folder.Exit{}, fmt.Errorf("end the rest of task %s: %w", id, err)
		}
	}
	e.OOM = st.Cgroups.OOMs() > 0
	if err := writeExit(dir, e); err != nil {
		return folder.Exit{}, fmt.Errorf("write down the end of task %s: %w", id, err)
	}
	return e, nil
}

// endTree kills a process and all below it, and waits until it is gone.
func endTree(ctx context.Context, p proc.Process) error {
	for {
		pidfd, err := p.Open()
		if err == proc.ErrGone {
			return nil
		}
		if err != nil {
			return err
		}
		if err = kill(p); err == nil {
			err = unix.PidfdSendSignal(pidfd, syscall.SIGKILL, nil, 0)
		}
		unix.Close(pidfd)
		if err != nil && err != unix.ESRCH {
			return err
		}
		if err := driver.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("process %d does not end: %w", p.Pid, err)
		}
	}
}

// cgroups of a task: those it was started with, as far as that is known.
func (d *Driver) cgroups(id string) cgroup.Groups {
	if sp, err := folder.Read[spec](filepath.Join(d.folder(id), specFile)); err == nil {
		return sp.Cgroups
	}
	return d.groups.Child(id)
}

// List observes all tasks. A task that cannot be observed is told in the error and hides
// no other.
func (d *Driver) List(ctx context.Context) ([]driver.Observation, error) {
	if err := folder.Sweep(d.tasks); err != nil {
		d.log.Warn("folders of starts that were cut short stay", zap.Error(err))
	}
	ids, err := folder.IDs(d.tasks)
	if err != nil {
		return nil, err
	}
	var list []driver.Observation
	var errs []error
	for _, id := range ids {
		o, ok, err := d.Observe(ctx, id)
		if err != nil {
			errs = append(errs, fmt.Errorf("observe task %s: %w", id, err))
		} else if ok {
			list = append(list, o)
		}
	}
	return list, errors.Join(errs...)
}
