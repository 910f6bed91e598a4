package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestLife(t *testing.T) {
	inWorld(t, func(w *world) {
		w.m.slow = 200 * time.Millisecond // quick enough: Starting is no news
		w.start()
		hello := w.session().hello
		equal(t, "driver", hello.GetNode().GetDriver(), "fake")
		equal(t, "capabilities", hello.GetNode().GetCapabilities(), []string{"pretending"})
		equal(t, "attributes", hello.GetNode().GetAttributes(), map[string]string{"driver": "fake"})
		a := assignment("a", 1000, func(a *ohmv1.Assignment) { a.Placement.Gpus = []*ohmv1.DeviceShare{{Id: "g1", Milli: 500}} })
		w.complete(a)
		equal(t, "calls", w.m.did(), []string{"start " + a.Id})
		equal(t, "last", task.Name(w.last(a.Id).GetState()), "Running")
		equal(t, "pid", w.last(a.Id).GetPid(), 1000)
		equal(t, "alive", w.agent.Running(), 1)
		var told driver.Task
		w.m.locked(func() { told = w.m.procs[a.Id].task })
		equal(t, "command", told.Command, a.Command)
		equal(t, "env", told.Env, a.Env)
		equal(t, "cpu", told.Resources.GetCpuMilli(), 1000)
		equal(t, "gpus", told.GPUs[0].GetId(), "g1")
		w.m.exit(a.Id, 3)
		w.pass(time.Second)
		equal(t, "told", strings.Join(w.told(a.Id), ", "), "Running, Failed Exited")
		equal(t, "exit code", w.last(a.Id).GetExitCode(), 3)
		equal(t, "calls until it is released", w.m.did(), nil)
		w.incremental([]string{a.Id})
		equal(t, "calls", w.m.did(), []string{"remove " + a.Id})
		if !w.m.hasLogs(a.Id) {
			t.Error("its logs are gone")
		}
		equal(t, "alive", w.agent.Running(), 0)
	})
}

// TestSlowStart sees each state reported on its own. That a start was begun is news only if
// it takes long.
func TestSlowStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.m.slow = 3 * time.Second
		w.start()
		a := assignment("a", 1000)
		w.complete(a)
		equal(t, "told", w.told(a.Id), []string{"Starting"})
		w.pass(3 * time.Second)
		equal(t, "told", w.told(a.Id), []string{"Starting", "Running"})
	})
}

func TestStop(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause string
		do    func(w *world, id string) // while it runs, before it is to be stopped
		calls string
		want  string
	}{
		{"heeds the signal", task.Stop, nil, "signal 15", "Stopped Stopped"},
		{"drained", task.Drained, nil, "signal 15", "Stopped Drained"},
		{"preempted", task.Preempted, nil, "signal 15", "Stopped Preempted"},
		{"timed out, says the server", task.TimedOut, nil, "signal 15", "Failed TimedOut"},
		{"does not heed it", task.Stop, func(w *world, id string) { w.m.locked(func() { w.m.stubborn[id] = true }) }, "signal 15, kill", "Stopped Stopped"},
		{"had ended before", task.Stop, func(w *world, id string) { w.m.exit(id, 0) }, "", "Succeeded Exited"},
		{"had failed unseen", task.Stop, func(w *world, id string) {
			w.m.locked(func() { w.m.quiet = true })
			w.m.end(id, driver.Observation{Cause: task.OOMKilled, Signal: 9})
		}, "signal 15", "Failed OOMKilled"},
		{"the signal fails once", task.Stop, func(w *world, id string) {
			w.m.locked(func() { w.m.badSignal[id] = errors.New("no") })
			time.AfterFunc(700*time.Millisecond, func() { w.m.locked(func() { delete(w.m.badSignal, id) }) })
		}, "signal 15, signal 15", "Stopped Stopped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start()
				a := assignment("a", 1000)
				w.complete(a)
				w.m.did()
				if c.do != nil {
					c.do(w, a.Id)
					w.pass(time.Millisecond)
				}
				w.incremental(nil, assignment("a", 1000, stopFor(c.cause)))
				if strings.HasSuffix(c.calls, "kill") {
					w.pass(time.Second) // it was heard that it runs just before
					equal(t, "within the grace", task.Name(w.last(a.Id).GetState()), "Stopping")
					w.pass(8 * time.Second)
					equal(t, "within the grace", task.Name(w.last(a.Id).GetState()), "Stopping")
				}
				w.pass(10 * time.Second)
				calls := strings.ReplaceAll(strings.Join(w.m.did(), ", "), a.Id+" ", "")
				equal(t, "calls", strings.ReplaceAll(calls, " "+a.Id, ""), c.calls)
				said := w.told(a.Id)
				equal(t, "end", said[len(said)-1], c.want)
				// A wish that is taken back comes too late.
				w.incremental(nil, a)
				equal(t, "calls", w.m.did(), nil)
				equal(t, "end", task.Name(w.last(a.Id).GetState()), strings.Fields(c.want)[0])
			})
		})
	}
}

func TestStopBeforeStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a := assignment("a", 1000, stopFor(task.Drained))
		w.complete(a)
		equal(t, "told", w.told(a.Id), []string{"Stopped Drained"})
		equal(t, "calls", w.m.did(), nil)
	})
}

func TestMaxRuntime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Resync = time.Hour // its own timer wakes it
		w.start()
		a := assignment("a", 1000, maxRuntime(time.Minute))
		w.complete(a)
		w.pass(58 * time.Second)
		equal(t, "calls", w.m.did(), []string{"start " + a.Id})
		w.pass(2 * time.Second)
		equal(t, "calls", w.m.did(), []string{"signal " + a.Id + " 15"})
		said := w.told(a.Id)
		equal(t, "end", said[len(said)-1], "Failed TimedOut")
	})
}

// TestLimitPassedMeanwhile: the limit holds for a task whose agent was away.
func TestLimitPassedMeanwhile(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a := assignment("a", 1000, maxRuntime(time.Minute))
		w.complete(a)
		w.halt()
		w.pass(time.Hour)
		w.m.did()
		w.start().complete(a)
		equal(t, "calls", w.m.did(), []string{"signal " + a.Id + " 15"})
		equal(t, "end", w.last(a.Id).GetCause(), task.TimedOut)
	})
}

func TestFailedStart(t *testing.T) {
	inWorld(t, func(w *world) {
		a := assignment("a", 1000)
		w.m.noStart[a.Id] = errors.New("no such file")
		w.start()
		w.complete(a)
		w.pass(time.Minute)
		equal(t, "calls", w.m.did(), []string{"start " + a.Id})
		equal(t, "end", w.last(a.Id).GetState(), task.Failed)
		equal(t, "cause", w.last(a.Id).GetCause(), task.StartFailed)
		equal(t, "message", w.last(a.Id).GetMessage(), "no such file")
		w.halt()
		delete(w.m.noStart, a.Id)
		w.start().complete(a)
		equal(t, "calls of the next agent", w.m.did(), nil)
		equal(t, "told by it", w.told(a.Id), []string{"Failed StartFailed"})
	})
}

// TestCausesOfFailedStarts: what the driver knows of a cause stands in the attempt's end.
func TestCausesOfFailedStarts(t *testing.T) {
	for cause, err := range map[string]error{
		task.ImageNotFound: fmt.Errorf("start: %w", &driver.Failure{Cause: task.ImageNotFound, Err: errors.New("no such image")}),
		task.Refused:       fmt.Errorf("task a asks for what %w: images", driver.ErrCannot),
		task.DiskFull:      &fs.PathError{Op: "write", Path: "spec.json", Err: syscall.ENOSPC},
		task.StartFailed:   errors.New("no such program"),
	} {
		inWorld(t, func(w *world) {
			a := assignment("a", 1000)
			w.m.noStart[a.Id] = err
			w.start().complete(a)
			w.pass(time.Minute)
			equal(t, "cause", w.last(a.Id).GetCause(), cause)
			equal(t, "message", w.last(a.Id).GetMessage(), err.Error())
		})
	}
}

// TestStartDeadline: how long a start may take is said by its deadline, not by how long other
// steps may; a slow pull of an image is no failure.
func TestStartDeadline(t *testing.T) {
	inWorld(t, func(w *world) {
		a := assignment("a", 1000)
		w.config.StepTimeout, w.config.StartFor = time.Minute, 10*time.Minute
		w.m.slow = 9 * time.Minute
		w.start().complete(a)
		w.pass(8 * time.Minute)
		equal(t, "state", w.last(a.Id).GetState(), task.Starting)
		w.pass(2 * time.Minute)
		equal(t, "state", w.last(a.Id).GetState(), task.Running)
		equal(t, "calls", w.m.did(), []string{"start " + a.Id})
		w.m.locked(func() { w.m.slow = 0 })
	})
}

// TestStartLater: a start that has not failed for good is tried again under the same attempt.
func TestStartLater(t *testing.T) {
	inWorld(t, func(w *world) {
		a := assignment("a", 1000)
		w.m.noStart[a.Id] = fmt.Errorf("the daemon is away: %w", driver.ErrLater)
		w.start().complete(a)
		w.pass(10 * time.Second)
		if n := len(w.m.did()); n < 2 || n > 5 {
			t.Errorf("%d starts within 10 s", n)
		}
		if st := w.last(a.Id); task.Ended(st.GetState()) {
			t.Errorf("told %v", st)
		}
		w.m.locked(func() { delete(w.m.noStart, a.Id) })
		w.pass(time.Minute)
		equal(t, "state", w.last(a.Id).GetState(), task.Running)
	})
}

// TestAsksFirst is field cases 61 and 62: an agent does nothing before it knows what is
// desired, and ends what is not.
func TestAsksFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a, b, c := assignment("a", 1000), assignment("b", 1000), assignment("c", 1000)
		w.complete(a, b, c)
		w.halt()
		w.m.stubborn[c.Id] = true
		w.m.put(driver.Task{ID: "nobody.knows.this.0.task"})
		w.m.exit(b.Id, 0) // while no agent is there
		w.m.did()
		w.away = true
		w.start()
		w.pass(time.Minute)
		equal(t, "calls while nothing is known", w.m.did(), nil)
		w.locked(func() { w.away = false })
		w.pass(10 * time.Second)
		equal(t, "calls before Complete", w.m.did(), nil)
		w.complete(a)
		w.pass(10 * time.Second)
		equal(t, "left", w.m.knows(), []string{a.Id})
		for _, call := range w.m.did() {
			if strings.Contains(call, a.Id) || strings.HasPrefix(call, "start") {
				t.Errorf("did %q", call)
			}
		}
		equal(t, "told", w.told(a.Id), []string{"Running"})
	})
}

// TestNeverAgain is field cases 46 and 62: what ran is not run again, also if the machine
// has lost every trace of it.
func TestNeverAgain(t *testing.T) {
	for _, lost := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.start()
			done, runs, failed := assignment("done", 100), assignment("runs", 100), assignment("failed", 100)
			w.complete(done, runs, failed)
			w.m.exit(done.Id, 0)
			w.m.exit(failed.Id, 7)
			w.pass(time.Second)
			w.halt()
			w.m.did()
			if lost {
				clear(w.m.procs)
			}
			w.start().complete(done, runs, failed)
			w.pass(time.Minute)
			equal(t, "calls", w.m.did(), nil)
			equal(t, "done", w.last(done.Id).GetState(), task.Succeeded)
			equal(t, "failed", w.last(failed.Id).GetExitCode(), 7)
			if lost {
				equal(t, "what ran", w.last(runs.Id).GetCause(), task.UnknownExit)
			} else {
				equal(t, "what runs", w.last(runs.Id).GetState(), task.Running)
			}
		})
	}
}

// TestTornJournal is field case 66: without its journal the agent learns all from the machine.
func TestTornJournal(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		done, runs, stops := assignment("done", 100), assignment("runs", 100), assignment("stops", 100)
		w.complete(done, runs, stops)
		w.m.exit(done.Id, 0)
		w.incremental(nil, assignment("stops", 100, stopFor(task.Drained)))
		w.halt()
		path := filepath.Join(w.config.Dir, "journal")
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, len(data)), 0o600); err != nil {
			t.Fatal(err)
		}
		w.m.did()
		w.start().complete(done, runs, assignment("stops", 100, stopFor(task.Drained)))
		equal(t, "calls", w.m.did(), nil)
		equal(t, "done", w.told(done.Id), []string{"Succeeded Exited"})
		equal(t, "runs", w.told(runs.Id), []string{"Running"})
		equal(t, "stopped", w.told(stops.Id), []string{"Stopped Drained"})
		if _, err := os.Stat(path + ".damaged"); err != nil {
			t.Error(err)
		}
	})
}

// TestBlind: a task that cannot be observed is left alone, and hides no other.
func TestBlind(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a, b := assignment("a", 1000), assignment("b", 1000)
		w.complete(a)
		w.m.did()
		w.m.locked(func() { w.m.unseen[a.Id] = errors.New("broken") })
		w.m.locked(func() { w.m.unseen[b.Id] = errors.New("broken, too") })
		w.pass(time.Minute)
		w.incremental([]string{a.Id}, b, assignment("c", 1000), assignment("d", 4000))
		w.pass(time.Minute)
		equal(t, "calls", w.m.did(), []string{"start " + assignment("c", 0).Id})
		w.m.locked(func() { clear(w.m.unseen) })
		w.pass(time.Minute)
		equal(t, "left", w.m.knows(), []string{b.Id, assignment("c", 0).Id})
	})
}

// TestShutdown: the agent's end leaves the tasks and loses no start that was under way.
func TestShutdown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a, b := assignment("a", 1000), assignment("b", 1000)
		w.complete(a)
		w.m.locked(func() { w.m.slow = 10 * time.Second })
		w.incremental(nil, b)
		w.halt()
		equal(t, "calls", w.m.did(), []string{"start " + a.Id, "start " + b.Id})
		equal(t, "left", w.m.knows(), []string{a.Id, b.Id})
		w.m.procs = map[string]*proc{} // only the journal tells
		w.start().complete(a, b)
		equal(t, "calls", w.m.did(), nil)
		equal(t, "told", w.told(b.Id), []string{"Failed UnknownExit"})
	})
}

// TestHintDuringStep: a task that ends while the step that started it is not over is
// noticed at once.
func TestHintDuringStep(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Resync = time.Hour
		w.m.looked = func(id string) {
			if o, _ := w.m.find(id); o.State == task.Running {
				w.m.exit(id, 0)
				pause(w.t.Context(), time.Millisecond) // the hint is there before the step's result
			}
		}
		w.start()
		var all []*ohmv1.Assignment
		for i := range 50 {
			all = append(all, assignment(fmt.Sprintf("j%d", i), 10))
		}
		w.complete(all...)
		for _, a := range all {
			equal(t, a.Id, task.Name(w.last(a.Id).GetState()), "Succeeded")
		}
	})
}

func TestStepsAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.m.slow = time.Second
		w.config.Steps = 3
		w.start()
		var all []*ohmv1.Assignment
		for _, c := range "abcdefghij" {
			all = append(all, assignment(string(c), 100))
		}
		w.complete(all...)
		w.pass(5 * time.Second)
		_, most := w.m.peaks()
		equal(t, "starts at the same time", most, 3)
		equal(t, "started", len(w.m.knows()), 10)
	})
}

// TestStopWaitsForItsTurn: a signal that could not be sent at once is sent later, not
// taken as sent.
func TestStopWaitsForItsTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Steps = 1
		w.start()
		a := assignment("a", 100)
		w.complete(a)
		w.m.locked(func() { w.m.slow = 5 * time.Second })
		w.m.did()
		b := assignment("b", 100)
		w.incremental(nil, b)
		w.incremental(nil, assignment("a", 100, stopFor(task.Stop)))
		w.pass(6 * time.Second)
		equal(t, "calls", w.m.did(), []string{"start " + b.Id, "signal " + a.Id + " 15"})
	})
}

// TestEndIsRepeated: an end that is not released is told again in time (A5), also where
// the whole machine is looked at less often than that.
func TestEndIsRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Resync, w.config.Repeat = time.Hour, 30*time.Second
		w.start()
		a := assignment("a", 1000)
		w.complete(a)
		w.m.exit(a.Id, 0)
		w.pass(time.Second)
		equal(t, "told", w.told(a.Id), []string{"Running", "Succeeded Exited"})
		w.pass(31 * time.Second)
		equal(t, "told", w.told(a.Id), []string{"Running", "Succeeded Exited", "Succeeded Exited"})
	})
}

// TestForward: the server never hears that a task went back.
func TestForward(t *testing.T) {
	l := newLoop(New(Config{Node: &ohmv1.Node{Name: "n"}, Driver: newMachine()}), nil)
	e, now := l.entry("a"), time.Now()
	p := assignment("a", 100).GetPlacement()
	for _, s := range []task.State{task.Starting, task.Running, task.Starting, task.Running} {
		l.report(e, statusOf(p, s), now)
	}
	equal(t, "reported", task.Name(e.reported.GetState()), "Running")
	equal(t, "messages", len(l.outbox.take(9)), 1)
	l.report(e, statusOf(p, task.Starting), now)
	equal(t, "messages", len(l.outbox.take(9)), 0)
}

func TestNoFolder(t *testing.T) {
	a := New(Config{Node: &ohmv1.Node{Name: "n"}, Driver: newMachine(), Dir: filepath.Join(t.TempDir(), "missing")})
	if err := a.Run(t.Context()); err == nil {
		t.Error("an agent runs without its folder")
	}
}

func TestNoJournal(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Dir = ""
		w.start()
		a := assignment("a", 1000)
		w.complete(a)
		equal(t, "told without a journal", task.Name(w.last(a.Id).GetState()), "Running")
	})
}
