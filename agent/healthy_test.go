package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// checked is a machine on which the commands "ready" and "live" have the exit codes that
// the test says; a negative one hangs.
type checked struct {
	*machine
	codes map[string]int
	execs int
}

func (c *checked) Exec(ctx context.Context, id string, e driver.Exec) (int, error) {
	c.mu.Lock()
	code, p := c.codes[e.Command[0]], c.procs[id]
	c.execs++
	c.mu.Unlock()
	if p == nil || task.Ended(p.State) {
		return 0, driver.ErrNotRunning
	}
	if code < 0 {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return code, nil
}

func (c *checked) set(command string, code int) { c.locked(func() { c.codes[command] = code }) }

func withHealth(a *ohmv1.Assignment) {
	check := func(command string) *ohmv1.Check {
		return &ohmv1.Check{
			Exec: &ohmv1.ExecCheck{Command: []string{command}}, StartPeriod: durationpb.New(5 * time.Second),
			Interval: durationpb.New(time.Second), Timeout: durationpb.New(500 * time.Millisecond), Failures: 3,
		}
	}
	a.Health = &ohmv1.Health{Ready: check("ready"), Live: check("live")}
}

// readied is what the newest session was told of a task's readiness.
func (w *world) readied(id string) (told []string) {
	x := w.session()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range x.statuses {
		if taskID(s) == id {
			told = append(told, fmt.Sprint(task.Name(s.GetState()), " ", s.GetReady()))
		}
	}
	return told
}

func TestReadiness(t *testing.T) {
	inWorld(t, func(w *world) {
		c := &checked{w.m, map[string]int{"ready": 1}, 0}
		w.config.Driver = c
		w.start()
		a := assignment("a", 100, withHealth)
		w.complete(a)
		w.pass(20 * time.Second)
		equal(t, "told", w.readied(a.Id), []string{"Running false"})
		c.set("ready", 0)
		w.pass(2 * time.Second)
		c.set("ready", -1) // it hangs
		w.pass(time.Minute)
		equal(t, "told", w.readied(a.Id), []string{"Running false", "Running true", "Running false"})
		equal(t, "message", w.last(a.Id).GetMessage(), "not ready: running ready: no answer in time")
		c.set("ready", 0)
		w.pass(time.Minute)
		equal(t, "told", len(w.readied(a.Id)), 4) // nothing is said again
		equal(t, "calls", w.m.did(), []string{"start " + a.Id})
		w.complete() // it is not desired any more: nobody probes it
		w.pass(time.Minute)
		before := c.execs
		w.pass(time.Minute)
		equal(t, "probes of what is gone", c.execs-before, 0)
	})
}

func TestLiveness(t *testing.T) {
	inWorld(t, func(w *world) {
		c := &checked{w.m, map[string]int{"live": 1}, 0}
		w.config.Driver = c
		w.start()
		a := assignment("a", 100, withHealth)
		w.complete(a)
		w.pass(4 * time.Second)
		equal(t, "in its start period", task.Name(w.last(a.Id).GetState()), "Running")
		w.pass(10 * time.Second)
		last := w.last(a.Id)
		equal(t, "end", task.Name(last.GetState())+" "+last.GetCause(), "Failed Unhealthy")
		equal(t, "message", last.GetMessage(), "not live: live exited with code 1")
		equal(t, "calls", w.m.did(), []string{"start " + a.Id, "signal " + a.Id + " 15"})
	})
}

// A running task is not unready because the agent was restarted, whether the journal is
// still there or not, and whether its first probes are good or not.
func TestReadinessSurvivesTheAgent(t *testing.T) {
	for _, journal := range []bool{true, false} {
		for name, change := range map[string]func(c *checked){
			"all is well":    func(*checked) {},
			"one is bad":     func(c *checked) { c.set("ready", 1) },
			"live is a blip": func(c *checked) { c.set("live", 1) },
		} {
			inWorld(t, func(w *world) {
				c := &checked{w.m, map[string]int{}, 0}
				w.config.Driver = c
				w.start()
				a := assignment("a", 100, withHealth)
				w.complete(a)
				w.pass(10 * time.Second)
				equal(t, "before", w.readied(a.Id)[len(w.readied(a.Id))-1], "Running true")
				w.halt()
				if !journal {
					files, err := filepath.Glob(filepath.Join(w.config.Dir, "journal*"))
					if err != nil || len(files) == 0 {
						t.Fatalf("no journal: %v", err)
					}
					for _, f := range files {
						if err := errors.Join(os.RemoveAll(f)); err != nil {
							t.Fatal(err)
						}
					}
				}
				change(c)
				w.start()
				w.complete(a)
				w.pass(1200 * time.Millisecond)
				c.set("ready", 0)
				c.set("live", 0)
				w.pass(20 * time.Second)
				for _, said := range w.readied(a.Id) {
					equal(t, fmt.Sprint(name, ", journal ", journal), said, "Running true")
				}
				equal(t, "last", w.last(a.Id).GetReady(), true)
				equal(t, "calls", w.m.did(), []string{"start " + a.Id})
			})
		}
	}
}

// dialed is a machine whose tasks have networks of their own: their ports are reached by
// Dial alone.
type dialed struct {
	*machine
	ports chan int32
}

func (d dialed) Dial(_ context.Context, _ string, port int32) (net.Conn, error) {
	select {
	case d.ports <- port:
	default:
	}
	here, there := net.Pipe()
	return here, there.Close()
}

// A task with a network of its own is told so to the driver, with the ports that it is
// reached at, and probed inside.
func TestOwnNetwork(t *testing.T) {
	inWorld(t, func(w *world) {
		d := dialed{w.m, make(chan int32, 100)}
		w.config.Driver = d
		w.start()
		a := assignment("a", 100, withHealth, func(a *ohmv1.Assignment) {
			a.Network, a.Placement.Ports = "own", []*ohmv1.Port{{Name: "http", Number: 20017}}
			a.Health.Ready.Exec, a.Health.Live = nil, nil
			a.Health.Ready.Tcp = &ohmv1.TCPCheck{Port: "http"}
		})
		w.complete(a)
		w.pass(3 * time.Second)
		equal(t, "told", w.readied(a.Id)[len(w.readied(a.Id))-1], "Running true")
		equal(t, "port", <-d.ports, int32(20017))
		var told driver.Task
		w.m.locked(func() { told = w.m.procs[a.Id].task })
		equal(t, "own network", told.OwnNetwork && told.Probed, true)
		equal(t, "published", told.Publish, []int32{20017})
	})
}
