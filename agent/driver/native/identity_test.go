//go:build linux

package native

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/pkg/task"
)

// place is a driver of a variant with one task that is seen to at the end.
type place struct {
	*Driver
	dir string
	v   variant
}

func newPlace(t *testing.T, v variant) *place {
	t.Helper()
	dir := t.TempDir()
	d, err := v.driver(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // also of what a case has broken
		for _, id := range must(folder.IDs(d.tasks))(t) {
			st, _ := folder.Read[state](filepath.Join(d.folder(id), stateFile))
			_ = st.Shim.Signal(syscall.SIGKILL)
			_ = st.Init.Signal(syscall.SIGKILL)
			drivertest.Eventually(t, id+" can be removed", func() bool { return d.Remove(context.Background(), id) == nil })
		}
		if left := leftovers(d, "*"); len(left) > 0 {
			t.Errorf("left on the machine: %q", left)
		}
	})
	return &place{d, dir, v}
}

// must gives the value or ends the test.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// needs names the test and what this machine does not allow whoever runs it.
func (p *place) needs(t *testing.T, ability string) {
	t.Helper()
	if !slices.Contains(p.Capabilities(), ability) {
		t.Skipf("%s: there is no %s for this user on this machine", t.Name(), ability)
	}
}

func (p *place) start(t *testing.T, id string, command ...string) state {
	t.Helper()
	w := driver.Task{ID: id, Command: command, Env: map[string]string{drivertest.MarkEnv: marked(id)}}
	if err := p.Start(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return p.state(t, id)
}

func (p *place) state(t *testing.T, id string) state {
	t.Helper()
	return must(folder.Read[state](filepath.Join(p.folder(id), stateFile)))(t)
}

// over checks that the task has ended with the cause, for a driver that is new to it too.
func (p *place) over(t *testing.T, id, cause string) driver.Observation {
	t.Helper()
	o, ok, err := p.Observe(t.Context(), id)
	if !ok || err != nil || o.State != task.Failed || o.Cause != cause {
		t.Errorf("observed %+v, known %v, %v; want %s", o, ok, err, cause)
	}
	again, ok, err := must(p.v.driver(p.dir))(t).Observe(t.Context(), id)
	if again != o || !ok || err != nil {
		t.Errorf("a new driver observed %+v, %v, %v; want %+v", again, ok, err, o)
	}
	return o
}

// marked tells the processes of this run's tasks from those of another one's.
func marked(id string) string { return fmt.Sprintf("%s-%d", id, os.Getpid()) }

// decoy is a process that nobody may touch.
func decoy(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return cmd
}

// laterDecoy is a decoy that did not start within the same tick of the clock as one of
// the others: pid and start time together would else be the same, as they never are when
// a pid is used again.
func laterDecoy(t *testing.T, others ...proc.Process) *exec.Cmd {
	t.Helper()
	for {
		cmd := decoy(t)
		s, err := proc.ReadStat(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(others, func(o proc.Process) bool { return o.Start == s.Start }) {
			return cmd
		}
	}
}

// attack does to a task all that a driver can do.
func (p *place) attack(t *testing.T, id string) {
	t.Helper()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := p.Signal(t.Context(), id, sig); err != nil {
			t.Errorf("signal: %v", err)
		}
	}
	if err := p.Kill(t.Context(), id); err != nil {
		t.Errorf("kill: %v", err)
	}
}

func untouched(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	s, err := proc.ReadStat(cmd.Process.Pid)
	if err != nil || s.State == 'Z' || s.State == 'T' {
		t.Errorf("the decoy was touched: %+v, %v", s, err)
	}
}

// gone waits until no process of the task lives.
func gone(t *testing.T, id string) {
	t.Helper()
	drivertest.Eventually(t, "no process of "+id+" lives", func() bool { return len(drivertest.Marked(marked(id))) == 0 })
}

func eachVariant(t *testing.T, f func(t *testing.T, p *place)) {
	for _, v := range []variant{whole, plain, bare, legacy} {
		t.Run(string(v), func(t *testing.T) { f(t, newPlace(t, v)) })
	}
}

// TestCase60DecoyWithTheSamePid: the pids that are written down belong to somebody else now.
func TestCase60DecoyWithTheSamePid(t *testing.T) {
	t.Run("written", func(t *testing.T) {
		eachVariant(t, func(t *testing.T, p *place) {
			st := p.start(t, "one", "sleep", "1000")
			if err := st.Shim.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			gone(t, "one")
			innocent := laterDecoy(t, st.Shim, st.Init, st.Command)
			st.Shim.Pid, st.Init.Pid, st.Command.Pid = innocent.Process.Pid, innocent.Process.Pid, innocent.Process.Pid
			if err := folder.Write(filepath.Join(p.folder("one"), stateFile), st); err != nil {
				t.Fatal(err)
			}
			p.attack(t, "one")
			p.over(t, "one", task.UnknownExit)
			p.attack(t, "one")
			if err := p.Remove(t.Context(), "one"); err != nil {
				t.Error(err)
			}
			untouched(t, innocent)
		})
	})
	t.Run("written while it runs", func(t *testing.T) {
		p := newPlace(t, whole)
		p.needs(t, "cgroup-kill") // else only the pids that are written down lead to the task
		st := p.start(t, "one", "sleep", "1000")
		innocent := laterDecoy(t, st.Init, st.Command)
		forged := st
		forged.Init.Pid, forged.Command.Pid = innocent.Process.Pid, innocent.Process.Pid
		if err := folder.Write(filepath.Join(p.folder("one"), stateFile), forged); err != nil {
			t.Fatal(err)
		}
		p.attack(t, "one")
		p.over(t, "one", task.Signalled)
		untouched(t, innocent)
	})
	t.Run("used again", func(t *testing.T) {
		p := newPlace(t, whole)
		work := driver.Task{ID: "one", Command: []string{"sleep", "1000"}, Env: map[string]string{drivertest.MarkEnv: marked("one")}}
		drivertest.StartElsewhere(t, []driver.Task{work}, p.dir, string(p.v))()
		st := p.state(t, "one")
		if err := st.Shim.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone(t, "one")
		innocent := decoyAt(t, st.Command.Pid)
		p.over(t, "one", task.UnknownExit)
		p.attack(t, "one")
		if err := p.Remove(t.Context(), "one"); err != nil {
			t.Error(err)
		}
		untouched(t, innocent)
	})
}

// decoyAt makes the decoy have that pid, by saying which one was given out last. Where
// that is not allowed it is a decoy with any pid.
func decoyAt(t *testing.T, pid int) *exec.Cmd {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 1000 { // others take pids, too
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Logf("a pid cannot be chosen here: %v", err)
			return decoy(t)
		}
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == pid {
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // killed
			})
			return cmd
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}
	t.Fatalf("pid %d was not given out in 1000 tries", pid)
	return nil
}

// TestReboot: after a restart of the node its pids mean nothing at all.
func TestReboot(t *testing.T) {
	p := newPlace(t, whole)
	st := p.start(t, "one", "sleep", "1000")
	if err := st.Shim.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, "one")
	innocent := decoy(t)
	same := must(proc.ReadStat(innocent.Process.Pid))(t).Process // even the start time is the same
	st.Boot, st.Shim, st.Init, st.Command = "another", same, same, same
	if err := folder.Write(filepath.Join(p.folder("one"), stateFile), st); err != nil {
		t.Fatal(err)
	}
	p.attack(t, "one")
	if o := p.over(t, "one", task.UnknownExit); !strings.Contains(o.Message, "restarted") {
		t.Errorf("observed %+v", o)
	}
	untouched(t, innocent)
}

// familyTree is a script that leaves the command's session, and the command itself stays.
const familyTree = `setsid sh -c '(sleep 1000 &)' & setsid sleep 1000 & echo up; wait; sleep 1000`

func (p *place) startTree(t *testing.T, id string) state {
	t.Helper()
	st := p.start(t, id, "sh", "-c", familyTree)
	drivertest.Eventually(t, "the tree is up", func() bool { return len(drivertest.Marked(marked(id))) >= 3 })
	return st
}

// TestShimKilled: a task whose shim is gone ends, whole, and nobody knows how.
func TestShimKilled(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *place) {
		st := p.startTree(t, "one")
		if err := st.Shim.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone(t, "one")
		p.over(t, "one", task.UnknownExit)
	})
}

// TestInitKilled: the shim ends what a killed init leaves.
func TestInitKilled(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *place) {
		st := p.startTree(t, "one")
		if err := st.Init.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		drivertest.Eventually(t, "it has ended", func() bool {
			o, _, err := p.Observe(t.Context(), "one")
			return err == nil && task.Ended(o.State)
		})
		if left := drivertest.Marked(marked("one")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		p.over(t, "one", task.UnknownExit) // nobody has seen how the command ended
	})
}

// TestBothKilled: the next look at a task that lost shim and init at once ends the rest of
// it, where there is a cgroup to know it by.
func TestBothKilled(t *testing.T) {
	for _, v := range []variant{whole, plain, legacy} {
		t.Run(string(v), func(t *testing.T) {
			p := newPlace(t, v)
			p.needs(t, "cgroup-kill")
			st := p.startTree(t, "one")
			shim, err := st.Shim.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(shim)
			// The shim must not see the init's end.
			if err := unix.PidfdSendSignal(shim, syscall.SIGSTOP, nil, 0); err != nil {
				t.Fatal(err)
			}
			for _, q := range []proc.Process{st.Init, st.Shim} {
				if err := q.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			drivertest.Eventually(t, "the shim is gone", func() bool { return !st.Shim.Lives() })
			p.over(t, "one", task.UnknownExit)
			if left := drivertest.Marked(marked("one")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestKillOfTheStopped: init and shim are stopped and do not help.
func TestKillOfTheStopped(t *testing.T) {
	p := newPlace(t, plain)
	st := p.startTree(t, "one")
	for _, q := range []proc.Process{st.Shim, st.Init, st.Command} {
		if err := q.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	if err := p.Kill(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if left := drivertest.Marked(marked("one")); len(left) > 0 {
		t.Errorf("left after %v: %q", time.Since(begin), left)
	}
	p.over(t, "one", task.UnknownExit)
}

// TestStartCutShort: a start whose agent was killed goes on where there was no shim yet; of
// what may have run nothing is started again.
func TestStartCutShort(t *testing.T) {
	work := driver.Task{ID: "one", Command: []string{"sleep", "1000"}}
	t.Run("before the shim", func(t *testing.T) {
		p := newPlace(t, whole)
		must(p.claim(work))(t).Close()
		if o, ok, err := p.Observe(t.Context(), "one"); o.State != task.Assigned || !ok || err != nil {
			t.Errorf("observed %+v, %v, %v", o, ok, err)
		}
		if err := p.Start(t.Context(), work); err != nil {
			t.Error(err)
		}
		if o, ok, err := p.Observe(t.Context(), "one"); o.State != task.Running || !ok || err != nil {
			t.Errorf("observed %+v, %v, %v", o, ok, err)
		}
	})
	t.Run("before the shim, and not wanted any more", func(t *testing.T) {
		p := newPlace(t, whole)
		must(p.claim(work))(t).Close()
		for _, step := range []func() error{
			func() error { return p.Kill(t.Context(), "one") },
			func() error { return p.Start(t.Context(), work) },
		} {
			if err := step(); err != nil {
				t.Error(err)
			}
			p.over(t, "one", task.StartFailed)
		}
		must(p.claim(driver.Task{ID: "two", Command: work.Command}))(t).Close()
		if err := p.Remove(t.Context(), "two"); err != nil || folder.Exists(p.folder("two")) {
			t.Errorf("removed: %v, its folder is there: %v", err, folder.Exists(p.folder("two")))
		}
	})
	t.Run("before the command", func(t *testing.T) {
		p := newPlace(t, whole)
		must(p.claim(work))(t).Close()
		if err := folder.Write(filepath.Join(p.folder("one"), stateFile), state{Boot: p.boot, Shim: proc.Process{Pid: 1, Start: 1}}); err != nil {
			t.Fatal(err)
		}
		p.over(t, "one", task.UnknownExit)
	})
	t.Run("while it is claimed", func(t *testing.T) {
		p := newPlace(t, whole)
		held := must(p.claim(work))(t)
		defer held.Close()
		o, ok, err := must(p.v.driver(p.dir))(t).Observe(t.Context(), "one")
		if o.State != task.Starting || !ok || err != nil {
			t.Errorf("observed %+v, %v, %v", o, ok, err)
		}
		if err := p.Signal(t.Context(), "one", syscall.SIGTERM); err == nil {
			t.Error("a signal to a task that has no process yet got lost")
		}
	})
	t.Run("before the claim", func(t *testing.T) {
		p := newPlace(t, whole)
		old := filepath.Join(p.tasks, folder.DraftPrefix+"old")
		held := filepath.Join(p.tasks, folder.DraftPrefix+"held")
		for _, dir := range []string{old, held} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		lock := must2(folder.Lock(held, unix.LOCK_EX))(t)
		d := must(p.v.driver(p.dir))(t)
		if folder.Exists(old) || !folder.Exists(held) {
			t.Errorf("old is there: %v, held is there: %v", folder.Exists(old), folder.Exists(held))
		}
		lock.Close()
		must(d.List(t.Context()))(t)
		if folder.Exists(held) {
			t.Error("a draft that nobody holds is left")
		}
	})
}

func must2[T any](v T, _ bool, err error) func(t *testing.T) T { return must(v, err) }

// TestNoShim: the program that is to be the shim cannot be run, or is no shim.
func TestNoShim(t *testing.T) {
	for _, program := range []string{"/no/such/program", "/bin/false", "/bin/true"} {
		p := newPlace(t, bare)
		p.executable = program
		if err := p.Start(t.Context(), driver.Task{ID: "one", Command: []string{"true"}}); err == nil {
			t.Errorf("%s was good enough for a shim", program)
		}
		p.over(t, "one", task.StartFailed)
	}
}

// TestProgramWithoutMain: a shim that makes a driver would make another shim, and so on.
func TestProgramWithoutMain(t *testing.T) {
	t.Setenv(reexecuted, "1")
	if d, err := New(Config{Dir: t.TempDir()}); err == nil {
		t.Errorf("made %v", d)
	}
}
