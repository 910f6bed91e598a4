package native

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reexecuted marks the environment of shim, init and probe, so that a program which
// forgets to call Main does not start itself without end.
const reexecuted = "OHM_NATIVE_REEXECUTED"

// Main runs a hidden verb (Hidden says whether args are one) and returns the exit code
// of the process.
func Main(args []string) int {
	if !Hidden(args) {
		return 2
	}
	var err error
	// What ps calls it; that it works is of no account.
	_ = os.WriteFile("/proc/self/comm", []byte("ohm-"+strings.TrimPrefix(args[0], "native-")), 0)
	switch {
	case len(args) == 2 && args[0] == verbShim:
		err = shim(args[1])
	case len(args) == 3 && args[0] == verbInit:
		err = initMain(args[1], args[2])
	case len(args) == 1 && args[0] == verbEnter:
		err = enterMain()
	case len(args) == 1 && args[0] == verbExec:
		return execMain()
	case len(args) == 1 && args[0] == verbProbe:
		err = isolate()
	default:
		err = fmt.Errorf("%s is for this program's own use", args[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// namespaces that a task gets, where it gets any.
const namespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// isolate makes the new namespaces the task's own: mounts do not go back to the node,
// and /proc shows the task's processes.
func isolate() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts from the node: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// catch handles every signal that a process may handle. What the agent's parents chose to
// ignore would else be ignored by the task as well.
func catch() <-chan os.Signal {
	c := make(chan os.Signal, 64)
	signal.Notify(c)
	return c
}

// keepFiles lets no file that is open now reach what this process starts, whoever
// opened it, but for those that are named at the start.
func keepFiles() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
