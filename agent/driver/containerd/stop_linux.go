package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/pkg/task"
)

// killLimit is how long Kill waits for the end.
const killLimit = 30 * time.Second

// Signal reaches every process of the task that there is at this moment, but ohm-init, and
// the command last: with that the task ends. It does not need the daemon.
func (d *Driver) Signal(_ context.Context, id string, sig syscall.Signal) error {
	if err := folder.CheckID(id); err != nil {
		return err
	}
	if _, ended, err := d.exit(id); ended || err != nil || !folder.Exists(d.folder(id)) {
		return err
	}
	st, err := d.readState(id)
	if err != nil {
		return err
	}
	if !st.begun() {
		return fmt.Errorf("task %s is only starting", id)
	}
	if sig == syscall.SIGKILL {
		if err := d.mark(id); err != nil {
			return err
		}
	}
	g := d.cgroups(id)
	pids := slices.DeleteFunc(g.PIDs(), func(pid int) bool { return pid == st.Pid })
	for _, pid := range append(pids, st.Pid) {
		if pid > 0 && !isInit(pid) {
			signalMember(g.PIDs, pid, sig)
		}
	}
	return nil
}

// signalMember sends sig to a process if it is among the members once there is a handle of
// it: a pid that was used again is not.
func signalMember(members func() []int, pid int, sig syscall.Signal) {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(handle)
	if slices.Contains(members(), pid) {
		_ = unix.PidfdSendSignal(handle, sig, nil, 0) // it may have ended by now
	}
}

// mark says in the task's folder that the driver is killing it.
func (d *Driver) mark(id string) error {
	err := folder.MarkKilled(d.folder(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was removed
	}
	return err
}

// Kill returns when nothing of the task is left and its end is written down.
func (d *Driver) Kill(ctx context.Context, id string) error {
	if err := folder.CheckID(id); err != nil {
		return err
	}
	if _, ended, err := d.exit(id); ended || err != nil || !folder.Exists(d.folder(id)) {
		return err
	}
	if err := d.mark(id); err != nil {
		return err
	}
	d.mu.Lock()
	if cancel := d.starts[id]; cancel != nil {
		cancel()
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	var last error
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		d.cgroups(id).Strike()
		o, ok, err := d.Observe(ctx, id)
		if err == nil && (!ok || task.Ended(o.State)) {
			return nil
		}
		if err != nil {
			last = err
		}
		if err := driver.Pause(ctx, wait); err != nil {
			return fmt.Errorf("task %s does not end: %w", id, errors.Join(err, last))
		}
	}
}

// Remove gives back containers, cgroups and the folder of an ended task.
func (d *Driver) Remove(ctx context.Context, id string) error {
	o, ok, err := d.Observe(ctx, id)
	if err != nil || !ok {
		return err
	}
	if o.State != task.Assigned && !task.Ended(o.State) {
		return fmt.Errorf("task %s is %s: it cannot be removed", id, task.Name(o.State))
	}
	dir := d.folder(id)
	held, err := folder.Take(ctx, dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	if o.State == task.Assigned {
		if st, err := d.readState(id); err != nil || st.begun() {
			return fmt.Errorf("task %s is starting: it cannot be removed: %w", id, err)
		}
	}
	t, err := folder.Read[driver.Task](filepath.Join(dir, specFile))
	if err != nil {
		return err
	}
	if err := d.clear(ctx, t); err != nil {
		return err
	}
	if err := d.cgroups(id).Remove(); err != nil {
		return err
	}
	err = folder.Remove(d.tasks, id)
	d.collect(ctx)
	return err
}
