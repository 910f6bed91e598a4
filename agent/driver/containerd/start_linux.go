package containerd

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
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/pkg/task"
)

// Start begins the task, or goes on with a start that was cut short.
func (d *Driver) Start(ctx context.Context, t driver.Task) error {
	if err := driver.Check(t, d.Capabilities()); err != nil {
		return err
	}
	if dir := d.folder(t.ID); !folder.Exists(dir) {
		if folder.Exists(filepath.Join(string(d.logs), t.ID)) {
			return fmt.Errorf("task %s ran here before and was removed", t.ID)
		}
		if err := d.claim(t); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("claim task %s: %w", t.ID, err)
		}
	}
	held, err := folder.Take(ctx, d.folder(t.ID))
	if err != nil {
		return fmt.Errorf("start task %s: %w", t.ID, err)
	}
	defer held.Close()
	if _, ended, err := d.exit(t.ID); ended || err != nil {
		return err
	}
	st, err := d.readState(t.ID)
	if err != nil || st.begun() {
		return err // somebody was faster
	}
	if t, err = folder.Read[driver.Task](filepath.Join(d.folder(t.ID), specFile)); err != nil {
		return err
	}
	ctx, cancel := d.deadline(ctx, t)
	defer cancel()
	// While it starts it is killed by way of this context.
	d.mu.Lock()
	d.starts[t.ID] = cancel
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.starts, t.ID)
		d.mu.Unlock()
	}()
	err = d.begin(ctx, t)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && away(err):
		return d.later(t.ID, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = &driver.Failure{Cause: task.StartDeadline, Err: err}
	}
	return errors.Join(err, d.giveUp(t, err))
}

// later is what a start says that the daemon's end has cut short. Where a container may have
// begun, that is all there is to a start: Observe goes on with it, or sees how it ended.
func (d *Driver) later(id string, err error) error {
	if st, readErr := d.readState(id); readErr == nil && st.begun() {
		return nil
	}
	return fmt.Errorf("%w: %w", driver.ErrLater, err)
}

// away says of an error that it may pass and is not the task's own: the daemon was not there,
// or went away in the middle of a call, or is still at a call that was given up.
func away(err error) bool {
	if errdefs.IsUnavailable(err) || errdefs.IsCanceled(err) || errors.Is(err, io.EOF) {
		return true
	}
	for _, word := range []string{"ttrpc: closed", "connection refused", "broken pipe", "connection reset", "transport is closing", "file exists", "already exists"} {
		if strings.Contains(err.Error(), word) {
			return true // of whoever does not pass the kind of its errors on
		}
	}
	return false
}

// deadline is the time until which the task's start may try.
func (d *Driver) deadline(ctx context.Context, t driver.Task) (context.Context, context.CancelFunc) {
	if t.StartBy.IsZero() {
		return context.WithTimeout(ctx, startFor)
	}
	return context.WithDeadline(ctx, t.StartBy)
}

// claim makes the task's folder; fs.ErrExist if somebody was faster.
func (d *Driver) claim(t driver.Task) error {
	held, err := folder.Claim(d.tasks, t.ID, func(draft string) error {
		if err := os.Mkdir(filepath.Join(draft, scratchDir), 0o700); err != nil {
			return err
		}
		return folder.Write(filepath.Join(draft, specFile), t)
	})
	if err != nil {
		return err
	}
	return held.Close() // whoever takes it next starts the task
}

// begin makes everything of the task and starts its first containers. The lock is held.
func (d *Driver) begin(ctx context.Context, t driver.Task) error {
	if err := d.checkMachine(t); err != nil {
		return err
	}
	if d.killed(t.ID) {
		return driver.ErrKilledEarly
	}
	if _, err := d.network(ctx, t); err != nil { // first: a port that somebody has spares the rest
		return err
	}
	for _, c := range t.All() {
		if _, err := d.image(ctx, c.Image); err != nil {
			return d.onKill(t.ID, err)
		}
	}
	pids := t.Pids
	if pids == 0 {
		pids = driver.DefaultPids
	}
	limits := cgroup.Limits{
		Memory: t.Resources.GetMemoryBytes(), CPUMilli: t.Resources.GetCpuMilli(), CPUMax: t.CPUMax,
		Pids: pids + int64(len(t.All()))*initThreads,
	}
	if err := d.cgroups(t.ID).Create(limits); err != nil {
		return fmt.Errorf("make cgroups: %w", err)
	}
	if err := d.openLogs(t.ID); err != nil {
		return err
	}
	_, err := d.advance(ctx, t, d.look)
	return d.onKill(t.ID, err)
}

// initThreads are allowed to each container beyond what the task may have, for ohm-init.
const initThreads = 8

// onKill says of a start that failed when it was killed that it was.
func (d *Driver) onKill(id string, err error) error {
	if err != nil && d.killed(id) {
		return driver.ErrKilledEarly
	}
	return err
}

// checkMachine refuses what containerd or runc would refuse in words that help nobody.
func (d *Driver) checkMachine(t driver.Task) error {
	for _, file := range slices.Concat(t.DeviceNodes, t.DeviceFiles) {
		if !folder.Exists(file) {
			return fmt.Errorf("%s, which a device of the task needs, is not on this node", file)
		}
	}
	for _, h := range t.Hooks {
		if !folder.Exists(h.Path) {
			return fmt.Errorf("hook %s, which a device of the task needs, is not on this node", h.Path)
		}
	}
	for _, c := range t.All() {
		for _, m := range c.Mounts {
			if m.Source != "" && !folder.Exists(m.Source) {
				return fmt.Errorf("container %s: %s, to be mounted at %s, is not on this node", c.Name, m.Source, m.Target)
			}
		}
		if _, err := caps(c.Box); err != nil {
			return fmt.Errorf("container %s: %w", c.Name, err)
		}
	}
	return nil
}

// giveUp writes down that the task never will run, and leaves nothing of it running. The
// lock is held.
func (d *Driver) giveUp(t driver.Task, why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanFor)
	defer cancel()
	st, err := d.readState(t.ID)
	if err != nil {
		return err
	}
	e := folder.Exit{Cause: driver.StartCause(why), Message: firstLine(why.Error()), Started: st.Started, Ended: folder.Now()}
	if strings.Contains(why.Error(), unix.ENOSPC.Error()) { // containerd tells it in words only
		e.Cause = task.DiskFull
	}
	if e.Started.IsZero() {
		e.Started = e.Ended
	}
	return errors.Join(d.clear(ctx, t), folder.Write(filepath.Join(d.folder(t.ID), exitFile), e))
}

// cleanFor is how long the rest of one task may take to go.
const cleanFor = 30 * time.Second

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func (d *Driver) killed(id string) bool {
	return folder.Killed(d.folder(id))
}
