package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// pause stops a process in its tracks until resume.
func (p *process) pause() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

func (p *process) resume() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// Field case 96: a scheduler, an agent and a server are paused; 1,000 writes later the
// history is compacted, and they go on. They know within 5 s what there is to know, and
// no task is started again.
func TestCase96(t *testing.T) {
	t.Parallel()
	dir, notes, address := shortDir(t), shortDir(t), freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), address)
	serve := func() *process { return start(t, "ohm", "server", "--etcd", address, "--address", "127.0.0.1:0") }
	other := serve() // which is not paused
	server := serve()
	c := client{t, other.word("ready")}
	scheduler := start(t, "ohm", "scheduler", "--policy", "batch,service", "--etcd", address)
	t.Cleanup(func() { endTasks(t, dir) })
	agent := start(t, "ohm", "agent", "--address", server.word("ready"), "--data-dir", dir, "--node", "here")
	c.run(service("svc", 2, notes))
	c.run(service("gone", 2, notes))
	before := map[string]string{}
	for name, v := range c.tasks("svc") {
		before[name] = alive(t, v.Pid)
	}
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()

	paused := []*process{scheduler, agent, server}
	for _, p := range paused {
		p.pause()
	}
	c.ohm("run", c.job(batch("meanwhile", 3)))
	c.ohm("stop", "gone")
	c.ohm("run", c.job(service("other", 2, notes)))
	var last int64
	more := strings.Repeat("x", 40<<10) // than connections take in for a reader that is paused
	for i := range 1000 {
		put, err := store.Put(t.Context(), fmt.Sprintf("/ohm/default/later/%d", i%100), more)
		if err != nil {
			t.Fatal(err)
		}
		last = put.Header.Revision
	}
	if _, err := store.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if state := c.status("meanwhile").State; state != "Pending" {
		t.Errorf("while all is paused the job is %s", state)
	}
	for _, p := range paused {
		p.resume()
	}
	within(t, 5*time.Second, "what was asked for meanwhile is done", func() bool {
		return c.status("meanwhile").State == "Succeeded" && c.status("other").State == "Running" && c.status("gone").State == "Stopped"
	})
	for _, p := range paused {
		if !p.running() {
			t.Errorf("%s ended: %v", p.name, p.outcome)
		}
	}
	for _, p := range []*process{scheduler, server} {
		if said := p.stderr(); !strings.Contains(said, "loading the cell state again") || strings.Contains(said, "ERROR") {
			t.Errorf("%s did not just load again:\n%s", p.name, said)
		}
	}
	for job, attempts := range map[string]int{"svc": 2, "gone": 2, "other": 2, "meanwhile": 3} {
		views := c.tasks(job)
		if len(views) != attempts {
			t.Errorf("job %s has %d tasks", job, len(views))
		}
		for name, v := range views {
			if v.Attempt != 1 {
				t.Errorf("%s is at attempt %d", name, v.Attempt)
			}
			if was := before[name]; job == "svc" && alive(t, v.Pid) != was {
				t.Errorf("%s was process %s, now it is %d", name, was, v.Pid)
			}
		}
	}
	for i := range 2 {
		for _, job := range []string{"svc", "gone", "other"} {
			if n := starts(t, notes, job, i); n != 1 {
				t.Errorf("task %d of %s was started %d times", i, job, n)
			}
		}
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir)
}
