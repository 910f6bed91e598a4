package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
)

// Exec has runc start the program in the container.
func (d *Driver) Exec(ctx context.Context, id string, e driver.Exec) (int, error) {
	if err := folder.CheckID(id); err != nil {
		return 0, err
	}
	if len(e.Command) == 0 {
		return 0, errors.New("there is no command to run")
	}
	if _, ended, err := d.exit(id); ended || err != nil || !folder.Exists(d.folder(id)) {
		return 0, errors.Join(driver.ErrNotRunning, err)
	}
	name := e.Container
	if name == "" {
		name = mainOf(d.folder(id))
	}
	box, p, err := d.process(ctx, id, name)
	if err != nil {
		return 0, err
	}
	spec, err := d.execSpec(ctx, box, e)
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(d.folder(id), "exec")
	defer func() { _ = folder.Discard(dir) }() // left, it goes with the task's folder
	in := input{r: e.Stdin, over: make(chan struct{})}
	if e.Terminal {
		in.hold = make(chan struct{})
		defer close(in.hold)
	}
	x, err := p.Exec(ctx, fmt.Sprintf("exec-%016x", rand.Uint64()), spec, streams(e, &in, dir))
	if err != nil {
		return 0, fmt.Errorf("run %s in task %s: %w", e.Command[0], id, err)
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanFor)
	defer cancel()
	defer func() { _, _ = x.Delete(clean, client.WithProcessKill) }() // it goes with the container else
	ended, err := x.Wait(context.WithoutCancel(ctx))
	if err != nil {
		return 0, err
	}
	if err := x.Start(context.WithoutCancel(ctx)); err != nil { // given up half way it might run
		return 0, fmt.Errorf("run %s in task %s: %w", e.Command[0], id, err)
	}
	for over := in.over; ; {
		select {
		case <-over: // the shim, too, keeps the program's input open
			over = nil
			_ = x.CloseIO(ctx, client.WithStdinCloser) // it may have ended
		case size := <-e.Resize:
			_ = x.Resize(ctx, uint32(size.Columns), uint32(size.Rows)) // it may have ended
		case s := <-ended:
			x.IO().Wait()
			code, _, err := s.Result()
			return int(code), err
		case <-ctx.Done():
			d.killBelow(id, int(x.Pid()))
			_ = x.Kill(clean, syscall.SIGKILL) // and if it has ended it is well, too
			<-ended
			x.IO().Cancel()
			return 0, ctx.Err()
		}
	}
}

// process is a running container's.
func (d *Driver) process(ctx context.Context, id, name string) (client.Container, client.Task, error) {
	st, err := d.readState(id)
	if err != nil {
		return nil, nil, err
	}
	box, err := d.client.LoadContainer(ctx, st.container(id, name))
	var p client.Task
	if err == nil {
		p, err = box.Task(ctx, nil)
	}
	if errdefs.IsNotFound(err) {
		return nil, nil, fmt.Errorf("container %s of task %s: %w", name, id, driver.ErrNotRunning)
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := d.look(ctx, box.ID())
	if err == nil && !s.running {
		err = fmt.Errorf("container %s of task %s: %w", name, id, driver.ErrNotRunning)
	}
	return box, p, err
}

// execSpec is the container's process with another command.
func (d *Driver) execSpec(ctx context.Context, box client.Container, e driver.Exec) (*specs.Process, error) {
	spec, err := box.Spec(ctx)
	if err != nil {
		return nil, err
	}
	spec.Process.Args, spec.Process.Terminal = e.Command, e.Terminal
	spec.Process.Env = driver.Environment(spec.Process.Env, e.Env, scratchTarget)
	if e.Dir != "" {
		spec.Process.Cwd = e.Dir
	}
	if e.Terminal {
		spec.Process.ConsoleSize = &specs.Box{Width: 80, Height: 24}
	}
	if e.User == "" {
		return spec.Process, nil
	}
	info, err := box.Info(ctx)
	if err != nil {
		return nil, err
	}
	if err := oci.WithUser(e.User)(ctx, d.client, &info, spec); err != nil {
		return nil, fmt.Errorf("user %s: %w", e.User, err)
	}
	return spec.Process, nil
}

// streams are FIFOs to this process: such a program ends with whoever has asked for it.
func streams(e driver.Exec, in *input, dir string) cio.Creator {
	out, errs := e.Stdout, e.Stderr
	if out == nil {
		out = io.Discard
	}
	if errs == nil {
		errs = io.Discard
	}
	opts := []cio.Opt{cio.WithStreams(nil, out, errs), cio.WithFIFODir(dir)}
	if e.Stdin != nil {
		opts[0] = cio.WithStreams(in, out, errs)
	}
	if e.Terminal {
		opts = append(opts, cio.WithTerminal)
	}
	return cio.NewCreator(opts...)
}

// input is what the program reads; over is closed at its end. Of a terminal the end would be
// a hang-up: there it is held back until hold is closed.
type input struct {
	r    io.Reader
	over chan struct{}
	once sync.Once
	hold chan struct{} // nil: it is no terminal's
}

func (i *input) Read(p []byte) (int, error) {
	n, err := i.r.Read(p)
	if err == nil || n > 0 {
		return n, nil // the error comes again
	}
	if i.hold != nil {
		<-i.hold
	} else {
		i.once.Do(func() { close(i.over) })
	}
	return 0, err
}

// killBelow ends what a process of the task has started.
func (d *Driver) killBelow(id string, root int) {
	g := d.cgroups(id)
	for range 100 { // as long as it forks away
		found := false
		for _, pid := range g.PIDs() {
			if pid != root && below(pid, root) {
				found = true
				signalMember(g.PIDs, pid, syscall.SIGKILL)
			}
		}
		if !found {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func below(pid, root int) bool {
	for range 1000 {
		p, err := proc.ReadPlace(pid)
		if err != nil || p.Parent <= 1 {
			return false
		}
		if pid = p.Parent; pid == root {
			return true
		}
	}
	return false
}
