//go:build linux

package containerd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/containerd/containerdtest"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/pkg/task"
)

// place is a driver with tasks that are seen to at the end.
type place struct {
	*Driver
	*setup
	t   *testing.T
	dir string
}

func (s *setup) place(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{s.driver(t, dir), s, t, dir}
	t.Cleanup(func() {
		ids, err := folder.IDs(p.tasks)
		if err != nil {
			t.Error(err)
		}
		for _, id := range ids {
			if err := errors.Join(p.Kill(context.Background(), id), p.Remove(context.Background(), id)); err != nil {
				t.Error(err)
			}
		}
		if left := leftovers(p.Driver, ""); len(left) > 0 {
			t.Errorf("left on the machine: %q", left)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// run starts a shell script as a task.
func (p *place) run(id, script string) driver.Observation {
	p.t.Helper()
	w := driver.Task{
		ID: id, Command: []string{"sh", "-c", script}, Env: map[string]string{drivertest.MarkEnv: id},
		Box: driver.Box{Image: p.setup.image},
	}
	if err := p.Start(p.t.Context(), w); err != nil {
		p.t.Fatal(err)
	}
	return p.see(id)
}

func (p *place) see(id string) driver.Observation {
	p.t.Helper()
	o, ok, err := p.Observe(p.t.Context(), id)
	if err != nil || !ok {
		p.t.Fatalf("observe %s: %v, %v", id, ok, err)
	}
	return o
}

// ended waits for the task's end.
func (p *place) ended(id string) (o driver.Observation) {
	p.t.Helper()
	drivertest.Eventually(p.t, id+" has ended", func() bool {
		o = p.see(id)
		return task.Ended(o.State)
	})
	return o
}

// TestDaemonKilled: containerd is killed under tasks. They go on, are what they were when
// it is back, and what ended meanwhile is told as it was.
func TestDaemonKilled(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	long := p.run("long", "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 4")
	p.run("short", "while [ ! -e go ]; do sleep 0.05; done; kill -9 $$")
	p.run("stopped", "while :; do sleep 0.05; done")
	s.End(syscall.SIGKILL)

	if _, ok, err := p.Observe(t.Context(), "long"); err == nil {
		t.Errorf("without a daemon the task is seen, known %v", ok)
	}
	if list, err := p.List(t.Context()); err == nil || len(list) > 0 {
		t.Errorf("without a daemon tasks are listed: %+v", list)
	}
	if err := os.WriteFile(filepath.Join(p.folder("short"), scratchDir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(t.Context(), "stopped", syscall.SIGTERM); err != nil {
		t.Errorf("without a daemon no signal is sent: %v", err)
	}
	for _, id := range []string{"short", "stopped"} {
		drivertest.Eventually(t, id+" has no process", func() bool { return len(drivertest.Marked(id)) == 0 })
	}
	s.Again(t)

	drivertest.Eventually(t, "the daemon is found again", func() bool {
		_, _, err := p.Observe(t.Context(), "long")
		return err == nil
	})
	if o := p.see("long"); o != long || o.State != task.Running {
		t.Errorf("was %+v, is %+v", long, o)
	}
	if o := p.ended("short"); o.Cause != task.Signalled || o.Signal != 9 {
		t.Errorf("ended as %+v", o)
	}
	if o := p.ended("stopped"); o.Cause != task.Signalled || o.Signal != 15 {
		t.Errorf("ended as %+v", o)
	}
	if err := os.WriteFile(filepath.Join(p.folder("long"), scratchDir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := p.ended("long"); o.Cause != task.Exited || o.ExitCode != 4 {
		t.Errorf("ended as %+v", o)
	}
	data, err := os.ReadFile(filepath.Join(string(p.logs), "long", "stdout"))
	if string(data) != "one\ntwo\n" {
		t.Errorf("it said %q, %v", data, err)
	}
}

// TestStartWithoutDaemon: a daemon that is away is waited for, until the task's time is over.
func TestStartWithoutDaemon(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	s.End(syscall.SIGKILL)
	w := driver.Task{ID: "late", Command: []string{"true"}, Box: driver.Box{Image: p.setup.image}, StartBy: time.Now().Add(time.Second)}
	err := p.Start(t.Context(), w)
	s.Again(t)
	if err == nil {
		t.Fatal("it started")
	}
	if o := p.ended("late"); o.Cause != task.StartDeadline {
		t.Errorf("observed %+v", o)
	}
	w.ID, w.StartBy = "early", time.Time{}
	s.End(syscall.SIGKILL)
	started := make(chan error, 1)
	go func() { started <- p.Start(t.Context(), w) }()
	drivertest.Eventually(t, "it is starting", func() bool { return folder.Exists(p.folder("early")) })
	s.Again(t)
	if err := <-started; err != nil {
		t.Error(err)
	}
	if o := p.ended("early"); o.State != task.Succeeded {
		t.Errorf("observed %+v", o)
	}
}

// TestStartCutShort: an agent that dies while it starts a task leaves one that the next start
// goes on with, at whatever point that was; and one that ran is never started again.
func TestStartCutShort(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	w := driver.Task{ID: "one", Command: []string{"sh", "-c", "echo ran"}, Box: driver.Box{Image: p.setup.image}}
	if err := p.claim(w); err != nil { // and died
		t.Fatal(err)
	}
	if o := p.see("one"); o.State != task.Assigned {
		t.Errorf("with nothing but a folder it is %+v", o)
	}
	img, err := p.Driver.image(t.Context(), w.Image)
	if err != nil {
		t.Fatal(err)
	}
	id := containerID("one", driver.MainName, 0)
	box, err := p.client.NewContainer(t.Context(), id, client.WithSnapshotter(snapshotter), client.WithNewSnapshot(id, img),
		client.WithNewSpec(oci.WithProcessArgs("sleep", "1000"), oci.WithEnv([]string{"PATH=/bin"})))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.NewTask(t.Context(), cio.NullIO); err != nil { // made, not started, and died
		t.Fatal(err)
	}
	if err := p.Start(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if o := p.ended("one"); o.State != task.Succeeded {
		t.Errorf("observed %+v", o)
	}
	for range 2 {
		if err := p.Start(t.Context(), w); err != nil {
			t.Error(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(string(p.logs), "one", "stdout"))
	if string(data) != "ran\n" {
		t.Errorf("it said %q, %v", data, err)
	}

	w.ID = "two"
	if err := p.claim(w); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(t.Context(), "two"); err != nil {
		t.Error(err)
	}
	if o := p.see("two"); o.State != task.Failed || o.Cause != task.StartFailed {
		t.Errorf("killed before it started it is %+v", o)
	}
}

// TestSweep: what is nobody's goes at the start of Watch, and nothing else; twice is as once.
func TestSweep(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	kept := p.run("kept", "sleep 1000")
	p.run("lost", "sleep 1000")
	if err := os.RemoveAll(p.folder("lost")); err != nil { // its folder is gone: nobody knows it
		t.Fatal(err)
	}
	cut := p.folder(folder.GonePrefix + "cut")
	if err := os.Mkdir(cut, 0o700); err != nil {
		t.Fatal(err)
	}
	other := s.place(t) // another agent on the same daemon
	others := other.run("lost", "sleep 1000")
	for range 2 {
		d := s.driver(t, p.dir)
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		go func() { watched <- d.Watch(ctx, func(string) {}) }()
		drivertest.Eventually(t, "nothing is left of it", func() bool { return len(leftoversOf(p.Driver, "lost")) == 0 && !folder.Exists(cut) })
		cancel()
		if err := errors.Join(<-watched, d.Close()); err != nil {
			t.Error(err)
		}
		if o := p.see("kept"); o != kept || o.State != task.Running {
			t.Errorf("was %+v, is %+v", kept, o)
		}
		if o := other.see("lost"); o != others || o.State != task.Running {
			t.Errorf("another agent's was %+v, is %+v", others, o)
		}
	}
}

// leftoversOf is leftovers without processes found by a mark that two agents' tasks share.
func leftoversOf(d *Driver, id string) (left []string) {
	for _, what := range leftovers(d, id) {
		if strings.Contains(what, d.namespace) || strings.HasPrefix(what, "container ") || strings.HasPrefix(what, "snapshot ") || strings.HasPrefix(what, d.tasks) {
			left = append(left, what)
		}
	}
	return left
}

// TestReportIsNotTrusted: what a task writes over its init's report is not believed against
// containerd.
func TestReportIsNotTrusted(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	p.run("one", "echo exited 0 >"+reportTarget+"; exit 3")
	if o := p.ended("one"); o.Cause != task.Exited || o.ExitCode != 3 {
		t.Errorf("ended as %+v", o)
	}
	p.run("two", "echo exited 0 >"+reportTarget+"; while :; do sleep 0.05; done")
	if err := p.Kill(t.Context(), "two"); err != nil {
		t.Error(err)
	}
	if o := p.see("two"); o.Cause != task.Signalled || o.Signal != 9 {
		t.Errorf("ended as %+v", o)
	}
}

// TestInitGuard: where it is not pid 1, ohm-init does nothing: its end would be that of every
// process there is. (The test is in a pid namespace of its own, and its shell is pid 1 there.)
func TestInitGuard(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(report, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `"$@"; echo code $?`, "sh", containerdtest.BuildInit(t), report, "touch", report+".ran")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "pid 1") || !strings.Contains(string(out), "code 2") {
		t.Errorf("%q, %v", out, err)
	}
	if folder.Exists(report + ".ran") {
		t.Error("it ran the command")
	}
}
