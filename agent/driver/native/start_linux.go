package native

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
)

// startTimeout is how long a start may take on a machine that is out of breath.
const startTimeout = 2 * time.Minute

// Start heeds ctx only while it waits for an image: a start that is given up half way would be
// worse than a late one.
func (d *Driver) Start(ctx context.Context, t driver.Task) error {
	if err := driver.Check(t, d.Capabilities()); err != nil {
		return err
	}
	dir := d.folder(t.ID)
	if folder.Exists(dir) {
		return d.resume(ctx, t.ID)
	}
	if folder.Exists(filepath.Join(string(d.logs), t.ID)) {
		return fmt.Errorf("task %s ran here before and was removed", t.ID)
	}
	held, err := d.claim(t)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("claim task %s: %w", t.ID, err)
	}
	return d.begin(ctx, t.ID, held)
}

// begin has the image of a task ready that is claimed, and launches its shim.
func (d *Driver) begin(ctx context.Context, id string, held *os.File) error {
	if err := d.furnish(ctx, id); err != nil {
		err = errors.Join(err, writeExit(d.folder(id), imageEnd(err)))
		held.Close()
		return err
	}
	err := d.launch(id, held)
	held.Close()
	if err == nil {
		return nil
	}
	// The shim has written down how it ended, or is dead: then this does it.
	_, _, observeErr := d.Observe(context.Background(), id)
	return errors.Join(err, observeErr)
}

// resume goes on with a start that was cut short before there was a shim, if it was: by the
// end of the agent that claimed the task. Else the task was started, and nothing is done.
func (d *Driver) resume(ctx context.Context, id string) error {
	dir := d.folder(id)
	if !unbegun(dir) {
		return nil
	}
	held, taken, err := folder.Lock(dir, unix.LOCK_EX)
	switch {
	case errors.Is(err, fs.ErrNotExist), taken:
		return nil // it was removed, or somebody else is at it
	case err != nil:
		return fmt.Errorf("go on with the start of task %s: %w", id, err)
	case !unbegun(dir): // any more
		held.Close()
		return nil
	}
	return d.begin(ctx, id, held)
}

// unbegun says whether no shim was ever started for the task: the first thing that one does
// is to say who it is.
func unbegun(dir string) bool {
	return !folder.Exists(filepath.Join(dir, stateFile)) && !folder.Exists(filepath.Join(dir, exitFile))
}

// claim makes the task's folder, locked; fs.ErrExist if somebody was faster.
func (d *Driver) claim(t driver.Task) (held *os.File, err error) {
	dir := d.folder(t.ID)
	sp := spec{
		ID:         t.ID,
		Scratch:    filepath.Join(dir, scratchDir),
		Logs:       filepath.Join(string(d.logs), t.ID),
		LogLimits:  d.logLimits,
		Namespaces: d.namespaces,
		OwnNetwork: t.OwnNetwork,
		Publish:    t.Publish,
		Cgroups:    d.groups.Child(t.ID),
		Limits: cgroup.Limits{
			Memory: t.Resources.GetMemoryBytes(), CPUMilli: t.Resources.GetCpuMilli(), CPUMax: t.CPUMax, Pids: cmp.Or(t.Pids, driver.DefaultPids),
		},
	}
	for _, c := range t.All() {
		p := program{Name: c.Name, Role: c.Role, Command: c.Command, Env: driver.Environment(nil, c.Env, sp.Scratch), Box: c.Box}
		if c.Image != "" {
			sp.Task = &t
		}
		sp.set(p)
	}
	return folder.Claim(d.tasks, t.ID, func(draft string) error {
		if err := os.Mkdir(filepath.Join(draft, scratchDir), 0o700); err != nil {
			return err
		}
		if err := reserveExit(draft); err != nil {
			return err
		}
		return folder.Write(filepath.Join(draft, specFile), sp)
	})
}

// launch starts the shim, hands it the lock, and waits for its word. After an error the
// shim is not there any more.
func (d *Driver) launch(id string, held *os.File) error {
	dir := d.folder(id)
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	pid, err := d.forkShim(id, held, w)
	w.Close()
	if err != nil {
		return errors.Join(err, writeExit(dir, failed(err)))
	}
	var said report
	if err = r.SetReadDeadline(time.Now().Add(startTimeout)); err == nil {
		err = json.NewDecoder(r).Decode(&said)
	}
	if err == nil && said.Error == "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.shims[pid] = id
		for _, w := range d.watches {
			w.wake()
		}
		return nil
	}
	if err != nil {
		// Our own child, not reaped yet: the pid is its.
		_ = syscall.Kill(pid, syscall.SIGKILL)
		err = fmt.Errorf("the shim of task %s did not say that it started: %w", id, err)
	} else {
		err = &driver.Failure{Cause: said.Cause, Err: errors.New(said.Error)}
	}
	reap(pid)
	if unbegun(dir) { // it was no shim: it would not be one the next time either
		return errors.Join(err, writeExit(dir, failed(err)))
	}
	return err
}

// forkShim starts the shim with the lock and the starter's end of the report.
func (d *Driver) forkShim(id string, held, report *os.File) (pid int, err error) {
	dir := d.folder(id)
	log, err := os.OpenFile(filepath.Join(dir, shimLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	pid, err = syscall.ForkExec(d.executable, []string{"ohm", verbShim, dir}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{reexecuted + "=1"},
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd(), held.Fd(), report.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start the shim of task %s: %w", id, err)
	}
	return pid, nil
}

// reapShims takes back our own children that have ended, so that none stays a zombie.
func (d *Driver) reapShims() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for pid := range d.shims {
		// Of a child that is not reaped yet nobody else can have the pid.
		if got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); got == pid || err == syscall.ECHILD {
			delete(d.shims, pid)
		}
	}
}
