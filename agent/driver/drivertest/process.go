package drivertest

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func commandNotFound(t *testing.T, b *bench) {
	for _, command := range []string{"no-such-command", "/no/such/command", "/etc"} {
		bad := b.named(driver.Task{Command: []string{command}})
		err := b.driver.Start(b.Context(), bad)
		if err == nil || !strings.Contains(err.Error(), command) {
			t.Errorf("start %s: %v", command, err)
			continue
		}
		o := b.observe(bad.ID)
		if o.State != task.Failed || o.Cause != task.StartFailed || !strings.Contains(o.Message, command) || o.Pid != 0 {
			t.Errorf("observed %+v", o)
		}
		b.restart()
		b.must(b.driver.Start(b.Context(), bad))
		if again := b.observe(bad.ID); again != o {
			t.Errorf("was %+v, is %+v", o, again)
		}
		b.must(b.driver.Remove(b.Context(), bad.ID))
		b.clean(bad.ID)
	}
}

// relativeCommand: a task starts in a folder of its own, where it can write.
func relativeCommand(t *testing.T, b *bench) {
	id := b.script(`printf '#!/bin/sh\nexit 9\n' >mine && chmod +x mine && exec ./mine`)
	b.expectExit(b.ended(id), 9)
	other := b.script("ls -A")
	b.expectExit(b.ended(other), 0)
	if log := b.log(other, "stdout"); log != "" {
		t.Errorf("a new task finds %q in its folder", log)
	}
}

func killedByItself(t *testing.T, b *bench) {
	b.expectSignal(b.ended(b.script("kill -9 $$")), int(syscall.SIGKILL))
	b.expectSignal(b.ended(b.script("kill -TERM $$")), int(syscall.SIGTERM))
	b.expectExit(b.ended(b.script("exit 137")), 137)
}

func environmentExact(t *testing.T, b *bench) {
	t.Setenv("OF_THE_AGENT", "secret")
	id := b.start(driver.Task{Command: []string{"env"}, Env: map[string]string{"A": "b c", "EMPTY": ""}})
	b.expectExit(b.ended(id), 0)
	var names []string
	for line := range strings.Lines(b.log(id, "stdout")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		names = append(names, name)
		if want := map[string]string{"A": "b c", "EMPTY": "", MarkEnv: id}; want[name] != value && name != "HOME" && name != "PATH" {
			t.Errorf("%s is %q", name, value)
		}
	}
	slices.Sort(names)
	if want := []string{"A", MarkEnv, "EMPTY", "HOME", "PATH"}; !slices.Equal(names, want) {
		t.Errorf("the task sees %q, want %q", names, want)
	}
	own := b.start(driver.Task{Command: []string{"/bin/sh", "-c", "echo $PATH:$HOME"}, Env: map[string]string{"PATH": "/p", "HOME": "/h"}})
	b.ended(own)
	if log := b.log(own, "stdout"); log != "/p:/h\n" {
		t.Errorf("its own PATH and HOME are %q", log)
	}
}

// noFilesInherited: a file that the agent's parents left open must not reach a task.
func noFilesInherited(t *testing.T, b *bench) {
	r, w, err := os.Pipe()
	b.must(err)
	defer r.Close()
	defer w.Close()
	fd, err := syscall.Dup(int(w.Fd())) // dup(2) does not close on exec
	b.must(err)
	defer syscall.Close(fd)
	o := b.observe(b.start(driver.Task{Command: []string{"sleep", "1000"}}))
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", o.Pid))
	b.must(err)
	for _, e := range entries {
		if !slices.Contains([]string{"0", "1", "2"}, e.Name()) {
			t.Errorf("the task has the file %s", e.Name())
		}
	}
}

// signalsNotIgnored: a task starts with no signal ignored or blocked, though the agent may
// have been started with some.
func signalsNotIgnored(t *testing.T, b *bench) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGUSR1)
	defer signal.Reset(syscall.SIGHUP, syscall.SIGUSR1)
	o := b.observe(b.start(driver.Task{Command: []string{"sleep", "1000"}}))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.Pid))
	b.must(err)
	seen := 0
	for line := range strings.Lines(string(status)) {
		name, mask, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "SigBlk" || name == "SigIgn" {
			seen++
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			b.must(err)
			const libc = 1<<31 | 1<<32 // signals 32 and 33 are the C library's own, no program's to reset
			if bits&^libc != 0 {
				t.Errorf("%s is %s", name, mask)
			}
		}
	}
	if seen != 2 {
		t.Errorf("the status of process %d is %q", o.Pid, status)
	}
}

func pidIsTheCommand(t *testing.T, b *bench) {
	id := b.start(driver.Task{Command: []string{"sleep", "1000"}})
	o := b.observe(id)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", o.Pid))
	if err != nil || string(line) != "sleep\x001000\x00" {
		t.Errorf("process %d is %q, %v", o.Pid, line, err)
	}
}

func logStreams(t *testing.T, b *bench) {
	id := b.script(`echo out; echo err >&2; trap 'echo more; exit 0' USR1; while :; do sleep 0.02; done`)
	b.says(id, "out\n")
	r, err := b.driver.Logs(b.Context(), id, "stdout", driver.From{})
	b.must(err)
	defer r.Close()
	first, err := io.ReadAll(r)
	if string(first) != "out\n" || err != nil {
		t.Errorf("read %q, %v", first, err)
	}
	b.must(b.driver.Signal(b.Context(), id, syscall.SIGUSR1))
	b.expectExit(b.ended(id), 0)
	more, err := io.ReadAll(r) // after EOF, the same reader goes on
	if string(more) != "more\n" || err != nil {
		t.Errorf("read %q, %v", more, err)
	}
	if log := b.log(id, "stderr"); !strings.HasPrefix(log, "err\n") {
		t.Errorf("stderr is %q", log)
	}
	b.restart()
	if log := b.log(id, "stdout"); log != "out\nmore\n" {
		t.Errorf("stdout is %q", log)
	}
}

func signalIsHandled(t *testing.T, b *bench) {
	id := b.script(`trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done`)
	b.says(id, "ready")
	b.must(b.driver.Signal(b.Context(), id, syscall.SIGTERM))
	b.expectExit(b.ended(id), 7)
	if log := b.log(id, "stdout"); log != "ready\nbye\n" {
		t.Errorf("it said %q", log)
	}
}

func graceThenKill(t *testing.T, b *bench) {
	id := b.script(`trap 'echo no' TERM; echo ready; while :; do sleep 0.02; done`)
	b.says(id, "ready")
	b.must(b.driver.Signal(b.Context(), id, syscall.SIGTERM))
	b.says(id, "no\n")
	if !b.running(id) {
		t.Error("it ended")
	}
	b.must(b.driver.Kill(b.Context(), id))
	b.expectSignal(b.ended(id), int(syscall.SIGKILL))
}

// orphans is a script that leaves a child in its own session, a double fork in another,
// and says that both are there. (A shell's background commands ignore SIGINT and SIGQUIT.)
const orphans = `
setsid sh -c 'trap "echo child got it" USR2; echo up; while :; do sleep 0.02; done' &
setsid sh -c '(trap "echo orphan got it" USR2; echo up; while :; do sleep 0.02; done) &'
`

func signalReachesTheTree(t *testing.T, b *bench) {
	id := b.script(`trap "echo main got it" USR2` + orphans + `while :; do sleep 0.02; done`)
	Eventually(t, "the tree is up", func() bool { return strings.Count(b.log(id, "stdout"), "up\n") == 2 })
	b.must(b.driver.Signal(b.Context(), id, syscall.SIGUSR2))
	for _, who := range []string{"main", "child", "orphan"} {
		b.says(id, who+" got it")
	}
	if !b.running(id) {
		t.Error("it ended")
	}
	b.must(b.driver.Kill(b.Context(), id))
	b.treeGone(id)
}

func killReachesTheTree(t *testing.T, b *bench) {
	id := b.script(orphans + `while :; do sleep 0.02; done`)
	Eventually(t, "the tree is up", func() bool { return strings.Count(b.log(id, "stdout"), "up\n") == 2 })
	b.restart()
	b.must(b.driver.Kill(b.Context(), id))
	b.expectSignal(b.observe(id), int(syscall.SIGKILL)) // Kill has waited for the end
	b.treeGone(id)
}

func endTakesTheTreeAlong(t *testing.T, b *bench) {
	id := b.script(orphans + `until [ -e go ]; do sleep 0.02; done; exit 6`)
	Eventually(t, "the tree is up", func() bool { return strings.Count(b.log(id, "stdout"), "up\n") == 2 })
	if all := b.processes(id); len(all) < 3 {
		t.Errorf("only %q can be seen of the tree", all)
	}
	o := b.observe(id)
	b.letGo(o.Pid)
	b.expectExit(b.ended(id), 6)
	b.treeGone(id)
}

// letGo makes the file go in the working folder of a process, wherever that is mounted.
func (b *bench) letGo(pid int) {
	b.Helper()
	b.must(os.WriteFile(fmt.Sprintf("/proc/%d/cwd/go", pid), nil, 0o600))
}

// treeGone: once a task has ended, or was killed, not one process of it lives.
func (b *bench) treeGone(id string) {
	b.Helper()
	if o := b.observe(id); !task.Ended(o.State) {
		b.Errorf("it is %+v", o)
	}
	if all := b.processes(id); len(all) > 0 {
		b.Errorf("left of the tree: %q", all)
	}
	b.must(b.driver.Remove(b.Context(), id))
	b.clean(id)
}

func starterKilled(t *testing.T, b *bench) {
	long := b.named(b.Work(0, 0))
	short := b.named(driver.Task{Command: []string{"sh", "-c", "until [ -e go ]; do sleep 0.02; done; exit 42"}})
	kill := b.StartElsewhere(t, long, short)
	pids := []int{b.observe(long.ID).Pid, b.observe(short.ID).Pid}
	kill()
	b.restart()
	for i, id := range []string{long.ID, short.ID} {
		if o := b.observe(id); o.State != task.Running || o.Pid != pids[i] {
			t.Fatalf("after its starter's end it is %+v, pid was %d", o, pids[i])
		}
	}
	b.letGo(pids[1])
	b.expectExit(b.ended(short.ID), 42)
	b.must(b.driver.Signal(b.Context(), long.ID, syscall.SIGTERM))
	b.expectSignal(b.ended(long.ID), int(syscall.SIGTERM))
}

func tenLeftByKilledAgent(t *testing.T, b *bench) {
	var tasks []driver.Task
	for range 10 {
		tasks = append(tasks, b.named(driver.Task{Command: []string{"sh", "-c", "setsid sleep 1000 & wait"}}))
	}
	b.StartElsewhere(t, tasks...)()
	b.restart()
	list, err := b.driver.List(b.Context())
	b.must(err)
	if len(list) != len(tasks) {
		t.Errorf("%d of %d are found again", len(list), len(tasks))
	}
	for _, o := range list {
		b.must(b.driver.Kill(b.Context(), o.ID))
		b.must(b.driver.Remove(b.Context(), o.ID))
		b.clean(o.ID)
	}
}

// limited is a script with 64 MiB.
func (b *bench) limited(script string) (id string) {
	b.Helper()
	return b.start(driver.Task{
		Command:   []string{"sh", "-c", script},
		Resources: &ohmv1.Resources{MemoryBytes: 64 << 20, CpuMilli: 500},
	})
}

// eat takes memory without end: there is no line in it that could be the last one.
const eat = "tail /dev/zero"

func mainOutOfMemory(t *testing.T, b *bench) {
	o := b.ended(b.limited("exec " + eat))
	if o.State != task.Failed || o.Cause != task.OOMKilled || !o.OOM {
		t.Errorf("ended as %+v", o)
	}
	if !strings.Contains(o.Message, "its limit is ") || !strings.Contains(o.Message, ", it used up to ") {
		t.Errorf("it says %q, without limit or peak", o.Message)
	}
}

func childOutOfMemory(t *testing.T, b *bench) {
	id := b.limited(eat + `; echo child $?; until [ -e go ]; do sleep 0.02; done; exit 3`)
	b.says(id, "child 137")
	for range 2 {
		if o := b.observe(id); o.State != task.Running || !o.OOM {
			t.Errorf("it is %+v, want it running, with OOM", o)
		}
		b.restart()
	}
	b.letGo(b.observe(id).Pid)
	o := b.ended(id)
	b.expectExit(o, 3)
	if !o.OOM {
		t.Errorf("ended as %+v, without OOM", o)
	}
}

func userKill(t *testing.T, b *bench) {
	o := b.ended(b.limited("kill -9 $$"))
	b.expectSignal(o, int(syscall.SIGKILL))
	if o.OOM {
		t.Errorf("ended as %+v, with OOM", o)
	}
}

// userKillAfterChildOutOfMemory: a kill for memory long ago does not explain this one.
func userKillAfterChildOutOfMemory(t *testing.T, b *bench) {
	o := b.ended(b.limited(eat + `; sleep 3; kill -9 $$`))
	b.expectSignal(o, int(syscall.SIGKILL))
	if !o.OOM {
		t.Errorf("ended as %+v, without OOM", o)
	}
}

func killAfterChildOutOfMemory(t *testing.T, b *bench) {
	id := b.limited(eat + `; echo child $?; while :; do sleep 0.02; done`)
	b.says(id, "child 137")
	b.must(b.driver.Kill(b.Context(), id))
	o := b.ended(id)
	b.expectSignal(o, int(syscall.SIGKILL))
	if !o.OOM {
		t.Errorf("ended as %+v, without OOM", o)
	}
}
