package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/agent/driver/publish"
	"github.com/ohmcell/ohm/pkg/task"
)

// container is one container of the task, from its start on.
type container struct {
	program
	command proc.Process
	talk    *os.File // the init ends, and all below it, when this is closed

	said  chan struct{} // closed when last is what the init said of the end: nothing, if it was killed
	last  word
	ended chan struct{} // closed when the init has ended, as status says
	init  syscall.WaitStatus

	before int64 // kills for memory that do not explain the end
}

// start starts the init of a container, and returns once its command runs and that is written
// down. number is its place in the task. An error says that nothing of the container is left
// but what sweep finds.
func (t *tended) start(number int, p program) (*container, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	c := &container{program: p, talk: os.NewFile(uintptr(pair[0]), "init"), said: make(chan struct{}), ended: make(chan struct{})}
	pid, err := t.startInit(number, os.NewFile(uintptr(pair[1]), "init"))
	if err != nil {
		c.talk.Close()
		return nil, err
	}
	go func() { // ends with the init, which does not outlive the task
		defer close(c.ended)
		c.init = reap(pid)
	}()
	out, in := json.NewEncoder(c.talk), json.NewDecoder(c.talk)
	var first word
	if err = in.Decode(&first); err == nil && first.Error != "" {
		err = errors.New(first.Error)
	}
	if err == nil {
		err = t.began(c, pid, first.Pid)
	}
	if err != nil {
		c.talk.Close() // so the init ends, and all with it
		<-c.ended
		return nil, err
	}
	_ = out.Encode(word{})    // an init that was killed by now has ended after its start
	if folder.Killed(t.dir) { // who has said so may have looked before this one was written down
		_ = c.command.Signal(syscall.SIGKILL) // it may have ended
	}
	go func() { // ends with the init
		defer close(c.said)
		defer c.talk.Close()
		_ = in.Decode(&c.last) // that it said nothing is told by last itself
	}()
	return c, nil
}

// startInit starts the init of a container, and closes its end of the talk here.
func (t *tended) startInit(number int, talk *os.File) (pid int, err error) {
	defer talk.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	fds := []uintptr{null.Fd(), 1, 2, talk.Fd()}
	for _, f := range t.ends {
		fds = append(fds, f.Fd())
	}
	sys := &syscall.SysProcAttr{}
	if t.spec.Namespaces {
		sys.Cloneflags = namespaces
	}
	fork := func() error {
		pid, err = syscall.ForkExec("/proc/self/exe", []string{os.Args[0], verbInit, t.dir, strconv.Itoa(number)}, &syscall.ProcAttr{
			Env: os.Environ(), Files: fds, Sys: sys,
		})
		return err
	}
	if t.net != nil {
		err = publish.In(int(t.net.Fd()), fork)
	} else {
		err = fork()
	}
	if err != nil {
		return 0, fmt.Errorf("start the task's init: %w", err)
	}
	return pid, nil
}

// began writes down who the init and the command of a container are, as the node sees them.
func (t *tended) began(c *container, init, command int) error {
	s, err := proc.ReadStat(init)
	if err != nil {
		return err
	}
	m := member{Name: c.name(), Init: s.Process}
	if t.spec.Namespaces {
		m.Command, err = nodePid(m.Init, command)
	} else {
		s, err = proc.ReadStat(command)
		m.Command = s.Process
	}
	if err != nil {
		return err
	}
	c.command = m.Command
	if c.Role != driver.Main {
		t.state.Before = append(t.state.Before, m)
	} else {
		t.state.Init, t.state.Command = m.Init, m.Command
	}
	if c.Role == driver.Main || !t.state.begun() {
		t.state.Started = folder.Now()
	}
	return folder.Write(filepath.Join(t.dir, stateFile), t.state)
}

// wait returns when the container has ended.
func (t *tended) wait(c *container) {
	c.before = t.oomsBefore(c)
	<-c.ended
}

// recently is how old a kill for memory may at least be that explains the command's end.
const recently = time.Second

// oomsBefore waits until the init has spoken, and returns how many processes of the task
// had been killed for memory some time (recently, to twice that) before.
func (t *tended) oomsBefore(c *container) (before int64) {
	if t.spec.Cgroups.Memory == "" || t.spec.Limits.Memory == 0 {
		<-c.said
		return 0
	}
	tick := time.NewTicker(recently)
	defer tick.Stop()
	for last := int64(0); ; {
		select {
		case <-c.said:
			return before
		case <-tick.C:
			before = last
			// That the command only has to end is no sign that another one was killed.
			if n := t.spec.Cgroups.OOMs(); n > last && !cgroup.Doomed(c.command.Pid) {
				last = n
			}
		}
	}
}

// verdict says how the task ended, by the end of the container that decides. A command that
// the kernel killed for its memory looks like one that somebody killed; that the group's
// counter has just gone up tells them apart, unless it was the driver itself that killed it.
func (t *tended) verdict(c *container) folder.Exit {
	ooms := t.spec.Cgroups.OOMs()
	e := folder.Exit{Started: t.state.Started, Pid: t.state.Command.Pid, OOM: ooms > 0}
	if used, ok := t.spec.Cgroups.Stats(); ok {
		e.Peak, e.Limit = used.MemoryPeak, t.spec.Limits.Memory
	}
	if c.Role != driver.Main {
		e.Message = driver.InitMessage(c.name())
	}
	status := syscall.WaitStatus(c.last.Status)
	switch {
	case !c.last.Ended && c.init.Signaled() && folder.Killed(t.dir):
		e.Cause, e.Signal, e.Message = task.Signalled, int(syscall.SIGKILL), "the task's init was killed"
	case !c.last.Ended && c.init.Signaled():
		e.Cause, e.Message = task.UnknownExit, "the task's init was killed"
	case !c.last.Ended:
		e.Cause, e.Message = task.UnknownExit, fmt.Sprintf("the task's init failed with %d", c.init.ExitStatus())
	case status.Signaled() && status.Signal() == syscall.SIGKILL && ooms > c.before && !folder.Killed(t.dir):
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
