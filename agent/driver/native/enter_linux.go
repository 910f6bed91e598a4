package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
)

// A command that runs in a box is not started by the init itself but by one process more,
// this program under the verb native-enter, which does to itself what the box asks for and
// then becomes the command. What it needs comes on its fourth file; an error goes back on
// the fifth, which a good execve closes.

// entry is what such a process is to do.
type entry struct {
	Command []string
	Env     []string
	Dir     string // to begin in
	Scratch string // empty: leave mounts as they are
	Root    root   // to be made this process's and its init's; no layers: none
	Box     driver.Box
	Cgroups cgroup.Groups // to enter before anything is given up
	Join    bool          // the mount namespace that comes on the sixth file
}

// Files of the process.
const (
	enterEntry = 3 + iota
	enterError
	enterMounts
)

// boxed says whether the box asks for anything.
func boxed(b driver.Box) bool {
	return b.Image != "" || b.User != "" || b.Dir != "" || len(b.Mounts) > 0 || b.ReadOnlyRoot || len(b.AddCaps)+len(b.DropCaps) > 0 || b.Confined
}

// launchBoxed is launch for a command in a box. The pid is the command's, too.
func launchBoxed(sp spec, p program) (pid int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	return enter(entry{
		Command: p.Command, Env: p.Env, Dir: p.folder(sp.Scratch), Scratch: sp.Scratch, Root: p.Root, Box: p.Box, Cgroups: sp.Cgroups,
	},
		[]uintptr{null.Fd(), initStdout, initStderr}, &syscall.SysProcAttr{Setsid: true}, nil)
}

// enter starts the process and waits until it has become the command.
func enter(e entry, files []uintptr, sys *syscall.SysProcAttr, mounts *os.File) (pid int, err error) {
	entryR, entryW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer entryR.Close()
	errorR, errorW, err := os.Pipe()
	if err != nil {
		entryW.Close()
		return 0, err
	}
	defer errorR.Close()
	files = append(files, entryR.Fd(), errorW.Fd())
	if e.Join = mounts != nil; e.Join {
		files = append(files, mounts.Fd())
	}
	pid, err = syscall.ForkExec("/proc/self/exe", []string{"ohm", verbEnter}, &syscall.ProcAttr{
		Dir: "/", Env: []string{reexecuted + "=1"}, Files: files, Sys: sys,
	})
	errorW.Close()
	if err != nil {
		entryW.Close()
		return 0, fmt.Errorf("start what becomes the command: %w", err)
	}
	err = errors.Join(json.NewEncoder(entryW).Encode(e), entryW.Close())
	said, readErr := io.ReadAll(io.LimitReader(errorR, 4096))
	if err = errors.Join(err, readErr); err == nil && len(said) > 0 {
		err = errors.New(string(said))
	}
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // our own child, not reaped yet
		reap(pid)
		return 0, err
	}
	return pid, nil
}

// enterMain becomes the command, or says why not.
func enterMain() error {
	runtime.LockOSThread() // what is given up below is given up by this thread, which becomes the command
	unix.CloseOnExec(enterEntry)
	unix.CloseOnExec(enterError)
	err := become()
	_, _ = fmt.Fprint(os.NewFile(enterError, "error"), err) // whoever has started it may be gone
	return err
}

func become() error {
	var e entry
	if err := json.NewDecoder(os.NewFile(enterEntry, "entry")).Decode(&e); err != nil {
		return err
	}
	list, err := capsOf(e.Box)
	if err != nil {
		return err
	}
	filter, err := filterOf(e.Box, list)
	if err != nil {
		return err
	}
	// As late as the cgroups can be reached and written to: what this process has used until
	// then is not the task's.
	charge := func() error { return e.Cgroups.Enter() }
	switch {
	case e.Join:
		err = errors.Join(charge(), joinMounts())
	case len(e.Root.Layers) > 0:
		err = e.Root.enter(e.Box, e.Scratch, charge)
		e.Scratch = scratchTarget
	case e.Box.ReadOnlyRoot:
		err = errors.Join(charge(), mountBox(e.Box, e.Scratch))
	default:
		err = errors.Join(mountBox(e.Box, e.Scratch), charge())
	}
	if err != nil {
		return err
	}
	who, err := userOf(e.Box.User)
	if err != nil {
		return err
	}
	if e.Scratch != "" {
		if err := os.Lchown(e.Scratch, who.uid, who.gid); err != nil {
			return err
		}
	}
	if err := os.Chdir(e.Dir); err != nil {
		return fmt.Errorf("working folder: %w", err)
	}
	if err := who.become(list); err != nil {
		return err
	}
	path, err := lookPath(e.Command[0], ".", e.Env)
	if err != nil {
		return err
	}
	if confined(e.Box) {
		if err := filter.load(); err != nil {
			return err
		}
	}
	return fmt.Errorf("cannot run %s: %w", path, syscall.Exec(path, e.Command, e.Env))
}

// joinMounts takes this thread into the mount namespace of a task.
func joinMounts() error {
	unix.CloseOnExec(enterMounts)
	if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(enterMounts, unix.CLONE_NEWNS)); err != nil {
		return fmt.Errorf("join the task's mounts: %w", err)
	}
	return nil
}

// mountBox changes what the mount namespace, which is the task's own, shows.
func mountBox(b driver.Box, scratch string) error {
	if b.ReadOnlyRoot {
		if err := setReadOnly("/", true, unix.AT_RECURSIVE); err != nil {
			return fmt.Errorf("make the root read-only: %w", err)
		}
		if err := bindMount(driver.Mount{Source: scratch, Target: scratch}); err != nil {
			return err
		}
	}
	for _, m := range b.Mounts {
		if err := bindMount(m); err != nil {
			return err
		}
	}
	return nil
}

func bindMount(m driver.Mount) error {
	if _, err := os.Stat(m.Target); err != nil {
		return fmt.Errorf("mount at %s, which must be there on the node for a task without an image: %w", m.Target, err)
	}
	if m.Source == "" {
		flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
		if m.ReadOnly {
			flags |= unix.MS_RDONLY
		}
		options := "mode=1777"
		if m.Size > 0 {
			options += fmt.Sprintf(",size=%d", m.Size)
		}
		if err := unix.Mount("tmpfs", m.Target, "tmpfs", flags, options); err != nil {
			return fmt.Errorf("mount a tmpfs at %s: %w", m.Target, err)
		}
		return nil
	}
	err := unix.Mount(m.Source, m.Target, "", unix.MS_BIND|unix.MS_REC, "")
	if err == nil {
		err = setReadOnly(m.Target, m.ReadOnly, 0)
	}
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
	}
	return nil
}

// setReadOnly changes the mount at a path, and with AT_RECURSIVE all below it.
func setReadOnly(path string, yes bool, flags uint) error {
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if yes {
		attr = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	}
	return unix.MountSetattr(unix.AT_FDCWD, path, flags, &attr)
}

// numbers of capabilities as bits.
func bitsOf(list, names []string) (bits uint64) {
	for _, c := range list {
		bits |= 1 << slices.Index(names, c)
	}
	return bits
}
