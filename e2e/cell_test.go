package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// client is the command line, pointed at a cell.
type client struct {
	t       *testing.T
	address string
}

// try calls ohm.
func (c client) try(args ...string) answer {
	c.t.Helper()
	return call(c.t, "ohm", append([]string{"--address", c.address}, args...)...)
}

// ohm calls ohm, which must succeed, and returns what it printed.
func (c client) ohm(args ...string) string {
	c.t.Helper()
	a := c.try(args...)
	if a.code != 0 {
		c.t.Fatalf("ohm %s: exit code %d\n%s%s", strings.Join(args, " "), a.code, a.stdout, a.stderr)
	}
	return a.stdout
}

// job writes a job file.
func (c client) job(text string) (file string) {
	c.t.Helper()
	f, err := os.CreateTemp(c.t.TempDir(), "*.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
	return f.Name()
}

// run submits a job and waits until it runs or is done.
func (c client) run(text string) {
	c.t.Helper()
	c.ohm("run", c.job(text), "--wait", "--timeout", patience.String())
}

// read decodes what a verb prints with -o json.
func read[T any](c client, args ...string) (v T) {
	c.t.Helper()
	return decode[T](c.t, c.ohm(append(args, "-o", "json")...))
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

// store is the cell's etcd.
func (c client) store() *clientv3.Client {
	c.t.Helper()
	info := read[struct{ Cell struct{ Etcd []string } }](c, "version")
	etcd, err := clientv3.New(clientv3.Config{Endpoints: info.Cell.Etcd, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { etcd.Close() })
	return etcd
}

// taskView is what `ohm task list -o json` says of a task.
type taskView struct {
	Task, State, Node, Cause, Transaction string
	Attempt                               int
	Pid                                   int
}

// tasks are the tasks of a job, by name.
func (c client) tasks(job string) map[string]taskView {
	c.t.Helper()
	all := map[string]taskView{}
	for _, v := range read[[]taskView](c, "task", "list", job) {
		all[v.Task] = v
	}
	return all
}

// pid is that of a task's command, once the cell knows that it runs.
func (c client) pid(task string) (pid int) {
	c.t.Helper()
	job, _, _ := strings.Cut(task, "/")
	within(c.t, patience, task+" runs", func() bool {
		v := c.tasks(job)[task]
		pid = v.Pid
		return v.State == "Running" && pid > 0
	})
	return pid
}

// jobView is what `ohm status JOB -o json` says.
type jobView struct{ Job, State, Message string }

func (c client) status(job string) jobView {
	c.t.Helper()
	return read[jobView](c, "status", job)
}

// dev is a whole cell in one process.
type dev struct {
	client
	*process
	t   *testing.T
	dir string
}

// startDev starts a cell on a folder. When the test is over nothing of it is left.
func startDev(t *testing.T, dir string, args ...string) *dev {
	t.Helper()
	return startDevAt(t, dir, "127.0.0.1:0", args...)
}

func startDevAt(t *testing.T, dir, address string, args ...string) *dev {
	t.Helper()
	t.Cleanup(func() { endTasks(t, dir) }) // after the cell's own end
	p := start(t, "ohm", append([]string{"dev", "--data-dir", dir, "--address", address, "--node", "here"}, args...)...)
	return &dev{client{t, p.word("ready")}, p, t, dir}
}

// again starts the cell again on its folder, at the same address.
func (d *dev) again(args ...string) *dev {
	d.t.Helper()
	return startDevAt(d.t, d.dir, d.address, args...)
}

// service is a job file: count tasks that run until they are stopped, each of which
// says in a file of its own in dir, named by its task, that it has started.
func service(name string, count int, dir string) string {
	return fmt.Sprintf(`
job: %s
kind: service
stop: {grace: 10s}
groups:
  - name: main
    count: %d
    cpu: 10m
    memory: 16Mi
    command:
      - sh
      - -c
      - |
        echo started >> %s/$OHM_JOB-$OHM_INDEX
        trap 'exit 0' TERM
        while :; do sleep 1 & wait $!; done
`, name, count, dir)
}

// starts counts how often the tasks of service said that they have started.
func starts(t *testing.T, dir, job string, index int) int {
	t.Helper()
	return strings.Count(contents(filepath.Join(dir, fmt.Sprintf("%s-%d", job, index))), "started")
}
