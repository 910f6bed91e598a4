package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/pkg/task"
)

// How long a killed task may take before the next of its keepers goes, too, and before
// Kill gives up.
const (
	killInit  = 3 * time.Second
	killShim  = 6 * time.Second
	killLimit = 15 * time.Second
)

// Signal reaches every process of the task that there is at this moment, in whatever
// session or process group, children before parents and the command last: with the
// command the task ends, and what is left then is killed.
func (d *Driver) Signal(_ context.Context, id string, sig syscall.Signal) error {
	if err := folder.CheckID(id); err != nil {
		return err
	}
	dir := d.folder(id)
	if held, err := folder.Held(dir); !held {
		return unlessGone(err)
	}
	st, err := folder.Read[state](filepath.Join(dir, stateFile))
	if err != nil || !st.begun() {
		return fmt.Errorf("task %s is only starting", id)
	}
	if sig == syscall.SIGKILL {
		if err := folder.MarkKilled(dir); err != nil {
			return unlessGone(err)
		}
	}
	for _, init := range st.inits() {
		f, err := familyOf(init)
		if err != nil {
			return err
		}
		for _, p := range slices.Backward(f.below) {
			if p != st.Command {
				f.signal(p, sig)
			}
		}
	}
	if err := st.Command.Signal(sig); err != nil && err != proc.ErrGone {
		return fmt.Errorf("signal task %s: %w", id, err)
	}
	return nil
}

// unlessGone hides that there is no such task.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Kill returns when nothing of the task is left and its end is written down. It leaves
// inits and shim to tell how it went; if they do not, they are killed as well.
func (d *Driver) Kill(ctx context.Context, id string) error {
	if err := folder.CheckID(id); err != nil {
		return err
	}
	dir := d.folder(id)
	if held, err := folder.Held(dir); !held {
		return d.killUnbegun(id, err)
	}
	if err := folder.MarkKilled(dir); err != nil {
		return unlessGone(err)
	}
	d.mu.Lock()
	if giveUp := d.starts[id]; giveUp != nil {
		giveUp()
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	wait := 5 * time.Millisecond
	for begin := time.Now(); ; wait = min(2*wait, 200*time.Millisecond) {
		held, err := folder.Held(dir)
		if err != nil {
			return unlessGone(err)
		}
		if !held {
			break
		}
		// Without a state the task is only starting: it is killed once it is there.
		if st, err := folder.Read[state](filepath.Join(dir, stateFile)); err == nil && st.Boot == d.boot {
			d.strike(st, time.Since(begin))
		}
		if err := driver.Pause(ctx, wait); err != nil {
			return fmt.Errorf("task %s does not end: %w", id, err)
		}
	}
	_, _, err := d.Observe(ctx, id)
	return err
}

// killUnbegun writes down the end of a task whose start was cut short, if nobody goes on with
// it; err is of the look at its lock. Other tasks that nobody holds have ended.
func (d *Driver) killUnbegun(id string, err error) error {
	dir := d.folder(id)
	if err != nil || !unbegun(dir) {
		return unlessGone(err)
	}
	held, taken, err := folder.Lock(dir, unix.LOCK_EX)
	if err != nil || taken {
		return unlessGone(err)
	}
	defer held.Close()
	if !unbegun(dir) {
		return nil
	}
	return writeExit(dir, failed(errors.New("killed before it started")))
}

// strike is one round of Kill. What it cannot reach, a later round can.
func (d *Driver) strike(st state, since time.Duration) {
	st.Cgroups.Strike()
	for _, init := range st.inits() {
		_ = kill(init)
		if since > killInit {
			_ = init.Signal(syscall.SIGKILL)
		}
	}
	if since > killShim {
		_ = st.Shim.Signal(syscall.SIGKILL)
	}
}

// Remove gives back cgroups, mounts and the folder of an ended task.
func (d *Driver) Remove(ctx context.Context, id string) error {
	o, ok, err := d.Observe(ctx, id)
	if err != nil || !ok {
		return err
	}
	if o.State == task.Assigned { // its start was cut short: nobody is to go on with it
		if err := d.Kill(ctx, id); err != nil {
			return err
		}
		o, ok, err = d.Observe(ctx, id)
		if err != nil || !ok {
			return err
		}
	}
	if !task.Ended(o.State) {
		return fmt.Errorf("task %s is %s: it cannot be removed", id, task.Name(o.State))
	}
	if err := d.cgroups(id).Remove(); err != nil {
		return err
	}
	err = folder.Remove(d.tasks, id)
	if sweepErr := d.sweepImages(); sweepErr != nil { // the next removal tries again
		d.log.Warn("images cannot be removed", zap.Error(sweepErr))
	}
	return err
}
