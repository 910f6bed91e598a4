package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/pkg/task"
)

// oomCount is how often processes of a task were seen killed for memory, and when.
type oomCount struct{ seen []oomSeen }

type oomSeen struct {
	count int64
	at    time.Time
}

// recently is how old a kill for memory may at least be that explains the command's end.
const recently = time.Second

// noteOOMs counts now, so that a later verdict can tell old kills from new ones. (An agent
// that was not there to count takes any kill for memory for the reason of a SIGKILL.)
func (d *Driver) noteOOMs(id string) int64 {
	n := d.cgroups(id).OOMs()
	if n == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.ooms[id]
	if c == nil {
		c = new(oomCount)
		d.ooms[id] = c
	}
	// That the command only has to end is no sign that another one was killed.
	if len(c.seen) == 0 || c.seen[len(c.seen)-1].count < n {
		if st, err := d.readState(id); err != nil || st.Pid == 0 || cgroup.Doomed(st.Pid) {
			return n
		}
		c.seen = append(c.seen, oomSeen{n, time.Now()})
		if len(c.seen) > 8 {
			c.seen = c.seen[1:]
		}
	}
	return n
}

// oomsBefore is how many were known of some time before the given one.
func (d *Driver) oomsBefore(id string, at time.Time) (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.ooms[id]; c != nil {
		for _, s := range c.seen {
			if s.at.Before(at.Add(-recently)) {
				n = s.count
			}
		}
	}
	return n
}

// verdict says how a container that has ended ended.
func (d *Driver) verdict(t driver.Task, c driver.Container, st state, s seen) *folder.Exit {
	ooms := d.cgroups(t.ID).OOMs()
	e := &folder.Exit{Cause: task.Exited, Code: s.status, OOM: ooms > 0, Started: st.Started, Ended: s.at}
	if used, ok := d.cgroups(t.ID).Stats(); ok {
		e.Peak, e.Limit = used.MemoryPeak, t.Resources.GetMemoryBytes()
	}
	if c.Role == driver.Main {
		e.Pid = st.Pid
	} else {
		e.Message = driver.InitMessage(c.Name)
	}
	// The report is believed where it agrees with containerd: the task could have written it.
	said := readReport(d.report(t.ID, c.Name))
	exited := said.end == "exited" && said.number == s.status
	if s.status > 128 && !exited {
		e.Cause, e.Signal, e.Code = task.Signalled, s.status-128, 0
	}
	if e.Signal == int(unix.SIGKILL) && said.pid != 0 && said.end == "" && !d.killed(t.ID) {
		// ohm-init itself was killed: with it everything ended, and nobody has seen how.
		e.Cause, e.Signal, e.Message = task.UnknownExit, 0, "the container's init was killed"
	}
	if s.status == 128+int(unix.SIGKILL) && !exited && ooms > d.oomsBefore(t.ID, s.at) && !d.killed(t.ID) {
		used, _ := d.cgroups(t.ID).Stats() // they are there until the task is removed
		e.Cause, e.Signal, e.Message = task.OOMKilled, int(unix.SIGKILL), driver.OOMMessage(used.MemoryPeak, t.Resources.GetMemoryBytes())
	}
	return e
}

// vanished is the end of a task of which containerd knows nothing any more.
func (d *Driver) vanished(st state) *folder.Exit {
	e := &folder.Exit{Cause: task.UnknownExit, Pid: st.Pid, Started: st.Started, Ended: folder.Now(), Message: "containerd does not know it any more"}
	if st.Boot != d.boot {
		e.Message = "the node was restarted under it"
	}
	return e
}

// exit is how the task ended, if that is written down.
func (d *Driver) exit(id string) (e folder.Exit, ended bool, err error) {
	e, err = folder.Read[folder.Exit](filepath.Join(d.folder(id), exitFile))
	if errors.Is(err, os.ErrNotExist) {
		return e, false, nil
	}
	return e, err == nil, err
}

// finish makes an end the task's: nothing of it runs any more, its logs are complete, and
// then it is written down. The lock is held.
func (d *Driver) finish(ctx context.Context, t driver.Task, e folder.Exit) error {
	if e.Cause == "" {
		e.Cause = task.Signalled
	}
	if e.Ended.Before(e.Started) { // containerd's clock is the same, but not read at the same time
		e.Ended = e.Started
	}
	ended := filepath.Join(d.folder(t.ID), endedFile)
	if !folder.Exists(ended) {
		// With its process containerd forgets how it ended.
		if err := folder.Write(ended, e); err != nil {
			return fmt.Errorf("write down the end of task %s: %w", t.ID, err)
		}
	}
	if err := d.cgroups(t.ID).Kill(ctx); err != nil {
		return err
	}
	names, err := d.containers(t)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := d.dropProcess(ctx, name); err != nil {
			return err
		}
	}
	if err := d.endNetwork(ctx, t); err != nil {
		return err
	}
	if err := os.Rename(ended, filepath.Join(d.folder(t.ID), exitFile)); err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.ooms, t.ID)
	d.mu.Unlock()
	return folder.SyncDir(d.folder(t.ID))
}

// clear leaves nothing of the task in containerd or among the processes.
func (d *Driver) clear(ctx context.Context, t driver.Task) error {
	names, err := d.containers(t)
	errs := []error{err, d.cgroups(t.ID).Kill(ctx)}
	for _, name := range names {
		errs = append(errs, d.dropContainer(ctx, name))
	}
	return errors.Join(append(errs, d.endNetwork(ctx, t))...)
}

// containers are containerd's names of all that it may have of a task.
func (d *Driver) containers(t driver.Task) (names []string, err error) {
	st, err := d.readState(t.ID)
	for _, c := range t.All() {
		for try := range st.Tries[c.Name] + 1 {
			names = append(names, containerID(t.ID, c.Name, try))
		}
	}
	return names, err
}

// dropProcess has containerd forget a container's process, and with it the shim. What the
// process wrote has then reached the logs.
func (d *Driver) dropProcess(ctx context.Context, id string) error {
	box, err := d.client.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask containerd: %w", err)
	}
	return dropProcessOf(ctx, box)
}

func dropProcessOf(ctx context.Context, box client.Container) error {
	p, err := box.Task(ctx, nil)
	if err == nil {
		_, err = p.Delete(ctx, client.WithProcessKill)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("end container %s: %w", box.ID(), err)
	}
	return nil
}

// dropContainer gives back a container with its process and its file system.
func (d *Driver) dropContainer(ctx context.Context, id string) error {
	box, err := d.client.LoadContainer(ctx, id)
	switch {
	case err == nil:
		if err := dropProcessOf(ctx, box); err != nil {
			return err
		}
		if err := box.Delete(ctx); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("remove container %s: %w", id, err)
		}
	case !errdefs.IsNotFound(err):
		return fmt.Errorf("ask containerd: %w", err)
	}
	if err := d.endShim(ctx, id); err != nil {
		return err
	}
	if err := d.client.SnapshotService(snapshotter).Remove(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove the file system of container %s: %w", id, err)
	}
	return nil
}

// sweep gives back what is nobody's: containers and snapshots in the agent's namespace, and
// cgroups below its own, of which no task has a folder; and folders that were cut short. A
// task that is starting has its folder first, and one that is removed has it last.
func (d *Driver) sweep(ctx context.Context) error {
	if err := folder.Sweep(d.tasks); err != nil {
		return err
	}
	boxes, err := d.client.Containers(ctx)
	if err != nil {
		return err
	}
	own := map[string]bool{} // what is to be there, by hash of a task's id
	ids, err := folder.IDs(d.tasks)
	if err != nil {
		return err
	}
	for _, id := range ids {
		own[hash(id)] = true
	}
	var errs []error
	for _, box := range boxes {
		if !owned(own, box.ID()) {
			d.log.Info("a container of no task is removed", zap.String("container", box.ID()))
			errs = append(errs, d.dropContainer(ctx, box.ID()))
		}
	}
	for container := range d.shims() {
		if !owned(own, container) {
			errs = append(errs, d.endShim(ctx, container))
		}
	}
	for id, pids := range d.keepers() {
		if !own[hash(id)] {
			errs = append(errs, d.endKeepers(ctx, id, pids))
		}
	}
	stray, err := d.strays(ctx, own)
	errs = append(errs, err)
	for _, key := range stray {
		if err := d.client.SnapshotService(snapshotter).Remove(ctx, key); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	for _, name := range d.groups.Names() {
		if !own[name] {
			g := d.groups.Child(name)
			if err := g.Kill(ctx); err != nil {
				errs = append(errs, err)
				continue
			}
			errs = append(errs, g.Remove())
		}
	}
	return errors.Join(errs...)
}
