package drivertest

import (
	"strings"
	"testing"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// container of a task, in the suite's image, marked.
func (b *bench) container(name string, role driver.Role, script string) driver.Container {
	return driver.Container{Name: name, Role: role, Command: []string{"sh", "-c", script}, Box: driver.Box{Image: b.Image}}
}

// several starts a task of these containers.
func (b *bench) several(containers ...driver.Container) (id string) {
	b.Helper()
	t := b.named(driver.Task{})
	for i := range containers {
		containers[i].Env = t.Env
	}
	t.Env, t.Box, t.Containers = nil, driver.Box{}, containers
	b.must(b.driver.Start(b.Context(), t))
	return t.ID
}

// reaches waits like says, and looks at the task meanwhile, as an agent does: by that some
// drivers go on to the next container.
func (b *bench) reaches(id, text string) {
	b.Helper()
	Eventually(b.T, id+" says "+text, func() bool {
		b.observe(id)
		return strings.Contains(b.log(id, "stdout"), text)
	})
}

func containersInOrder(t *testing.T, b *bench) {
	id := b.several(
		b.container("first", driver.Init, "sleep 0.3; echo first >>$HOME/order; echo first"),
		b.container("second", driver.Init, "echo second >>$HOME/order; echo second; until [ -e $HOME/go ]; do sleep 0.02; done"),
		b.container("beside", driver.Sidecar, "echo beside >>$HOME/order; echo beside"+stay),
		b.container("main", driver.Main, "until grep -q beside $HOME/order; do sleep 0.02; done; cat $HOME/order; exit 7"),
	)
	b.reaches(id, "second")
	b.restart()
	if o := b.observe(id); task.Ended(o.State) || o.Pid != 0 {
		t.Errorf("while an init container runs it is %+v", o)
	}
	for _, p := range b.processes(id) { // of the second: it waits
		b.letGo(leading(p))
		break
	}
	b.expectExit(b.ended(id), 7)
	if out := b.log(id, "stdout"); !strings.HasSuffix(out, "first\nsecond\nbeside\n") {
		t.Errorf("it said %q", out)
	}
	b.treeGone(id)
}

func initFails(t *testing.T, b *bench) {
	id := b.several(
		b.container("bad", driver.Init, "exit 3"),
		b.container("main", driver.Main, "echo ran"),
	)
	o := b.ended(id)
	b.expectExit(o, 3)
	if !strings.Contains(o.Message, "bad") || b.log(id, "stdout") != "" {
		t.Errorf("ended as %+v, having said %q", o, b.log(id, "stdout"))
	}
	b.treeGone(id)
}

func sidecarGoesWithMain(t *testing.T, b *bench) {
	id := b.several(
		b.container("short", driver.Sidecar, "echo short; exit 5"),
		b.container("beside", driver.Sidecar, "trap '' TERM; echo up"+stay),
		b.container("main", driver.Main, "until [ -e go ]; do sleep 0.02; done; exit 0"),
	)
	b.reaches(id, "up")
	b.reaches(id, "short")
	o := b.observe(id)
	if o.State != task.Running {
		t.Fatalf("it is %+v", o)
	}
	b.letGo(o.Pid)
	b.expectExit(b.ended(id), 0)
	b.treeGone(id)

	killed := b.several(b.container("beside", driver.Sidecar, stay[2:]), b.container("main", driver.Main, stay[2:]))
	b.must(b.driver.Kill(b.Context(), killed))
	b.expectSignal(b.observe(killed), 9)
	b.treeGone(killed)
}
