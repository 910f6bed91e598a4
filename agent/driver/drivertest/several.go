package drivertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// container of a task, in the suite's image, marked.
func (b *bench) container(name string, role driver.Role, script string) driver.Container {
	return driver.Container{Name: name, Role: role, Command: []string{"sh", "-c", script}, Box: driver.Box{Image: b.Image}}
}

// of is a task of these containers, named.
func (b *bench) of(containers ...driver.Container) driver.Task {
	t := b.named(driver.Task{})
	for i := range containers {
		containers[i].Env = t.Env
	}
	t.Env, t.Box, t.Containers = nil, driver.Box{}, containers
	return t
}

// several starts a task of these containers.
func (b *bench) several(containers ...driver.Container) (id string) {
	b.Helper()
	t := b.of(containers...)
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
	Eventually(t, "it says how far it is", func() bool { return b.observe(id).Message == driver.AtMessage("second") })
	if o := b.observe(id); o.State != task.Starting || o.Pid != 0 {
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

// containersApart: each container has a root of its own, and all have one scratch folder and
// the task's limits.
func containersApart(t *testing.T, b *bench) {
	image := imageOf(t, Image{})
	script := func(name string) string {
		return fmt.Sprintf("ls /mark-* 2>/dev/null; echo x >/mark-%s; echo %s >>$HOME/order; echo at $HOME", name, name)
	}
	first := b.container("first", driver.Init, script("first"))
	beside := b.container("beside", driver.Sidecar, script("beside")+"; echo beside is up"+stay)
	main := b.container("main", driver.Main, script("main")+`; until grep -q beside $HOME/order; do sleep 0.02; done; sort $HOME/order; echo done; until [ -e $HOME/go ]; do sleep 0.02; done`)
	for _, c := range []*driver.Container{&first, &beside, &main} {
		c.Image = image
	}
	main.Mounts = []driver.Mount{{Target: "/only-here"}}
	w := b.of(first, beside, main)
	w.Resources = &ohmv1.Resources{MemoryBytes: 64 << 20}
	b.must(b.driver.Start(t.Context(), w))
	b.reaches(w.ID, "beside\nfirst\nmain\ndone\n")
	b.reaches(w.ID, "beside is up")
	Eventually(t, "the main container runs", func() bool { return b.running(w.ID) })
	if out := b.log(w.ID, "stdout"); strings.Contains(out, "mark") || strings.Count(out, "at /scratch\n") != 3 {
		t.Errorf("they said %q", out)
	}
	o := b.observe(w.ID)
	if kind, _ := b.mount(o.Pid, "/only-here"); kind != "tmpfs" {
		t.Errorf("at /only-here there is %q", kind)
	}
	mounts := map[string]bool{}
	for _, p := range b.processes(w.ID) {
		ns, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", leading(p)))
		kind, _, err := mountOf(leading(p), "/only-here")
		if isNotExist(err) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EINVAL) {
			continue // a short program of a container's loop, which has ended meanwhile
		}
		if b.must(err); kind != "" && !strings.Contains(p, "only-here") {
			mounts[ns] = true
		}
	}
	if len(mounts) != 1 {
		t.Errorf("/only-here is in %d mount namespaces", len(mounts))
	}
	if n, err := b.driver.DiskBytes(t.Context(), w.ID); n <= 0 || err != nil {
		t.Errorf("it has written %d bytes, %v", n, err)
	}
	b.letGo(o.Pid)
	b.expectExit(b.ended(w.ID), 0)
	b.treeGone(w.ID)
}

// execInContainers: a program is run in the container that is named.
func execInContainers(t *testing.T, b *bench) {
	beside := b.container("beside", driver.Sidecar, "export WHO=1; echo up"+stay)
	short := b.container("short", driver.Sidecar, "echo gone")
	main := b.container("main", driver.Main, stay[2:])
	w := b.of(short, beside, main)
	w.Containers[1].Env = map[string]string{MarkEnv: w.ID, "IN": "beside"}
	b.must(b.driver.Start(t.Context(), w))
	b.reaches(w.ID, "up")
	b.reaches(w.ID, "gone")
	Eventually(t, "the main container runs", func() bool { return b.running(w.ID) })
	for container, want := range map[string]string{"beside": "beside", "main": "none", "": "none"} {
		code, out, errs := b.exec(w.ID, "echo ${IN:-none}; readlink /proc/self/ns/mnt", func(e *driver.Exec) { e.Container = container })
		said := strings.Fields(out)
		if code != 0 || errs != "" || len(said) != 2 || said[0] != want {
			t.Fatalf("in container %q: %d, %q, %q", container, code, out, errs)
		}
		if ours, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", b.observe(w.ID).Pid)); slices.Contains(b.driver.Capabilities(), driver.CanNamespaces) && (ours == said[1]) != (want == "none") {
			t.Errorf("in container %q its mounts are %s, those of the main one %s", container, said[1], ours)
		}
	}
	Eventually(t, "the short one has ended", func() bool {
		_, err := b.driver.Exec(t.Context(), w.ID, driver.Exec{Container: "short", Command: []string{"true"}})
		return errors.Is(err, driver.ErrNotRunning)
	})
	if _, err := b.driver.Exec(t.Context(), w.ID, driver.Exec{Container: "none", Command: []string{"true"}}); !errors.Is(err, driver.ErrNotRunning) {
		t.Errorf("in no container: %v", err)
	}
	b.must(b.driver.Signal(t.Context(), w.ID, syscall.SIGTERM))
	b.expectSignal(b.ended(w.ID), int(syscall.SIGTERM))
	b.treeGone(w.ID)
}

// killedInInit: a task that is killed while an init container runs never gets to its main one.
func killedInInit(t *testing.T, b *bench) {
	for what, end := range map[string]func(id string) error{
		"kill":   func(id string) error { return b.driver.Kill(t.Context(), id) },
		"signal": func(id string) error { return b.driver.Signal(t.Context(), id, syscall.SIGKILL) },
	} {
		id := b.several(
			b.container("beside", driver.Sidecar, "setsid sleep 1000 & echo up"+stay),
			b.container("first", driver.Init, "echo waits"+stay),
			b.container("main", driver.Main, "echo ran"),
		)
		b.reaches(id, "waits")
		b.reaches(id, "up")
		b.restart()
		b.must(end(id))
		o := b.ended(id)
		if b.expectSignal(o, int(syscall.SIGKILL)); o.Pid != 0 {
			t.Errorf("%s: ended as %+v", what, o)
		}
		if out := b.log(id, "stdout"); strings.Contains(out, "ran") {
			t.Errorf("%s: it said %q", what, out)
		}
		b.treeGone(id)
	}
}

// mainNotFound: what has been started before the main container goes with it that cannot be.
func mainNotFound(t *testing.T, b *bench) {
	main := b.container("main", driver.Main, "")
	main.Command = []string{"no-such-command"}
	w := b.of(
		b.container("beside", driver.Sidecar, "echo up"+stay),
		b.container("first", driver.Init, "until [ -e $HOME/go ]; do sleep 0.02; done; echo first"),
		main,
	)
	b.must(b.driver.Start(t.Context(), w))
	b.reaches(w.ID, "up")
	b.letGo(leading(b.processes(w.ID)[0]))
	o := b.ended(w.ID)
	if o.Cause != task.StartFailed || !strings.Contains(o.Message, "no-such-command") {
		t.Errorf("ended as %+v", o)
	}
	if out := b.log(w.ID, "stdout"); !strings.Contains(out, "first") {
		t.Errorf("it said %q", out)
	}
	b.treeGone(w.ID)
}

// initOutOfMemory: an init container is held to the task's limit, and its end told as such.
func initOutOfMemory(t *testing.T, b *bench) {
	w := b.of(b.container("first", driver.Init, "exec "+eat), b.container("main", driver.Main, "echo ran"))
	w.Resources = &ohmv1.Resources{MemoryBytes: 64 << 20}
	b.must(b.driver.Start(t.Context(), w))
	if o := b.ended(w.ID); o.Cause != task.OOMKilled || !o.OOM || b.log(w.ID, "stdout") != "" {
		t.Errorf("ended as %+v, having said %q", o, b.log(w.ID, "stdout"))
	}
	b.treeGone(w.ID)
}

// initOutlivesStarter: an agent that is killed while an init container runs is no reason why
// the task should not go on to its main one.
func initOutlivesStarter(t *testing.T, b *bench) {
	w := b.of(
		b.container("beside", driver.Sidecar, "echo beside"+stay),
		b.container("first", driver.Init, "echo waits; until [ -e $HOME/go ]; do sleep 0.02; done"),
		b.container("main", driver.Main, "echo ran; exit 42"),
	)
	kill := b.StartElsewhere(t, w)
	b.reaches(w.ID, "waits")
	kill()
	b.restart()
	if o := b.observe(w.ID); task.Ended(o.State) || o.Pid != 0 {
		t.Errorf("it is %+v", o)
	}
	b.letGo(leading(b.processes(w.ID)[0]))
	b.expectExit(b.ended(w.ID), 42)
	if out := b.log(w.ID, "stdout"); strings.Count(out, "waits\n") != 1 || strings.Count(out, "beside\n") != 1 || strings.Count(out, "ran\n") != 1 {
		t.Errorf("they said %q", out)
	}
	b.treeGone(w.ID)
}

// imageOfOneMissing: no container of a task starts of which one has no image.
func imageOfOneMissing(t *testing.T, b *bench) {
	missing := "tar:" + filepath.Join(t.TempDir(), "missing")
	main := b.container("main", driver.Main, "echo ran")
	main.Image = missing
	first := b.container("first", driver.Init, "echo ran")
	first.Image = imageOf(t, Image{})
	w := b.of(first, main)
	if err := b.driver.Start(t.Context(), w); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("start: %v", err)
	}
	if o := b.observe(w.ID); o.Cause != task.ImageNotFound {
		t.Errorf("it is %+v", o)
	}
	if r, err := b.driver.Logs(t.Context(), w.ID, "stdout", driver.From{}); err == nil {
		r.Close()
		if out := b.log(w.ID, "stdout"); out != "" {
			t.Errorf("it said %q", out)
		}
	}
	b.treeGone(w.ID)
}
