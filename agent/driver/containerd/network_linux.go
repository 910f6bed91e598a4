package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/agent/driver/publish"
)

// networkFile says who keeps the network of a task that has one of its own.
const networkFile = "network.json"

// keeper is the process in a task's network.
type keeper struct {
	Boot string // of the node; a pid of another one means nothing
	proc.Process
}

// keeperFor is how long a keeper may take to be ready on a machine that is out of breath.
const keeperFor = time.Minute

// network has somebody keep the task's network and listen on its ports, and is where that
// network is to be found; empty: it is the node's. The lock is held.
func (d *Driver) network(ctx context.Context, t driver.Task) (path string, err error) {
	if !t.OwnNetwork {
		return "", nil
	}
	k := d.keeper(t.ID)
	if !d.keeps(k, t.ID) {
		if err := d.endNetwork(ctx, t); err != nil { // of a start that was cut short
			return "", err
		}
		if k, err = d.startKeeper(t); err != nil {
			return "", fmt.Errorf("make its network: %w", err)
		}
	}
	return fmt.Sprintf("/proc/%d/ns/net", k.Pid), nil
}

// startKeeper listens on the task's ports and starts a keeper with them: in a new network, or
// in that which a container of the task is in.
func (d *Driver) startKeeper(t driver.Task) (k keeper, err error) {
	listeners, busy, err := publish.Listen(t.Publish)
	defer publish.Close(listeners) // the keeper's stay open
	if busy != nil {
		err = errors.Join(err, &driver.PortBusyError{Ports: busy})
	}
	if err != nil {
		return k, err
	}
	ready, said, err := os.Pipe()
	if err != nil {
		return k, err
	}
	defer ready.Close()
	pid, err := d.forkKeeper(t.ID, said, listeners)
	said.Close()
	if err != nil {
		return k, err
	}
	is, _ := proc.ReadStat(pid) // our own child, not reaped yet: there is one
	k = keeper{d.boot, proc.Process{Pid: pid, Start: is.Start}}
	word := make([]byte, 1024)
	n := 0
	if err = ready.SetReadDeadline(time.Now().Add(keeperFor)); err == nil {
		n, err = ready.Read(word)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("its keeper has ended at once")
	}
	if err == nil && string(word[:n]) != "ready" {
		err = errors.New(string(word[:n]))
	}
	if err == nil {
		err = folder.Write(filepath.Join(d.folder(t.ID), networkFile), k)
	}
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, waitErr := syscall.Wait4(pid, nil, 0, nil)
		return k, errors.Join(err, waitErr)
	}
	return k, nil
}

func (d *Driver) forkKeeper(id string, said *os.File, listeners []net.Listener) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd(), said.Fd()}
	for _, l := range listeners {
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			return 0, err
		}
		defer f.Close()
		files = append(files, f.Fd())
	}
	sys := &syscall.SysProcAttr{Setsid: true}
	fork := func() error {
		pid, err = syscall.ForkExec(d.init, []string{d.init, "net", d.folder(id), strconv.Itoa(len(listeners))}, &syscall.ProcAttr{
			Dir: "/", Env: []string{}, Files: files, Sys: sys,
		})
		return err
	}
	inside := d.inside(id)
	if inside < 0 {
		sys.Cloneflags = unix.CLONE_NEWNET
		err = fork()
	} else {
		err = errors.Join(publish.In(inside, fork), unix.Close(inside))
	}
	if err != nil {
		return 0, fmt.Errorf("start its keeper: %w", err)
	}
	return pid, nil
}

// inside is a handle of pid 1 of one of the task's containers; -1 if there is none.
func (d *Driver) inside(id string) (pidfd int) {
	g := d.cgroups(id)
	for _, pid := range g.PIDs() {
		if !isInit(pid) {
			continue
		}
		handle, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		for _, member := range g.PIDs() {
			if member == pid {
				return handle // a pid that was used again is not
			}
		}
		unix.Close(handle)
	}
	return -1
}

// keeper is who is known to keep the task's network; the zero one: nobody.
func (d *Driver) keeper(id string) keeper {
	k, err := folder.Read[keeper](filepath.Join(d.folder(id), networkFile))
	if err != nil || k.Boot != d.boot {
		return keeper{} // another one is found by what it was started with
	}
	return k
}

// keeps says whether exactly this process is there and keeps the network of the task.
func (d *Driver) keeps(k keeper, id string) bool {
	return k.Lives() && d.keeperOf(k.Pid) == id
}

// keeperOf is the task of this agent whose network the process keeps; empty: it does no such
// thing, or has ended.
func (d *Driver) keeperOf(pid int) (id string) {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if len(args) != 4 || args[1] != "net" || filepath.Dir(args[2]) != d.tasks || filepath.Base(args[0]) != filepath.Base(d.init) {
		return ""
	}
	if p, err := proc.ReadPlace(pid); err != nil || p.Nested {
		return "" // a task can call itself what it likes
	}
	return filepath.Base(args[2])
}

// keepers are all living ones of this agent's tasks.
func (d *Driver) keepers() map[string][]int {
	pids, _ := proc.Pids() // without them there is nothing to be seen
	all := map[string][]int{}
	for _, pid := range pids {
		if id := d.keeperOf(pid); id != "" {
			all[id] = append(all[id], pid)
		}
	}
	return all
}

// endNetwork ends whoever keeps the task's network: with its containers that is gone then, and
// its ports are free. The lock is held.
func (d *Driver) endNetwork(ctx context.Context, t driver.Task) error {
	if !t.OwnNetwork {
		return nil
	}
	k := d.keeper(t.ID)
	if is, err := proc.ReadStat(k.Pid); err == nil && is.Process == k.Process {
		// If it has ended, and was our own child, it is still to be reaped.
		_, _ = syscall.Wait4(k.Pid, nil, syscall.WNOHANG, nil)
	}
	d.mu.Lock()
	delete(d.unkept, t.ID)
	d.mu.Unlock()
	return d.endKeepers(ctx, t.ID, d.keepers()[t.ID])
}

// endKeepers ends processes that keep the network of a task, and returns when they have closed
// all that they had open.
func (d *Driver) endKeepers(ctx context.Context, id string, pids []int) error {
	for _, pid := range pids {
		handle, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if d.keeperOf(pid) == id { // now that the pid cannot be another's
			err = endProcess(ctx, handle)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // it may be our own child
		}
		if err = errors.Join(err, unix.Close(handle)); err != nil {
			return fmt.Errorf("end who keeps the network of task %s: %w", id, err)
		}
	}
	return nil
}

// endProcess kills a process and waits until it has ended.
func endProcess(ctx context.Context, pidfd int) error {
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // it may have ended
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 10)
		if n > 0 || err != nil && err != unix.EINTR {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// mendNetwork has somebody else keep the network of a running task whose keeper was ended.
func (d *Driver) mendNetwork(ctx context.Context, id string) {
	k := d.keeper(id)
	if k.Pid == 0 || d.keeps(k, id) {
		return
	}
	held, taken, err := folder.Lock(d.folder(id), unix.LOCK_EX)
	if taken || err != nil {
		return // whoever is at it, or the next look, does it
	}
	defer held.Close()
	t, err := folder.Read[driver.Task](filepath.Join(d.folder(id), specFile))
	if err != nil || folder.Exists(filepath.Join(d.folder(id), exitFile)) {
		return
	}
	_, err = d.network(ctx, t)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.log.Info("the network of a task is kept again", zap.String("task", id))
	case d.unkept[id] != err.Error():
		d.unkept[id] = err.Error()
		d.log.Warn("a task cannot be reached at its ports", zap.String("task", id), zap.Error(err))
	}
}

// Dial connects to a port of a running task: in its own network, if it has one.
func (d *Driver) Dial(ctx context.Context, id string, port int32) (net.Conn, error) {
	if err := folder.CheckID(id); err != nil {
		return nil, err
	}
	t, err := folder.Read[driver.Task](filepath.Join(d.folder(id), specFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("task %s: %w", id, driver.ErrNotRunning)
	}
	if err != nil {
		return nil, err
	}
	if !t.OwnNetwork {
		return publish.DialHere(ctx, port)
	}
	k := d.keeper(id)
	if k.Pid == 0 {
		return nil, fmt.Errorf("task %s has no network yet: %w", id, driver.ErrNotRunning)
	}
	handle, err := unix.PidfdOpen(k.Pid, 0)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", id, driver.ErrNotRunning)
	}
	defer unix.Close(handle)
	if !d.keeps(k, id) {
		return nil, fmt.Errorf("nobody keeps the network of task %s: %w", id, driver.ErrNotRunning)
	}
	return publish.Dial(ctx, handle, port)
}
