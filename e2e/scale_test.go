package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// scaleVar says how many simulated nodes TestScale has; make scale has 5,000.
const scaleVar = "E2E_SCALE_NODES"

// cpu is what a process has had of the processors, from proc(5); the kernel counts hundredths.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw := contents(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(raw[strings.LastIndexByte(raw, ')')+1:])
	if len(f) < 13 {
		t.Fatalf("process %d is gone", pid)
	}
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// peak is the most memory that a process has had, in bytes.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	for line := range strings.Lines(contents(fmt.Sprintf("/proc/%d/status", pid))) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("process %d is gone", pid)
	return 0
}

// Simulated nodes on real sessions, each with two tasks: while nothing happens the server, its
// etcd included, takes less than half a core for 500 nodes, a millisecond a second for each.
// Then all tasks end within seconds, and every end is stored, in bounded memory.
func TestScale(t *testing.T) {
	nodes := 500
	if said := os.Getenv(scaleVar); said != "" {
		var err error
		if nodes, err = strconv.Atoi(said); err != nil {
			t.Fatal(err)
		}
	}
	long := patience + time.Duration(nodes)*40*time.Millisecond
	dir := shortDir(t)
	server := start(t, "ohm", "server", "--embedded-etcd", "--data-dir", filepath.Join(dir, "server"), "--address", "127.0.0.1:0", "--log-level", "warn")
	etcd := server.word("etcd")
	c := client{t, server.word("ready")}
	start(t, "ohm", "scheduler", "--policy", "batch", "--etcd", etcd, "--log-level", "warn")
	start(t, "ohm", "agent", "--address", c.address, "--hollow-nodes", fmt.Sprint(nodes), "--log-level", "warn")
	ready := fmt.Sprint(nodes)
	within(t, long, "all nodes are ready", func() bool { return c.metric(`ohm_nodes{state="Ready"}`) == ready })
	tasks := 2 * nodes
	c.ohm("run", c.job(fmt.Sprintf("job: many\nkind: batch\ngroups:\n  - {name: main, count: %d, cpu: 25, memory: 1Gi, command: [work], constraints: [{key: hollow, exists: true}]}\n", tasks)))
	type group struct{ Running, Stopped int }
	counts := func() group {
		return read[struct{ Groups []group }](c, "status", "many").Groups[0]
	}
	within(t, long, "all tasks run", func() bool { return counts().Running == tasks })

	pid := server.cmd.Process.Pid
	before, began := cpu(t, pid), time.Now()
	throughout(t, 10*time.Second, "the server runs", server.running)
	took, window := cpu(t, pid)-before, time.Since(began)
	allowed := time.Duration(float64(nodes) * window.Seconds() * float64(time.Millisecond))
	t.Logf("%d nodes: %v of CPU in %v, %.3f cores; %.3f ms a node and second", nodes, took, window.Round(time.Millisecond),
		took.Seconds()/window.Seconds(), took.Seconds()*1000/float64(nodes)/window.Seconds())
	if took > allowed {
		t.Errorf("the server took %v of CPU in %v, more than %v", took, window, allowed)
	}

	calm := peak(t, pid)
	began = time.Now()
	c.ohm("stop", "many", "--wait", "--timeout", long.String())
	t.Logf("%d tasks ended and were stored in %v; memory %d MiB, %d before", tasks, time.Since(began).Round(time.Millisecond), peak(t, pid)>>20, calm>>20)
	if got := counts().Stopped; got != tasks {
		t.Errorf("%d of %d tasks are stopped", got, tasks)
	}
	stored, err := c.store().Get(t.Context(), "/ohm/default/tasks/default/many/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, kv := range stored.Kvs {
		if strings.Contains(string(kv.Key), "/ended/") {
			ended++
		} else {
			t.Errorf("%s is left", kv.Key)
		}
	}
	if ended != tasks {
		t.Errorf("%d ends of %d are stored", ended, tasks)
	}
	if most := calm + int64(tasks)*64<<10 + 64<<20; peak(t, pid) > most {
		t.Errorf("the storm took the server to %d MiB, more than %d", peak(t, pid)>>20, most>>20)
	}
}
