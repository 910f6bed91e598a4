package native

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/proc"
)

// talk is a program's input and output in the agent.
type talk struct {
	in     io.WriteCloser // of a program without a terminal; nil: it reads nothing
	master *os.File       // of a terminal; nil: there is none
	fd     int            // of master
	slave  *os.File       // until the program has it
	copied chan struct{}  // closed when no more will come from the terminal
}

// terminal gives the command a new terminal, one of those that the task has in its /dev, so
// that programs find it there.
func terminal(cmd *exec.Cmd, j joining) (t talk, err error) {
	if t.fd, err = ptmx(j); err != nil {
		return t, fmt.Errorf("make a terminal: %w", err)
	}
	t.master = os.NewFile(uintptr(t.fd), "/dev/ptmx")
	err = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPTLCK, 0)
	var slave uintptr
	if err == nil {
		var errno unix.Errno
		if slave, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(t.fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC); errno != 0 {
			err = errno
		}
	}
	if err != nil {
		return t, fmt.Errorf("make a terminal: %w", err)
	}
	t.slave = os.NewFile(slave, "terminal")
	t.resize(driver.Size{Columns: 80, Rows: 24})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.slave, t.slave, t.slave
	return t, nil
}

// ptmx opens the multiplexer of the task's terminals. It is not blocking, so that closing it
// ends a Read; File.Fd would change that.
func ptmx(j joining) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_NONBLOCK
	if !j.Namespaces {
		return unix.Open("/dev/ptmx", flags, 0)
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", j.Command.Pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	if !j.Command.Lives() { // or the root may be another process's
		return -1, proc.ErrGone
	}
	// The task may have put anything there: it is looked at before it is opened.
	const beneath = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	found, err := unix.Openat2(root, "/dev/pts/ptmx", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: beneath})
	if err != nil {
		return -1, err
	}
	defer unix.Close(found)
	var st unix.Stat_t
	if err := unix.Fstat(found, &st); err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(5, 2) {
		return -1, errors.New("/dev/pts/ptmx is something else in this task")
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", found), flags, 0)
}

// started gives up what only the program is to have.
func (t *talk) started() {
	if t.slave != nil {
		t.slave.Close()
	}
}

func (t *talk) close() {
	if t.in != nil {
		t.in.Close()
	}
	if t.master != nil {
		t.master.Close()
	}
}

// begin copies input, and a terminal's output. The copying of input may outlive the
// program by one Read.
func (t *talk) begin(e driver.Exec) {
	switch {
	case t.master != nil:
		out := e.Stdout
		if out == nil {
			out = io.Discard
		}
		t.copied = make(chan struct{})
		go func() { defer close(t.copied); _, _ = io.Copy(out, t.master) }() // ends with EIO when nobody has the other end
		if e.Stdin != nil {
			go func() { _, _ = io.Copy(t.master, e.Stdin) }()
		}
	case t.in != nil:
		go func() { _, _ = io.Copy(t.in, e.Stdin); t.in.Close() }()
	}
}

func (t *talk) resize(s driver.Size) {
	if t.master != nil {
		_ = unix.IoctlSetWinsize(t.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Columns})
	}
}

// finish waits for the last of a terminal's output.
func (t *talk) finish() {
	if t.copied != nil {
		timer := time.NewTimer(drain)
		defer timer.Stop()
		select {
		case <-t.copied:
		case <-timer.C:
		}
	}
	t.close()
}
