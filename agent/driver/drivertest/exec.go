package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ohmcell/ohm/agent/driver"
)

// leading is the number that a line of Marked begins with.
func leading(line string) int {
	first, _, _ := strings.Cut(line, " ")
	n, _ := strconv.Atoi(first)
	return n
}

// parentOf is a process's parent; 0 if it has ended.
func parentOf(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent, _ := strconv.Atoi(strings.TrimSpace(value))
			return parent
		}
	}
	return 0
}

// exec runs a script in a task, and gives its exit code and what it said.
func (b *bench) exec(id, script string, change func(*driver.Exec)) (code int, out, errs string) {
	b.Helper()
	var stdout, stderr bytes.Buffer
	e := driver.Exec{Command: []string{"sh", "-c", script}, Stdout: &stdout, Stderr: &stderr}
	if change != nil {
		change(&e)
	}
	code, err := b.driver.Exec(b.Context(), id, e)
	b.must(err)
	return code, stdout.String(), stderr.String()
}

func execCode(t *testing.T, b *bench) {
	id := b.start(b.Work(0, 0))
	for script, want := range map[string]int{"true": 0, "exit 42": 42, "kill -9 $$": 137, "kill -TERM $$": 143} {
		if code, _, _ := b.exec(id, script, nil); code != want {
			t.Errorf("%s: %d, want %d", script, code, want)
		}
		b.restart()
	}
	for _, command := range [][]string{{"no-such-command"}, {"/no/such/command"}} {
		if code, err := b.driver.Exec(b.Context(), id, driver.Exec{Command: command}); err == nil || !strings.Contains(err.Error(), command[0]) {
			t.Errorf("%s: %d, %v", command, code, err)
		}
	}
	if !b.running(id) {
		t.Error("the task has ended")
	}
}

func execStreams(t *testing.T, b *bench) {
	id := b.start(b.Work(0, 0))
	code, out, errs := b.exec(id, "cat; echo bad >&2", func(e *driver.Exec) { e.Stdin = strings.NewReader("good\n") })
	if code != 0 || out != "good\n" || errs != "bad\n" {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
	if _, out, _ := b.exec(id, "cat; echo end", nil); out != "end\n" {
		t.Errorf("with nothing to read it said %q", out)
	}
	if _, out, _ := b.exec(id, "yes | head -c 1000000", nil); len(out) != 1000000 {
		t.Errorf("of 1000000 bytes %d have come", len(out))
	}
	for _, stream := range []string{"stdout", "stderr"} {
		if log := b.log(id, stream); log != "" {
			t.Errorf("the task's %s has %q", stream, log)
		}
	}
}

// execInside: the program is where the task is, and held to what it is held to.
func execInside(t *testing.T, b *bench) {
	id := b.start(in(driver.Box{}, "echo of the task >file; echo up"+stay))
	b.says(id, "up")
	main := b.observe(id).Pid
	code, out, errs := b.exec(id, `cat file; echo $A $`+MarkEnv+`; touch seen; pwd; until [ -e go ]; do sleep 0.02; done`, func(e *driver.Exec) {
		e.Env = map[string]string{"A": "b"}
		e.Stdout = &lookAt{b: b, on: "\n/", look: func() {
			for _, p := range b.processes(id) {
				pid := leading(p)
				for _, ns := range []string{"mnt", "pid", "ipc", "uts", "net"} {
					ours, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", main, ns))
					if theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns)); theirs != ours && theirs != "" {
						t.Errorf("%s: its %s namespace is %s, the task's %s", p, ns, theirs, ours)
					}
				}
				ours, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", main))
				Eventually(t, p+" is in the task's cgroups or has ended", func() bool { // one that is ending has left some of them
					theirs, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
					return err != nil || bytes.Equal(theirs, ours)
				})
			}
			b.letGo(main)
		}}
	})
	if code != 0 || errs != "" {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/cwd/seen", main)); err != nil {
		t.Errorf("it was not in the task's folder: %v", err)
	}
	if _, out, _ := b.exec(id, "pwd; id -u", func(e *driver.Exec) { e.Dir, e.User = "/tmp", "65534" }); out != "/tmp\n65534\n" {
		t.Errorf("in another folder, as another user: %q", out)
	}
}

// lookAt collects what is written, and looks once a text has come.
type lookAt struct {
	b     *bench
	seen  string
	on    string
	look  func()
	found bool
}

func (l *lookAt) Write(p []byte) (int, error) {
	l.seen += string(p)
	if !l.found && strings.Contains(l.seen, l.on) {
		l.found = true
		l.look()
	}
	return len(p), nil
}

func execTerminal(t *testing.T, b *bench) {
	id := b.start(b.Work(0, 0))
	resize := make(chan driver.Size, 1)
	resize <- driver.Size{Columns: 123, Rows: 45}
	code, out, errs := b.exec(id, "tty; until stty size | grep -q '45 123'; do sleep 0.02; done; stty size; echo to stderr >&2; read line; echo read $line; exit 4",
		func(e *driver.Exec) { e.Terminal, e.Resize, e.Stdin = true, resize, strings.NewReader("a line\n") })
	if code != 4 || errs != "" {
		t.Errorf("%d, stderr %q", code, errs)
	}
	for _, want := range []string{"/dev/", "45 123\r\n", "to stderr\r\n", "read a line\r\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
	if code, out, _ := b.exec(id, "tty", nil); code == 0 || strings.Contains(out, "/dev/") {
		t.Errorf("without a terminal it has %q", out)
	}
}

func execGivenUp(t *testing.T, b *bench) {
	id := b.start(b.Work(0, 0))
	before := len(b.processes(id))
	ctx, cancel := context.WithCancel(b.Context())
	out := &lookAt{b: b, on: "up", look: cancel}
	_, err := b.driver.Exec(ctx, id, driver.Exec{Command: []string{"sh", "-c", "sleep 1000 & echo up; sleep 1000"}, Stdout: out})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	Eventually(t, fmt.Sprintf("of %d processes %q are left", before, b.processes(id)), func() bool { return len(b.processes(id)) == before })
	if !b.running(id) {
		t.Error("the task has ended")
	}
}

func execNotRunning(t *testing.T, b *bench) {
	id := b.start(b.Work(0, 1))
	b.ended(id)
	for _, id := range []string{id, "never-started"} {
		if code, err := b.driver.Exec(b.Context(), id, driver.Exec{Command: []string{"true"}}); !errors.Is(err, driver.ErrNotRunning) {
			t.Errorf("%s: %d, %v", id, code, err)
		}
	}
	runs := b.start(b.Work(0, 0))
	if code, err := b.driver.Exec(b.Context(), runs, driver.Exec{Container: "other", Command: []string{"true"}}); !errors.Is(err, driver.ErrNotRunning) {
		t.Errorf("in a container that is not there: %d, %v", code, err)
	}
	if code, err := b.driver.Exec(b.Context(), runs, driver.Exec{}); err == nil {
		t.Errorf("no command: %d", code)
	}
	b.must(b.driver.Signal(b.Context(), runs, syscall.SIGKILL))
	b.ended(runs)
}
