package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// quick are a server's times, shortened as all others are: what counts is how long an outage
// is against the times after which something is given up. Two minutes are three times the
// 40 seconds that a node may be silent; here six seconds are, of two.
var quick = []string{"--silent-after", "2s", "--lost-after", "2s", "--lost-grace", "2s", "--lease", "2s"}

// outage is three times the silence after which tasks are given up.
const outage = 6 * time.Second

// An agent takes up to eight seconds to try a server again that was away, which no setting
// shortens. So where all servers are, the grace of a new leader must be longer, as it is by
// default, and the whole is slower.
var (
	slower     = []string{"--silent-after", "4s", "--lost-after", "4s", "--lost-grace", "12s", "--lease", "2s"}
	longOutage = 12 * time.Second // three times as long as a node may be silent
	longGrace  = 14 * time.Second // when a leader has begun to judge
)

// processesOf are the identities of a job's tasks, by task.
func (c client) processesOf(t *testing.T, job string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, v := range c.tasks(job) {
		found[name] = fmt.Sprintf("attempt %d, process %s", v.Attempt, alive(t, v.Pid))
	}
	return found
}

// Field case 54, the first half: the leader of three etcds dies; then every server and every
// scheduler, for three times as long as a node may be silent. No task notices.
func TestCase54(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	members := startEtcds(t, dir)
	var endpoints []string
	for address := range members {
		endpoints = append(endpoints, address)
	}
	etcds := strings.Join(endpoints, ",")
	addresses := []string{freeAddress(t), freeAddress(t)}
	serve := func() (parts []*process) {
		for i, address := range addresses {
			args := []string{"server", "--etcd", etcds, "--address", address, "--data-dir", filepath.Join(dir, fmt.Sprint("server", i))}
			parts = append(parts, start(t, "ohm", append(args, slower...)...))
		}
		for _, p := range parts {
			p.word("ready")
		}
		return append(parts, start(t, "ohm", "scheduler", "--policy", "batch,service", "--etcd", etcds, "--data-dir", filepath.Join(dir, "scheduler")))
	}
	parts := serve()
	c := client{t, addresses[0]}
	for i, address := range addresses {
		home := filepath.Join(dir, fmt.Sprint("node", i))
		t.Cleanup(func() { endTasks(t, home) })
		start(t, "ohm", "agent", "--address", address, "--data-dir", home, "--node", fmt.Sprint("node", i))
	}
	c.run(service("svc", 4, notes))
	c.ohm("run", c.job(fmt.Sprintf(`
job: work
kind: batch
groups:
  - {name: main, cpu: 10m, memory: 16Mi, command: [sh, -c, "echo started >> %[1]s/work-0; until [ -e %[1]s/go ]; do sleep 0.2; done"]}
`, notes)))
	within(t, patience, "the batch task runs", func() bool { return c.tasks("work")["work/main/0"].State == "Running" })
	before := map[string]map[string]string{"svc": c.processesOf(t, "svc"), "work": c.processesOf(t, "work")}
	unharmed := func() bool {
		for job, tasks := range before {
			for name, was := range tasks {
				if now := c.processesOf(t, job)[name]; now != was {
					t.Errorf("%s was %s, now it is %s", name, was, now)
				}
			}
		}
		return !t.Failed()
	}

	store, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	leader := ""
	for address := range members {
		s, err := store.Status(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		if s.Leader == s.Header.MemberId {
			leader = address
		}
	}
	members[leader].kill()
	within(t, patience, "the cell takes jobs without etcd's leader", func() bool { return c.try("run", c.job(batch("after-leader", 1))).code == 0 })
	within(t, patience, "and runs them", func() bool { return c.status("after-leader").State == "Succeeded" })
	unharmed()

	for _, p := range parts {
		p.kill()
	}
	pids := map[string]string{} // nobody is there to be asked
	for _, tasks := range before {
		for name, was := range tasks {
			pids[name] = was
		}
	}
	throughout(t, longOutage, "every task's process is there", func() bool {
		for _, was := range pids {
			var attempt, pid int
			if _, err := fmt.Sscanf(was, "attempt %d, process %d", &attempt, &pid); err != nil {
				t.Fatal(err)
			}
			if _, runs := stat(pid); !runs {
				return false
			}
		}
		return true
	})
	serve()
	within(t, patience, "the nodes are back", func() bool { return strings.Count(c.ohm("node", "list"), "Ready") == 2 })
	within(t, patience, "the cell works", func() bool { return c.try("run", c.job(batch("after-all", 1))).code == 0 })
	within(t, patience, "the new job succeeds", func() bool { return c.status("after-all").State == "Succeeded" })
	throughout(t, longGrace, "nothing is given up afterwards", unharmed)
	if err := os.WriteFile(filepath.Join(notes, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the batch job succeeds", func() bool { return c.status("work").State == "Succeeded" })
	for job, count := range map[string]int{"svc": 4, "work": 1} {
		for i := range count {
			if n := starts(t, notes, job, i); n != 1 {
				t.Errorf("task %d of %s was started %d times", i, job, n)
			}
		}
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	for i := range addresses {
		nothingLeft(t, filepath.Join(dir, fmt.Sprint("node", i)))
	}
	c.ohm("audit")
}

// metric is a metric of one value as a server shows it.
func (c client) metric(name string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+"/metrics", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// hollowFleet runs simulated nodes of names.
func hollowFleet(t *testing.T, address string, names ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nodes.csv")
	text := "sn,cpu_milli,memory_mib,gpu,model\n"
	for _, n := range names {
		text += n + ",4000,8192,0,\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return start(t, "ohm", "agent", "--address", address, "--hollow-nodes", file, "--log-level", "warn")
}

// Field case 54, the second half: 40 of 100 nodes go silent at once. Nothing is given up, which
// every place says, until an operator calls them lost.
func TestCase54Brake(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	server := start(t, "ohm", append([]string{"server", "--embedded-etcd", "--data-dir", dir, "--address", "127.0.0.1:0"}, quick...)...)
	etcd := server.word("etcd")
	c := client{t, server.word("ready")}
	start(t, "ohm", "scheduler", "--policy", "service", "--etcd", etcd)
	var stay, leave []string
	for i := range 100 {
		if i < 60 {
			stay = append(stay, fmt.Sprintf("stays-%02d", i))
		} else {
			leave = append(leave, fmt.Sprintf("goes-%02d", i))
		}
	}
	hollowFleet(t, c.address, stay...)
	goes := hollowFleet(t, c.address, leave...)
	within(t, patience, "the nodes are there", func() bool { return strings.Count(c.ohm("node", "list"), "Ready") == 100 })
	c.run("job: web\nkind: service\ngroups:\n  - {name: main, count: 100, cpu: 1, memory: 64Mi, command: [web], constraints: [{key: hollow, exists: true}]}\n")
	there := func(attempt int) (n int) {
		for _, v := range c.tasks("web") {
			if v.State == "Running" && strings.HasPrefix(v.Node, "stays-") == (attempt == 2) && v.Attempt == attempt {
				n++
			}
		}
		return n
	}
	if n := there(1); n == 0 {
		t.Fatal("no task is on the nodes that go")
	}
	gone := there(1)
	goes.kill()
	alarm := func() string { return c.try("node", "list").stderr }
	within(t, patience, "the brake holds", func() bool {
		return strings.HasPrefix(alarm(), "40 of 100 nodes are silent at once") && c.metric("ohm_keeper_braking") == "1"
	})
	if message := c.status("web").Message; !strings.Contains(message, "on silent nodes") || !strings.Contains(message, "nothing is given up") {
		t.Errorf("the job says %q", message)
	}
	if said := server.stderr(); !strings.Contains(said, "nothing is given up") {
		t.Errorf("the log does not say it:\n%s", tail(said))
	}
	throughout(t, outage, "nothing is given up", func() bool { return there(1) == gone })
	c.ohm("node", "lost", "--silent")
	within(t, patience, "what stood there runs elsewhere", func() bool { return there(2) == gone && there(1) == 0 })
	if got := c.metric("ohm_keeper_braking"); got != "0" || alarm() != "" {
		t.Errorf("afterwards the brake is %s, and %q is said", got, alarm())
	}
}

// Field case 56: three of nine nodes are cut off, their tasks are replaced, and the server is
// killed as they come back. The count is right, what stands in the store survives, and every
// old process ends.
func TestCase56(t *testing.T) {
	t.Parallel()
	dir, notes, address := shortDir(t), shortDir(t), freeAddress(t)
	serve := func() *process {
		args := []string{"server", "--embedded-etcd", "--data-dir", filepath.Join(dir, "server"), "--address", address}
		p := start(t, "ohm", append(args, quick...)...)
		p.word("ready")
		return p
	}
	server := serve()
	c := client{t, address}
	start(t, "ohm", "scheduler", "--policy", "service", "--etcd", server.word("etcd"))
	cable := startRelay(t, address)
	var homes []string
	for i := range 9 {
		node := fmt.Sprint("n", i)
		home := filepath.Join(dir, node)
		homes = append(homes, home)
		t.Cleanup(func() { endTasks(t, home) })
		at := address
		if i < 3 {
			at = cable.address
		}
		start(t, "ohm", "agent", "--address", at, "--data-dir", home, "--node", node)
	}
	within(t, patience, "nine nodes are there", func() bool { return strings.Count(c.ohm("node", "list"), "Ready") == 9 })
	c.run(service("svc", 9, notes))
	first := c.tasks("svc")
	var stranded []int // processes on the nodes that are cut off
	moved := map[string]bool{}
	for name, v := range first {
		if v.Node <= "n2" {
			stranded = append(stranded, v.Pid)
			moved[name] = true
		}
	}
	if len(moved) != 3 {
		t.Fatalf("%d tasks are on the three nodes: %v", len(moved), first)
	}
	cable.set(true)
	within(t, patience, "the three are replaced", func() bool {
		n := 0
		for name, v := range c.tasks("svc") {
			if moved[name] && v.State == "Running" && v.Attempt == 2 && v.Node > "n2" {
				n++
			}
		}
		return n == 3
	})
	for _, pid := range stranded {
		if _, runs := stat(pid); !runs {
			t.Error("a task that is only cut off has ended")
		}
	}
	second := c.processesOf(t, "svc")
	server.kill()
	cable.set(false)
	serve()
	within(t, patience, "the old processes end", func() bool {
		return !slices.ContainsFunc(stranded, func(pid int) bool { _, runs := stat(pid); return runs })
	})
	within(t, patience, "all nodes are back", func() bool { return strings.Count(c.ohm("node", "list"), "Ready") == 9 })
	throughout(t, outage, "what stands in the store survives", func() bool {
		now := c.processesOf(t, "svc")
		for name, was := range second {
			if now[name] != was {
				t.Logf("%s was %s, now it is %s", name, was, now[name])
				return false
			}
		}
		return len(now) == 9
	})
	for i := range 9 {
		want := 1
		if moved[fmt.Sprintf("svc/main/%d", i)] {
			want = 2
		}
		if n := starts(t, notes, "svc", i); n != want {
			t.Errorf("task %d was started %d times, want %d", i, n, want)
		}
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	for _, home := range homes {
		nothingLeft(t, home)
	}
	c.ohm("audit")
}

// Field case 62: an agent asks first. While it was away its task went elsewhere, or ended: it
// starts neither, with the server there or not.
func TestCase62(t *testing.T) {
	t.Parallel()
	dir, notes, address := shortDir(t), shortDir(t), freeAddress(t)
	serve := func() *process {
		args := []string{"server", "--embedded-etcd", "--data-dir", filepath.Join(dir, "server"), "--address", address}
		p := start(t, "ohm", append(args, slower...)...)
		p.word("ready")
		return p
	}
	server := serve()
	c := client{t, address}
	start(t, "ohm", "scheduler", "--policy", "batch", "--etcd", server.word("etcd"))
	home := func(node string) string { return filepath.Join(dir, node) }
	agent := func(node string) *process {
		return start(t, "ohm", "agent", "--address", address, "--data-dir", home(node), "--node", node)
	}
	for _, node := range []string{"one", "two"} {
		t.Cleanup(func() { endTasks(t, home(node)) })
	}
	one := agent("one")
	job := func(name, script string) {
		t.Helper()
		c.ohm("run", c.job(fmt.Sprintf(`
job: %s
kind: batch
groups:
  - {name: main, cpu: 10m, memory: 16Mi, command: [sh, -c, 'echo "started $OHM_NODE" >> %s/$OHM_JOB-0; %s']}
`, name, notes, script)))
		within(t, patience, name+" runs", func() bool { return c.tasks(name)[name+"/main/0"].State == "Running" })
	}
	on := func(job, node string) int {
		return strings.Count(contents(filepath.Join(notes, job+"-0")), "started "+node+"\n")
	}

	job("moves", "sleep 1000")
	one.kill()
	endTasks(t, home("one"))
	agent("two")
	within(t, patience, "the task has moved", func() bool {
		v := c.tasks("moves")["moves/main/0"]
		return v.State == "Running" && v.Node == "two" && v.Attempt == 2
	})
	one = agent("one")
	within(t, patience, "both agents are there", func() bool { return strings.Count(c.ohm("node", "list"), "Ready") == 2 })
	throughout(t, outage/2, "nothing old is started", func() bool { return on("moves", "one") == 1 && on("moves", "two") == 1 })
	c.ohm("stop", "moves", "--wait", "--timeout", patience.String())

	// A task ends while no server can be reached, its agent starts again, and again: what has
	// ended has ended.
	c.ohm("node", "drain", "two")
	job("ends", fmt.Sprintf("until [ -e %s/go ]; do sleep 0.1; done", notes))
	pid := c.tasks("ends")["ends/main/0"].Pid
	server.kill()
	if err := os.WriteFile(filepath.Join(notes, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the task ends", func() bool { _, runs := stat(pid); return !runs })
	one.kill()
	one = agent("one")
	throughout(t, outage/2, "without a server nothing is started", func() bool { return on("ends", "one") == 1 })
	one.kill()
	agent("one")
	throughout(t, outage/2, "nor by the next agent", func() bool { return on("ends", "one") == 1 })
	serve()
	within(t, patience, "the end is told", func() bool {
		a := c.try("status", "ends", "-o", "json")
		return a.code == 0 && decode[jobView](t, a.stdout).State == "Succeeded"
	})
	if v := c.tasks("ends")["ends/main/0"]; v.Attempt != 1 || v.Cause != "exited 0" || on("ends", "one")+on("ends", "two") != 1 {
		t.Errorf("attempt %d, %s; started %d times", v.Attempt, v.Cause, on("ends", "one")+on("ends", "two"))
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, home("one"))
	nothingLeft(t, home("two"))
	c.ohm("audit")
}

// Field case 68: the leadership of the housekeeping moves five times, each time because its
// leader stands still, which then goes on and does not know it yet; so do schedulers. A job that
// runs once runs once.
func TestCase68(t *testing.T) {
	t.Parallel()
	dir, notes, etcd := shortDir(t), shortDir(t), freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), etcd)
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	servers, at := map[string]*process{}, map[string]string{}
	for i := range 3 {
		name := fmt.Sprint("s", i)
		servers[name] = start(t, "ohm", append([]string{"server", "--etcd", etcd, "--address", "127.0.0.1:0", "--name", name}, quick...)...)
		at[name] = servers[name].word("ready")
	}
	var schedulers []*process
	for range 2 {
		schedulers = append(schedulers, start(t, "ohm", "scheduler", "--policy", "batch", "--etcd", etcd))
	}
	t.Cleanup(func() { endTasks(t, dir) })
	start(t, "ohm", "agent", "--address", at["s0"], "--data-dir", dir, "--node", "here")
	leader := func() string {
		resp, err := store.Get(t.Context(), "/ohm/default/meta/leader/keeper")
		if err != nil {
			t.Fatal(err)
		}
		var m ohmv1.Meta
		if len(resp.Kvs) == 1 {
			if err := proto.Unmarshal(resp.Kvs[0].Value, &m); err != nil {
				t.Fatal(err)
			}
		}
		return m.GetValue()
	}
	once := func(name string) string {
		return fmt.Sprintf(`
job: %s
kind: batch
whenSilent: {then: never, after: 10m}
groups:
  - {name: main, count: 3, cpu: 10m, memory: 16Mi, command: [sh, -c, "echo started >> %s/$OHM_JOB-$OHM_INDEX; sleep 0.5"]}
`, name, notes)
	}
	c := client{t, at["s0"]}
	within(t, patience, "the node is there, and a leader", func() bool { return strings.Contains(c.ohm("node", "list"), "Ready") && leader() != "" })
	var jobs []string
	for i := range 5 {
		old := leader()
		paused := []*process{servers[old], schedulers[i%2]}
		for _, p := range paused {
			p.pause()
		}
		within(t, patience, "another leads", func() bool { now := leader(); return now != "" && now != old })
		name := fmt.Sprint("once-", i)
		jobs = append(jobs, name)
		c = client{t, at[leader()]}
		c.ohm("run", c.job(once(name)))
		for _, p := range paused {
			p.resume()
		}
	}
	last := "after-all"
	jobs = append(jobs, last)
	c.ohm("run", c.job(once(last)))
	for _, job := range jobs {
		within(t, patience, job+" succeeds", func() bool { return c.status(job).State == "Succeeded" })
	}
	for _, p := range append(schedulers, servers["s0"], servers["s1"], servers["s2"]) {
		if !p.running() {
			t.Errorf("%s ended: %v", p.name, p.outcome)
		}
	}
	throughout(t, outage/2, "nothing runs again", func() bool {
		for _, job := range jobs {
			for i := range 3 {
				if n := starts(t, notes, job, i); n != 1 {
					t.Logf("task %d of %s was started %d times", i, job, n)
					return false
				}
			}
		}
		return true
	})
	for _, job := range jobs {
		for name, v := range c.tasks(job) {
			if v.Attempt != 1 {
				t.Errorf("%s is at attempt %d", name, v.Attempt)
			}
		}
	}
	nothingLeft(t, dir)
	c.ohm("audit")
}
