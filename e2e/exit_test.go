package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Field case 72: what somebody waited for has come out in one of eight ways, and each has its exit code,
// the same with -o json and without. Placed late is no failure, and says so; a task's own code is in
// the JSON.
func TestCase72(t *testing.T) {
	t.Parallel()
	d, notes := startDev(t, shortDir(t)), shortDir(t)
	batch := func(name, command, more string) string {
		return fmt.Sprintf("job: %s\nkind: batch\ngroups:\n  - {name: main, cpu: 10m, memory: 16Mi, command: [sh, -c, %q]%s}\n", name, command, more)
	}
	update := func(name, command, then string) string {
		text := strings.Replace(service(name, 1, notes), "kind: service", "kind: service\nupdate: {steady: 0s, progressDeadline: 2s, onFailure: "+then+"}", 1)
		return strings.Replace(text, "      - sh\n", "      - "+command+"\n", 1)
	}
	type outcome struct {
		State       string
		Rollout     string
		PlacedAfter *float64
		Failed      []struct {
			Task     string
			ExitCode int
		}
	}
	for _, format := range []string{"table", "json"} {
		for _, c := range []struct {
			what  string
			first func(name string) // before
			file  func(name string) string
			flags []string
			while func(name string) // it is waited for
			code  int
			json  func(outcome) bool
		}{
			{what: "ok", file: func(n string) string { return batch(n, "exit 0", "") }, code: 0,
				json: func(o outcome) bool {
					return o.State == "Succeeded" && len(o.Failed) == 0 && o.PlacedAfter != nil && *o.PlacedAfter < 60
				}},
			{what: "fails", first: func(n string) { d.run(update(n, "sh", "pause")) }, file: func(n string) string { return update(n, "no-such-program", "pause") }, code: 1,
				json: func(o outcome) bool { return o.Rollout == "Failed" }},
			{what: "back", first: func(n string) { d.run(update(n, "sh", "revert")) }, file: func(n string) string { return update(n, "no-such-program", "revert") }, code: 8,
				json: func(o outcome) bool { return o.State == "Running" && o.Rollout == "Reverted" }},
			{what: "late", file: func(n string) string { return batch(n, "exit 0", ", constraints: [{key: "+n+", exists: true}]") }, code: 0,
				while: func(n string) {
					within(t, patience, "it waits for a node", func() bool { return strings.Contains(d.try("status", n, "-o", "json").stdout, "no node for 1 task") })
					d.ohm("node", "label", "here", n+"=yes")
				},
				json: func(o outcome) bool { return o.State == "Succeeded" && o.PlacedAfter != nil && *o.PlacedAfter > 0 }},
			{what: "timeout", file: func(n string) string { return batch(n, "sleep 1000", "") }, flags: []string{"--timeout", "1s"}, code: 6,
				json: func(o outcome) bool { return o.State == "Running" || o.State == "Pending" }},
			{what: "stopped", file: func(n string) string { return batch(n, "sleep 1000", "") }, code: 7,
				while: func(n string) {
					within(t, patience, "it is there", func() bool { return d.try("stop", n).code == 0 })
				},
				json: func(o outcome) bool { return o.State == "Stopped" }},
			{what: "seven", file: func(n string) string { return batch(n, "exit 7", "") }, code: 1,
				json: func(o outcome) bool {
					return o.State == "Failed" && len(o.Failed) == 1 && o.Failed[0].ExitCode == 7 && strings.HasSuffix(o.Failed[0].Task, "/main/0")
				}},
		} {
			t.Run(c.what+"_"+format, func(t *testing.T) {
				t.Parallel()
				name := c.what + "-" + format
				if c.first != nil {
					c.first(name)
				}
				done := make(chan answer, 1)
				file := d.job(c.file(name))
				flags := c.flags
				if flags == nil {
					flags = []string{"--timeout", patience.String()}
				}
				began := time.Now()
				go func() { done <- d.try(append([]string{"run", file, "--wait", "-o", format}, flags...)...) }()
				if c.while != nil {
					c.while(name)
				}
				a := <-done
				if a.code != c.code {
					t.Errorf("exit code %d after %v, want %d: %s%s", a.code, time.Since(began), c.code, a.stdout, a.stderr)
				}
				if format == "json" {
					if o := decode[outcome](t, a.stdout); !c.json(o) {
						t.Errorf("it says %s", a.stdout)
					}
				}
			})
		}
		t.Run("nobody_"+format, func(t *testing.T) {
			nobody := client{t, "127.0.0.1:1"}
			if a := nobody.try("run", d.job(batch("never", "exit 0", "")), "--wait", "-o", format); a.code != 3 {
				t.Errorf("exit code %d, want 3: %s", a.code, a.stderr)
			}
		})
	}
}
