package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is one in which a person could sit: the test has the other end.
type terminal struct {
	t             *testing.T
	master, slave *os.File

	mu   sync.Mutex
	said strings.Builder
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	tt := &terminal{t: t, master: os.NewFile(uintptr(fd), "/dev/ptmx")}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tt.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		buf := make([]byte, 4096)
		for {
			n, err := tt.master.Read(buf)
			tt.mu.Lock()
			tt.said.Write(buf[:n])
			tt.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		tt.slave.Close()
		tt.master.Close()
		<-heard
		if t.Failed() {
			t.Logf("the terminal shows %q", tt.shown())
		}
	})
	return tt
}

// shown is all that has come to the terminal since it was last forgotten.
func (tt *terminal) shown() string {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return tt.said.String()
}

func (tt *terminal) shows(text string) {
	tt.t.Helper()
	within(tt.t, patience, fmt.Sprintf("the terminal shows %q", text), func() bool { return strings.Contains(tt.shown(), text) })
}

func (tt *terminal) forget() {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.said.Reset()
}

func (tt *terminal) types(text string) {
	tt.t.Helper()
	if _, err := tt.master.WriteString(text); err != nil {
		tt.t.Fatal(err)
	}
}

// resize tells whoever is in the terminal, too.
func (tt *terminal) resize(columns, rows uint16) {
	tt.t.Helper()
	c, err := tt.master.SyscallConn()
	if err == nil {
		if controlErr := c.Control(func(fd uintptr) {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
		}); err == nil {
			err = controlErr
		}
	}
	if err != nil {
		tt.t.Fatal(err)
	}
}

// mode is how the terminal treats what is typed.
func (tt *terminal) mode() unix.Termios {
	tt.t.Helper()
	mode, err := unix.IoctlGetTermios(int(tt.slave.Fd()), unix.TCGETS)
	if err != nil {
		tt.t.Fatal(err)
	}
	return *mode
}

// starts runs ohm in the terminal, as a shell would.
func (tt *terminal) starts(args ...string) (cmd *exec.Cmd, end func() int) {
	tt.t.Helper()
	cmd = exec.Command(filepath.Join(programs, "ohm"), args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environment(), tt.slave, tt.slave, tt.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		tt.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // the exit code says it
	tt.t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	return cmd, func() int {
		tt.t.Helper()
		within(tt.t, patience, "ohm ends", func() bool {
			select {
			case <-ended:
				return true
			default:
				return false
			}
		})
		return cmd.ProcessState.ExitCode()
	}
}

// programInTerminal: the program in the task has a terminal of its own, and the one that the
// caller sits in is only its window: keys go through as they are, Ctrl-C too, and the size
// follows. When the program has ended, however it has, the caller's terminal is as it was.
func programInTerminal(t *testing.T, c client, job string) {
	t.Helper()
	tt := newTerminal(t)
	tt.resize(111, 33)
	before := tt.mode()
	if before.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != unix.ICANON|unix.ECHO|unix.ISIG {
		t.Fatalf("a new terminal is in mode %+v", before)
	}
	run := func(script string) (cmd *exec.Cmd, end func() int) {
		t.Helper()
		tt.forget()
		return tt.starts("exec", "--address", c.address, "-t", job, "--", "sh", "-c", script)
	}
	restored := func(after string) {
		t.Helper()
		if now := tt.mode(); now != before {
			t.Errorf("%s the terminal's mode is %+v, was %+v", after, now, before)
		}
	}

	_, end := run(`until stty size | grep "33 111"; do sleep 0.05; done
until stty size | grep "44 99"; do sleep 0.05; done
echo ready; read line; echo "read <$line>"
trap 'echo; echo interrupted; exit 7' INT
echo waits; while :; do sleep 0.05; done`)
	tt.shows("33 111\r\n")
	if raw := tt.mode(); raw.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 || raw.Iflag&unix.ICRNL != 0 {
		t.Errorf("while the program runs the terminal's mode is %+v", raw)
	}
	tt.resize(99, 44)
	tt.shows("44 99\r\n")
	tt.shows("ready\r\n")
	tt.types("a line\r")
	tt.shows("read <a line>\r\n")
	tt.shows("waits\r\n")
	tt.types("\x03")
	tt.shows("interrupted\r\n")
	if code := end(); code != 7 {
		t.Errorf("exit code %d, want the program's", code)
	}
	restored("after the program's end")

	_, end = run("kill -9 $$")
	if code := end(); code != 137 {
		t.Errorf("exit code %d of what was killed", code)
	}
	restored("after it was killed")
	cmd, end := run("echo up; sleep 1000")
	tt.shows("up\r\n")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := end(); code != 125 {
		t.Errorf("exit code %d of ohm when it was told to end", code)
	}
	restored("after ohm was told to end")
	_, end = tt.starts("exec", "--address", c.address, "-t", job, "--", "/no/such/program")
	if code := end(); code != 125 {
		t.Errorf("exit code %d of what is not there", code)
	}
	restored("where there is no program")
}

// TestExecTerminal sits in a terminal, with the native driver.
func TestExecTerminal(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t))
	d.run(service("web", 1, shortDir(t)))
	programInTerminal(t, d.client, "web")
	d.ohm("stop", "--all", "--wait", "--timeout", patience.String())
}

// TestExecTerminalInAContainer is the same in a container.
func TestExecTerminalInAContainer(t *testing.T) {
	t.Parallel()
	d := startBoxes(t)
	image := filepath.Join(t.TempDir(), "busybox.tar")
	if out, err := exec.Command("../hack/busybox-image.sh", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.run(fmt.Sprintf(`
job: web
kind: service
groups:
  - {name: main, image: "tar:%s", command: [sleep, "1000"], cpu: 100m, memory: 64Mi}
`, image))
	programInTerminal(t, d.client, "web")
}
