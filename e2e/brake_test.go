package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
