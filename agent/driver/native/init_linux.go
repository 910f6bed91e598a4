package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/agent/driver/thread"
)

// Files that the shim opens for the init.
const (
	initTalk   = 3 + iota // to and from the shim
	initStdout            // of the command
	initStderr
)

// word is what init and shim tell each other, one at a time: the init says Pid or Error,
// hears an empty word once the shim knows the command, and says Status when all is over.
type word struct {
	Pid    int    `json:",omitempty"` // of the command, in the init's pid namespace
	Error  string `json:",omitempty"` // the command cannot be started
	Ended  bool   `json:",omitempty"`
	Status uint32 `json:",omitempty"` // of wait(2)
}

// initMain starts the command of a container and stays until no process of it is left.
// number is the container's among those of the task.
func initMain(dir, number string) error {
	sp, err := folder.Read[spec](filepath.Join(dir, specFile))
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(number)
	if all := sp.all(); err != nil || n < 0 || n >= len(all) {
		return fmt.Errorf("the task has no container %s", number)
	}
	if err := keepFiles(); err != nil {
		return err
	}
	talk := os.NewFile(initTalk, "shim")
	out, in := json.NewEncoder(talk), json.NewDecoder(talk)
	signals := catch()
	// In plain mode orphans fall to this process, as they do to every pid 1.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	if sp.Namespaces {
		if err := isolate(); err != nil {
			return out.Encode(word{Error: err.Error()})
		}
	}
	var pid int
	thread.Run(func() { pid, err = launch(sp, sp.all()[n]) })
	if err != nil {
		return out.Encode(word{Error: err.Error()})
	}
	if err := out.Encode(word{Pid: pid}); err != nil {
		return err
	}
	var heard word // until then the command is not reaped and its pid stays its own
	if err := in.Decode(&heard); err != nil {
		return errors.Join(err, end(sp.Namespaces))
	}
	command := &child{pid: pid}
	go command.relay(signals)
	go func() { // ends with the process
		_ = in.Decode(&heard)
		// Nobody would learn how the task goes on: it ends with its shim.
		_ = end(sp.Namespaces)
		os.Exit(1)
	}()
	status, err := command.wait()
	if err != nil {
		return err
	}
	if err := end(sp.Namespaces); err != nil {
		return err
	}
	return out.Encode(word{Ended: true, Status: uint32(status)})
}

// child is the command, for as long as its pid is its own.
type child struct {
	mu  sync.Mutex
	pid int // guarded by mu; 0 once it is reaped
}

// relay sends signals on to the command, but for those that are this process's own affair.
func (c *child) relay(signals <-chan os.Signal) {
	for s := range signals {
		switch s {
		case unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE:
			continue
		}
		c.mu.Lock()
		if c.pid != 0 {
			_ = syscall.Kill(c.pid, s.(syscall.Signal)) // a zombie at worst
		}
		c.mu.Unlock()
	}
}

// wait reaps whatever ends until the command does.
func (c *child) wait() (syscall.WaitStatus, error) {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			if err == unix.EINTR {
				continue
			}
			return 0, fmt.Errorf("wait for the command: %w", err)
		}
		c.mu.Lock()
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == nil && pid == c.pid {
			c.pid = 0
			c.mu.Unlock()
			return status, nil
		}
		c.mu.Unlock()
	}
}

// end kills every process below this one, those that went their own way included, and
// returns when all are reaped.
func end(namespace bool) error {
	me, err := proc.Self()
	if err != nil {
		return err
	}
	for {
		if namespace {
			// All but this process; there may be none.
			_ = syscall.Kill(-1, syscall.SIGKILL)
		} else if err := kill(me); err != nil {
			return err
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.ECHILD {
				return nil
			}
			if pid == 0 {
				break
			}
		}
		// Not for ever in wait(2): an orphan may have come that was not looked at yet.
		if err := driver.Pause(context.Background(), 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// launch starts the command, born in its cgroups, as the leader of a session of its own.
func launch(sp spec, p program) (pid int, err error) {
	if boxed(p.Box) {
		return launchBoxed(sp, p)
	}
	path, err := lookPath(p.Command[0], sp.Scratch, p.Env)
	if err != nil {
		return 0, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	sys := &syscall.SysProcAttr{Setsid: true}
	for _, dir := range sp.Cgroups.V1() {
		if err := cgroup.Put(dir, "tasks", "0"); err != nil { // 0: the thread that writes
			return 0, fmt.Errorf("enter cgroup: %w", err)
		}
	}
	if sp.Cgroups.Unified != "" {
		group, err := os.Open(sp.Cgroups.Unified)
		if err != nil {
			return 0, fmt.Errorf("enter cgroup: %w", err)
		}
		defer group.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(group.Fd())
	}
	pid, err = syscall.ForkExec(path, p.Command, &syscall.ProcAttr{
		Dir:   sp.Scratch,
		Env:   p.Env,
		Files: []uintptr{null.Fd(), initStdout, initStderr},
		Sys:   sys,
	})
	if err != nil {
		return 0, fmt.Errorf("cannot run %s: %w", path, err)
	}
	return pid, nil
}

// lookPath finds a command as a shell would with the task's own PATH, in its own folder.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil // the kernel says what is wrong with it
	}
	var paths string
	if i := slices.IndexFunc(env, func(s string) bool { return strings.HasPrefix(s, "PATH=") }); i >= 0 {
		paths = strings.TrimPrefix(env[i], "PATH=")
	}
	why := fs.ErrNotExist
	for _, p := range filepath.SplitList(paths) {
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		path := filepath.Join(p, name)
		info, err := os.Stat(path)
		switch {
		case err != nil || info.IsDir():
		case unix.Access(path, unix.X_OK) != nil:
			why = fs.ErrPermission
		default:
			return path, nil
		}
	}
	if why == fs.ErrPermission {
		return "", fmt.Errorf("command %q in PATH=%s may not be executed", name, paths)
	}
	return "", fmt.Errorf("command %q not found in PATH=%s", name, paths)
}
