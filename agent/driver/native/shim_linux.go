package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/publish"
	"github.com/ohmcell/ohm/pkg/task"
)

// Files that the starter opens for the shim.
const (
	_          = 3 + iota // the task's lock, for as long as the shim lives
	shimReport            // how the start went, for the starter
)

// report is the shim's one word to whoever called Start and may be gone by now.
type report struct {
	Cause string `json:",omitempty"` // of pkg/task
	Error string `json:",omitempty"` // the task is over before it began
}

// shim runs one task from its start to its end and writes down both.
func shim(dir string) error {
	if err := keepFiles(); err != nil { // the lock says that a shim lives, nothing else
		return err
	}
	catch() // nothing that is sent to the shim reaches or ends the task
	starter := os.NewFile(shimReport, "starter")
	t := &tended{dir: dir}
	end := t.run(starter)
	end.Ended = folder.Now()
	err := writeExit(dir, end)
	if t.failed {
		_ = json.NewEncoder(starter).Encode(report{end.Cause, end.Message}) // it may be gone
	}
	return err
}

// tended is the task of this shim.
type tended struct {
	dir   string
	spec  spec
	state state
	out   output

	failed bool // it did not start
}

// failed is the end of a task that did not start.
func failed(err error) folder.Exit {
	return folder.Exit{Cause: driver.StartCause(err), Message: err.Error(), Ended: folder.Now()}
}

// run returns when no process of the task is left.
func (t *tended) run(starter io.WriteCloser) folder.Exit {
	failed := func(err error) folder.Exit { t.failed = true; return failed(err) }
	listeners, err := t.publish()
	if err != nil {
		return failed(err)
	}
	defer publish.Close(listeners)
	talk, files, err := t.prepare()
	defer t.out.finish()
	if err != nil {
		return failed(err)
	}
	defer talk.Close()
	out, in := json.NewEncoder(talk), json.NewDecoder(talk)

	pid, err := t.startInit(talk, files)
	if err != nil {
		return failed(err)
	}
	init := make(chan syscall.WaitStatus, 1)
	go func() { init <- reap(pid) }() // ended is waited for before run returns

	// From here on the init is there, and is waited for.
	var first word
	if err = in.Decode(&first); err == nil && first.Error != "" {
		err = errors.New(first.Error)
	}
	if err == nil {
		err = t.began(pid, first.Pid)
	}
	if err == nil {
		err = out.Encode(word{})
	}
	if err != nil {
		talk.Close() // so the init ends, and all with it
		<-init
		return failed(errors.Join(err, t.sweep()))
	}
	publish.Pass(listeners, func(ctx context.Context, port int32) (net.Conn, error) {
		return dialIn(ctx, t.state.Init, port)
	})
	_ = json.NewEncoder(starter).Encode(report{}) // it may be gone
	starter.Close()

	var last word
	said := make(chan struct{})
	go func() { _ = in.Decode(&last); close(said) }() // that it said nothing is told by last itself
	before := t.oomsBefore(said)
	status := <-init
	if err := t.sweep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return t.verdict(last, status, before)
}

// prepare makes what the init and the command need.
func (t *tended) prepare() (talk *os.File, files []*os.File, err error) {
	if t.spec.Task != nil {
		return nil, nil, errors.New("it was to start before its image was there")
	}
	if t.state.Boot, err = bootID(); err != nil {
		return nil, nil, err
	}
	if t.state.Shim, err = self(); err != nil {
		return nil, nil, err
	}
	t.state.Cgroups = t.spec.Cgroups
	if err := folder.Write(filepath.Join(t.dir, stateFile), t.state); err != nil {
		return nil, nil, err
	}
	// Orphans fall to the shim if the init is killed in plain mode.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, nil, err
	}
	if err := t.spec.Cgroups.Create(t.spec.Limits); err != nil {
		return nil, nil, fmt.Errorf("make cgroups: %w", err)
	}
	ends, err := t.out.open(t.spec.Logs, t.spec.LogLimits)
	if err != nil {
		return nil, nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		for _, end := range ends {
			end.Close()
		}
		return nil, nil, err
	}
	files = append([]*os.File{os.NewFile(uintptr(pair[1]), "init")}, ends...)
	return os.NewFile(uintptr(pair[0]), "init"), files, nil
}

// startInit starts the init with files as its descriptors from initTalk on, and closes
// them here.
func (t *tended) startInit(talk *os.File, files []*os.File) (pid int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	fds := []uintptr{null.Fd(), 1, 2}
	for _, f := range files {
		defer f.Close()
		fds = append(fds, f.Fd())
	}
	sys := &syscall.SysProcAttr{}
	if t.spec.Namespaces {
		sys.Cloneflags = namespaces
		if t.spec.OwnNetwork {
			sys.Cloneflags |= unix.CLONE_NEWNET
		}
	}
	pid, err = syscall.ForkExec("/proc/self/exe", []string{os.Args[0], verbInit, t.dir}, &syscall.ProcAttr{
		Env: os.Environ(), Files: fds, Sys: sys,
	})
	if err != nil {
		return 0, fmt.Errorf("start the task's init: %w", err)
	}
	return pid, nil
}

// began writes down who the init and the command are, as the node sees them.
func (t *tended) began(init, command int) error {
	s, err := readStat(init)
	if err != nil {
		return err
	}
	t.state.Init = s.process
	if t.spec.Namespaces {
		t.state.Command, err = nodePid(t.state.Init, command)
	} else {
		s, err = readStat(command)
		t.state.Command = s.process
	}
	if err != nil {
		return err
	}
	t.state.Started = folder.Now()
	return folder.Write(filepath.Join(t.dir, stateFile), t.state)
}

// sweep ends what a killed init left behind; after a good one there is nothing.
func (t *tended) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := t.spec.Cgroups.Kill(ctx)
	// The shim has no other children than what is to end.
	return errors.Join(err, end(false))
}

// recently is how old a kill for memory may at least be that explains the command's end.
const recently = time.Second

// oomsBefore waits until the init has spoken, and returns how many processes of the task
// had been killed for memory some time (recently, to twice that) before.
func (t *tended) oomsBefore(said <-chan struct{}) (before int64) {
	if t.spec.Cgroups.Memory == "" || t.spec.Limits.Memory == 0 {
		<-said
		return 0
	}
	tick := time.NewTicker(recently)
	defer tick.Stop()
	for last := int64(0); ; {
		select {
		case <-said:
			return before
		case <-tick.C:
			before = last
			// That the command only has to end is no sign that another one was killed.
			if n := t.spec.Cgroups.OOMs(); n > last && !cgroup.Doomed(t.state.Command.Pid) {
				last = n
			}
		}
	}
}

// verdict says how the task ended. A command that the kernel killed for its memory looks
// like one that somebody killed; that the group's counter has just gone up tells them apart,
// unless it was the driver itself that killed it.
func (t *tended) verdict(last word, init syscall.WaitStatus, before int64) folder.Exit {
	ooms := t.spec.Cgroups.OOMs()
	e := folder.Exit{Started: t.state.Started, Pid: t.state.Command.Pid, OOM: ooms > 0}
	if used, ok := t.spec.Cgroups.Stats(); ok {
		e.Peak, e.Limit = used.MemoryPeak, t.spec.Limits.Memory
	}
	status := syscall.WaitStatus(last.Status)
	switch {
	case !last.Ended && init.Signaled() && folder.Killed(t.dir):
		e.Cause, e.Signal, e.Message = task.Signalled, int(syscall.SIGKILL), "the task's init was killed"
	case !last.Ended && init.Signaled():
		e.Cause, e.Message = task.UnknownExit, "the task's init was killed"
	case !last.Ended:
		e.Cause, e.Message = task.UnknownExit, fmt.Sprintf("the task's init failed with %d", init.ExitStatus())
	case status.Signaled() && status.Signal() == syscall.SIGKILL && ooms > before && !folder.Killed(t.dir):
		e.Cause, e.Signal = task.OOMKilled, int(syscall.SIGKILL)
		used, _ := t.spec.Cgroups.Stats() // they are there until the task is removed
		e.Message = driver.OOMMessage(used.MemoryPeak, t.spec.Limits.Memory)
	case status.Signaled():
		e.Cause, e.Signal = task.Signalled, int(status.Signal())
	default:
		e.Cause, e.Code = task.Exited, status.ExitStatus()
	}
	return e
}

// reap waits for the child.
func reap(pid int) syscall.WaitStatus {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
}
