package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/pkg/task"
)

// Observe asks the task's folder, and containerd if that does not say that it has ended. It
// starts the next container where one is due.
func (d *Driver) Observe(ctx context.Context, id string) (driver.Observation, bool, error) {
	return d.observe(ctx, id, d.look)
}

func (d *Driver) observe(ctx context.Context, id string, look looker) (driver.Observation, bool, error) {
	if err := folder.CheckID(id); err != nil {
		return driver.Observation{}, false, err
	}
	dir := d.folder(id)
	if !folder.Exists(dir) {
		return driver.Observation{}, false, nil
	}
	if e, ended, err := d.exit(id); ended || err != nil {
		return e.Observation(id), err == nil, err
	}
	st, err := d.readState(id)
	if err != nil {
		return driver.Observation{}, false, err
	}
	if st.Main {
		s, err := look(ctx, st.container(id, mainOf(dir)))
		if err != nil {
			return driver.Observation{}, false, err
		}
		if s.running || s.created {
			return d.alive(id, st), true, nil
		}
	}
	if !st.begun() && !d.killed(id) {
		held, err := folder.Held(dir)
		if errors.Is(err, os.ErrNotExist) {
			return driver.Observation{}, false, nil // removed in this moment
		}
		o := driver.Observation{ID: id, State: task.Assigned}
		if held {
			o.State = task.Starting
		}
		return o, err == nil, err
	}
	return d.settle(ctx, id, look)
}

// mainOf names the task's main container.
func mainOf(dir string) string {
	t, err := folder.Read[driver.Task](filepath.Join(dir, specFile))
	if err == nil {
		for _, c := range t.All() {
			if c.Role == driver.Main {
				return c.Name
			}
		}
	}
	return driver.MainName
}

// alive is a task that has not ended.
func (d *Driver) alive(id string, st state) driver.Observation {
	o := driver.Observation{ID: id, State: task.Starting, Started: st.Started, OOM: d.noteOOMs(id) > 0}
	if st.Main {
		o.State, o.Pid = task.Running, st.Pid
	} else if n := len(st.Begun); n > 0 {
		o.Message = driver.AtMessage(st.Begun[n-1])
	}
	return o
}

// settle does what is due for a task that was begun, or killed before that, and says how it
// stands then. While somebody else is at it, it is as it was.
func (d *Driver) settle(ctx context.Context, id string, look looker) (driver.Observation, bool, error) {
	none := driver.Observation{}
	dir := d.folder(id)
	held, taken, err := folder.Lock(dir, unix.LOCK_EX)
	if errors.Is(err, os.ErrNotExist) {
		return none, false, nil
	}
	if err != nil {
		return none, false, err
	}
	if !taken {
		defer held.Close()
	}
	if e, ended, err := d.exit(id); ended || err != nil {
		return e.Observation(id), err == nil, err
	}
	st, err := d.readState(id)
	if err != nil {
		return none, false, err
	}
	if taken {
		return d.alive(id, st), true, nil
	}
	t, err := folder.Read[driver.Task](filepath.Join(dir, specFile))
	if err != nil {
		return none, false, err
	}
	if err := d.conclude(ctx, t, st, look); err != nil {
		return none, false, fmt.Errorf("task %s: %w", id, err)
	}
	if e, ended, err := d.exit(id); ended || err != nil {
		return e.Observation(id), err == nil, err
	}
	if st, err = d.readState(id); err != nil {
		return none, false, err
	}
	return d.alive(id, st), true, nil
}

// conclude brings the task as far as it can be: to its next container, or to its end.
func (d *Driver) conclude(ctx context.Context, t driver.Task, st state, look looker) error {
	e, err := folder.Read[folder.Exit](filepath.Join(d.folder(t.ID), endedFile))
	if err == nil {
		return d.finish(ctx, t, e) // was cut short
	}
	if !st.begun() {
		return d.giveUp(t, errors.New("killed before it started"))
	}
	end, err := d.advance(ctx, t, look)
	switch {
	case err == nil && end != nil:
		return d.finish(ctx, t, *end)
	case err == nil, away(err), ctx.Err() != nil:
		return err
	}
	return d.giveUp(t, err)
}

// List observes all tasks. A task that cannot be observed is told in the error and hides
// no other.
func (d *Driver) List(ctx context.Context) ([]driver.Observation, error) {
	ids, err := folder.IDs(d.tasks)
	if err != nil {
		return nil, err
	}
	look, listErr := d.lookAll(ctx)
	if listErr != nil {
		look = func(context.Context, string) (seen, error) { return seen{}, listErr }
	}
	var list []driver.Observation
	var errs []error
	for _, id := range ids {
		o, ok, err := d.observe(ctx, id, look)
		if err != nil {
			errs = append(errs, fmt.Errorf("observe task %s: %w", id, err))
		} else if ok {
			list = append(list, o)
		}
	}
	return list, errors.Join(errs...)
}

// Stats are what the task's cgroups have counted.
func (d *Driver) Stats(_ context.Context, id string) (driver.Stats, bool, error) {
	if err := folder.CheckID(id); err != nil {
		return driver.Stats{}, false, err
	}
	st, err := d.readState(id)
	if _, ended, _ := d.exit(id); err != nil || ended || !st.begun() {
		return driver.Stats{}, false, err
	}
	s, ok := d.cgroups(id).Stats()
	return s, ok, nil
}
