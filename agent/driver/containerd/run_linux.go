package containerd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
)

// The labels of a container.
const (
	labelTask    = "ohm.task"
	labelName    = "ohm.container"
	labelBoot    = "ohm.boot"
	labelStarted = "ohm.started"
)

// advance starts whatever of the task is due: the first container, and each that follows
// one that is ready. It says how the task ended, if it has. The lock is held.
func (d *Driver) advance(ctx context.Context, t driver.Task, look looker) (*folder.Exit, error) {
	st, err := d.readState(t.ID)
	if err != nil {
		return nil, err
	}
	for i, c := range t.All() {
		if i >= len(st.Begun) {
			if d.killed(t.ID) {
				return &folder.Exit{Signal: int(unix.SIGKILL), Message: "killed before container " + c.Name + " started"}, nil
			}
			if st, err = d.run(ctx, t, c, st); err != nil {
				return nil, err
			}
		}
		if c.Role == driver.Sidecar {
			continue
		}
		s, err := look(ctx, st.container(t.ID, c.Name))
		if err == nil && s.created && readReport(d.report(t.ID, c.Name)) == (said{}) {
			err = d.startAgain(ctx, st.container(t.ID, c.Name))
		}
		switch {
		case err != nil:
			return nil, err
		case s.there && !s.running && !s.created && d.neverRan(t, c, st, s):
			st.Begun = st.Begun[:i]
			st.again(c.Name)
			_, err = d.run(ctx, t, c, st)
			return nil, err
		case s.there && !s.running && !s.created:
			e := d.verdict(t, c, st, s)
			if c.Role == driver.Init && e.Code == 0 && e.Signal == 0 {
				continue
			}
			return e, nil
		case !s.there && d.doubtful(st.container(t.ID, c.Name)):
			return nil, fmt.Errorf("containerd does not know it, and its shim is there: %w", errdefs.ErrUnavailable)
		case !s.there:
			return d.vanished(st), nil
		case c.Role == driver.Main && !st.Main: // whoever started it was not there to see it run
			_, err = d.begun(ctx, t, c, st)
		}
		return nil, err // it runs: what follows waits
	}
	return nil, nil
}

// neverRan says of a container that has ended that not even its ohm-init was executed: runc's
// own init fails so when the daemon is killed while it hands over. It has no word of ohm-init's,
// nobody has ever seen its command, and no signal ended it. It is made again, under another name.
func (d *Driver) neverRan(t driver.Task, c driver.Container, st state, s seen) bool {
	return !st.Main && s.status > 0 && s.status < 128 && st.Tries[c.Name] < mostTries && readReport(d.report(t.ID, c.Name)) == (said{})
}

// mostTries bounds how often one container is made.
const mostTries = 5

// again gives a container another name.
func (s *state) again(container string) {
	tries := map[string]int{}
	maps.Copy(tries, s.Tries)
	tries[container]++
	s.Tries = tries
}

// startAgain repeats a start of which nobody knows whether it worked. It is the same process
// that is started: never a second one.
func (d *Driver) startAgain(ctx context.Context, container string) error {
	box, err := d.client.LoadContainer(ctx, container)
	if err != nil {
		return fmt.Errorf("ask containerd: %w", err)
	}
	p, err := box.Task(ctx, nil)
	if err == nil {
		err = p.Start(ctx)
	}
	if err != nil && (errdefs.IsFailedPrecondition(err) || strings.Contains(err.Error(), "already running")) {
		return nil // it had worked
	}
	return err
}

// run makes and starts one container, and waits until its command was started.
func (d *Driver) run(ctx context.Context, t driver.Task, c driver.Container, st state) (state, error) {
	p, st, err := d.create(ctx, t, c, st)
	if err != nil {
		return st, err
	}
	if err := p.Start(ctx); err != nil {
		return st, fmt.Errorf("start container %s: %w", c.Name, err)
	}
	return d.begun(ctx, t, c, st)
}

// create makes a container with its process, and notes that it may have been started.
func (d *Driver) create(ctx context.Context, t driver.Task, c driver.Container, st state) (client.Task, state, error) {
	id := st.container(t.ID, c.Name)
	if err := d.dropContainer(ctx, id); err != nil { // of a start that was cut short
		return nil, st, err
	}
	img, err := d.image(ctx, c.Image)
	if err != nil {
		return nil, st, err
	}
	network, err := d.network(ctx, t)
	if err != nil {
		return nil, st, err
	}
	report := d.report(t.ID, c.Name)
	if err := os.WriteFile(report, nil, 0o600); err != nil {
		return nil, st, err
	}
	begin := folder.Now()
	box, err := d.client.NewContainer(ctx, id,
		client.WithImage(img), client.WithSnapshotter(snapshotter), client.WithNewSnapshot(id, img),
		client.WithContainerLabels(map[string]string{
			labelTask: t.ID, labelName: c.Name, labelBoot: d.boot, labelStarted: begin.Format(time.RFC3339Nano),
		}),
		d.spec(t, c, img, network),
	)
	if err != nil {
		return nil, st, fmt.Errorf("make container %s: %w", c.Name, err)
	}
	spec, err := box.Spec(ctx)
	if err != nil {
		return nil, st, err
	}
	uid, gid := int(spec.Process.User.UID), int(spec.Process.User.GID)
	for _, path := range []string{report, filepath.Join(d.folder(t.ID), scratchDir)} {
		if err := os.Lchown(path, uid, gid); err != nil {
			return nil, st, err
		}
	}
	p, err := box.NewTask(ctx, d.io(t.ID))
	if err != nil && strings.Contains(err.Error(), "file exists") {
		// A daemon that was killed has left a bundle of that name, which nobody can take away
		// but the next one: the next try gets another name.
		st.again(c.Name)
		err = errors.Join(err, d.writeState(t.ID, st))
	}
	if err != nil {
		return nil, st, fmt.Errorf("start container %s: %w", c.Name, err)
	}
	st.Boot, st.Begun = d.boot, append(st.Begun, c.Name)
	if st.Started.IsZero() || c.Role == driver.Main {
		st.Started = begin
	}
	return p, st, d.writeState(t.ID, st) // before it runs: it never may twice
}

// begun waits until a container's command was started, and notes the main one.
func (d *Driver) begun(ctx context.Context, t driver.Task, c driver.Container, st state) (state, error) {
	init, local, err := d.started(ctx, t.ID, st.container(t.ID, c.Name), d.report(t.ID, c.Name))
	if err != nil || c.Role != driver.Main {
		return st, err
	}
	st.Main = true
	st.Pid = findCommand(d.cgroups(t.ID).PIDs(), init, local)
	return st, d.writeState(t.ID, st)
}

func (d *Driver) writeState(id string, st state) error {
	return folder.Write(filepath.Join(d.folder(id), stateFile), st)
}

// started waits for ohm-init's first word: the command's pid, as the container has it (local).
// init is ohm-init's own, as the node has it.
func (d *Driver) started(ctx context.Context, task, container, report string) (init, local int, err error) {
	begin := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		word := readReport(report)
		if word.failed != "" {
			return 0, 0, errors.New(word.failed)
		}
		s, err := d.look(ctx, container)
		if err != nil {
			return 0, 0, err
		}
		if word.pid != 0 || word.end != "" {
			return s.pid, word.pid, nil
		}
		if again := readReport(report); !s.running && !s.created && again == (said{}) {
			return 0, 0, fmt.Errorf("ohm-init ended with %d before it started the command", s.status)
		}
		// A task may have wiped out the report before it was read.
		if pid := childOf(d.cgroups(task).PIDs(), s.pid); pid != 0 && time.Since(begin) > wordless {
			return s.pid, pid, nil
		}
		if err := driver.Pause(ctx, wait); err != nil {
			return 0, 0, err
		}
	}
}

// wordless is how long the first word is waited for once there is a child that could be the
// command.
const wordless = 2 * time.Second
