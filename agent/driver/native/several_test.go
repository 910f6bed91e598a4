//go:build linux

package native

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/pkg/task"
)

// startSeveral starts a sidecar and an init container, each with a child in a session of its
// own, and waits until both are up; with onward, until the main container is, instead of the
// init container.
func (p *place) startSeveral(t *testing.T, id string, onward bool) state {
	t.Helper()
	env := map[string]string{drivertest.MarkEnv: marked(id)}
	tree := []string{"sh", "-c", "setsid sleep 1000 & echo up; while :; do sleep 0.05; done"}
	first := tree
	if onward {
		first = []string{"true"}
	}
	w := driver.Task{ID: id, Containers: []driver.Container{
		{Name: "beside", Role: driver.Sidecar, Command: tree, Env: env},
		{Name: "first", Role: driver.Init, Command: first, Env: env},
		{Name: "app", Command: tree, Env: env},
	}}
	if err := p.Start(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	drivertest.Eventually(t, "two containers are up", func() bool { return strings.Count(p.read(t, id, "stdout"), "up\n") == 2 })
	var st state
	drivertest.Eventually(t, "that is written down", func() bool {
		st = p.state(t, id)
		return len(st.Before) == 2 && (st.Command.Pid != 0) == onward
	})
	return st
}

// TestSeveralKilled: whichever of the processes between agent and commands is killed, and
// whenever, nothing of the task is left once it has ended, no container starts that should not,
// and an end that nobody has seen is told as such.
func TestSeveralKilled(t *testing.T) {
	initOf := func(name string) func(state) []proc.Process {
		return func(st state) []proc.Process {
			i := slices.IndexFunc(st.Before, func(m member) bool { return m.Name == name })
			return []proc.Process{st.Before[i].Init}
		}
	}
	all := func(st state) []proc.Process { return append(st.inits(), st.Shim) }
	for name, c := range map[string]struct {
		onward bool
		kill   func(state) []proc.Process
		ends   bool
	}{
		"the shim, while an init container runs":         {false, func(st state) []proc.Process { return []proc.Process{st.Shim} }, true},
		"the init container's init":                      {false, initOf("first"), true},
		"a sidecar's init, while an init container runs": {false, initOf("beside"), false},
		"the shim":            {true, func(st state) []proc.Process { return []proc.Process{st.Shim} }, true},
		"the main init":       {true, func(st state) []proc.Process { return []proc.Process{st.Init} }, true},
		"a sidecar's init":    {true, initOf("beside"), false},
		"all at once":         {true, all, true},
		"all at once, before": {false, all, true},
	} {
		t.Run(name, func(t *testing.T) {
			eachVariant(t, func(t *testing.T, p *place) {
				if strings.HasPrefix(name, "all") && !slices.Contains(p.Capabilities(), driver.CanKill) {
					return // nothing is there to know the rest by
				}
				st := p.startSeveral(t, "one", c.onward)
				doomed := c.kill(st)
				if len(doomed) > 1 { // the shim must not see the ends of the others
					if err := st.Shim.Signal(syscall.SIGSTOP); err != nil {
						t.Fatal(err)
					}
				}
				for _, q := range doomed {
					if err := q.Signal(unix.SIGKILL); err != nil && err != proc.ErrGone { // one may have ended before
						t.Fatal(err)
					}
				}
				if !c.ends {
					drivertest.Eventually(t, "it is gone", func() bool { return !doomed[0].Lives() })
					want := task.Starting
					if c.onward {
						want = task.Running
					}
					if o := must2(p.Observe(t.Context(), "one"))(t); o.State != want {
						t.Errorf("it is %+v", o)
					}
					if err := p.Kill(t.Context(), "one"); err != nil {
						t.Error(err)
					}
					p.over(t, "one", task.Signalled)
				} else {
					drivertest.Eventually(t, "it has ended", func() bool {
						o, _, err := p.Observe(t.Context(), "one")
						return err == nil && task.Ended(o.State)
					})
					p.over(t, "one", task.UnknownExit)
				}
				if p.v == bare { // one that was being forked
					gone(t, "one")
				}
				if left := drivertest.Marked(marked("one")); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				if n := strings.Count(p.read(t, "one", "stdout"), "up\n"); n != 2 {
					t.Errorf("%d containers came up", n)
				}
			})
		})
	}
}
