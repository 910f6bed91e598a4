package e2e

import (
	"slices"
	"strings"
	"testing"
)

// A service's tasks are found by whoever asks, and by a task that has them in its environment.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	d, notes := startDev(t, shortDir(t)), shortDir(t)
	d.run(strings.Replace(service("api", 2, notes), "cpu:", "ports: {http: 0}\n    cpu:", 1))
	addresses := strings.Fields(d.ohm("job", "endpoints", "api", "--port", "http", "-o", "name"))
	if len(addresses) != 2 || !strings.HasPrefix(addresses[0], "here:") || addresses[0] == addresses[1] {
		t.Fatalf("endpoints: %q", addresses)
	}
	d.run(`
job: user
kind: batch
groups:
  - {name: main, cpu: 10m, memory: 16Mi, command: [sh, -c, 'echo "$API"'], env: {API: "at {{endpoints api http}}", NONE: "{{endpoints nobody http}}"}}
`)
	if said := strings.TrimSpace(d.ohm("logs", "user")); said != "at "+strings.Join(addresses, ",") {
		t.Errorf("the task was told %q, want %q", said, addresses)
	}
	if a := d.try("run", d.job("job: bad\nkind: batch\ngroups:\n  - {name: main, cpu: 10m, memory: 16Mi, command: [x], env: {API: \"{{endpoints api}}\"}}\n")); a.code != 2 || !strings.Contains(a.stderr, ":4:") {
		t.Errorf("a template that is none: exit code %d, %s", a.code, a.stderr)
	}
	watched := make(chan answer, 1)
	go func() { watched <- d.try("job", "endpoints", "api", "--watch", "-o", "name") }()
	within(t, patience, "one goes", func() bool {
		d.ohm("job", "scale", "api", "1")
		return len(strings.Fields(d.ohm("job", "endpoints", "api", "-o", "name"))) == 1
	})
	d.ohm("stop", "api")
	a := <-watched
	if lines := strings.Fields(a.stdout); a.code != 0 || len(lines) < 1 || !slices.Contains(lines, addresses[0]) {
		t.Errorf("watched: exit code %d, %q, %s", a.code, lines, a.stderr)
	}
}
