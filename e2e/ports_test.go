package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
)

// ported is a task with its ports as the CLI prints it.
type ported struct {
	Task, State, Cause, Ready string
	Attempt                   int32
	Ports                     []struct {
		Name   string
		Number int32
	}
}

// foreign is a listener of somebody outside of the cell.
func foreign(t *testing.T, port int32) {
	t.Helper()
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// Field case 112: the second task of a static port waits on a node that has it once, and is
// told why; where a process outside of the cell has the dynamic port that was chosen, the
// task gets another one, and no retry is charged.
func TestCase112(t *testing.T) {
	t.Parallel()
	const first, last = 19310, 19311
	d := startDev(t, shortDir(t), "--ports", fmt.Sprintf("%d-%d", first, last))
	d.ohm("run", d.job(`job: fixed
kind: service
groups:
  - {name: main, count: 2, cpu: 10m, memory: 8Mi, ports: {http: 19318}, command: [sleep, "1000"]}
`))
	within(t, patience, "one runs and one waits", func() bool {
		running := 0
		for _, v := range read[[]ported](d.client, "task", "list", "fixed") {
			if v.State == "Running" && len(v.Ports) == 1 && v.Ports[0].Number == 19318 {
				running++
			}
		}
		return running == 1 && strings.Contains(d.ohm("explain", "fixed"), "of 1 node 1 with port 19318 taken (such as by fixed/main/")
	})

	slot := cellstate.Slot{Namespace: "default", Job: "busy", Group: "main", Version: 1}
	chosen := first + int32(cellstate.PortsFrom(slot, 1)%2)
	foreign(t, chosen)
	d.ohm("run", d.job(`job: busy
kind: batch
groups:
  - {name: main, cpu: 10m, memory: 8Mi, ports: {http: 0}, command: [sh, -c, 'test "$OHM_PORT_HTTP" -ge 19310']}
`), "--wait", "--timeout", patience.String())
	var got []string
	for _, v := range read[[]ported](d.client, "task", "list", "busy", "--attempts") {
		got = append(got, fmt.Sprintf("%d %s %s %d", v.Attempt, v.State, v.Cause, v.Ports[0].Number))
	}
	want := []string{fmt.Sprintf("1 Failed PortBusy %d", chosen), fmt.Sprintf("2 Succeeded exited 0 %d", first+last-chosen)}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("attempts: %q, want %q", got, want)
	}
}

// Field case 10: an agent whose own list of ports makes no sense does not start.
func TestCase10Ports(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--reserved-ports", "22,80,22"}, {"--reserved-ports", "70000"}, {"--ports", "9-1"}} {
		a := call(t, "ohm", append([]string{"agent", "--data-dir", shortDir(t), "--address", "127.0.0.1:1"}, args...)...)
		if a.code != 2 || !strings.Contains(a.stderr, "port") {
			t.Errorf("%v: exit code %d: %s", args, a.code, a.stderr)
		}
	}
}

// The web service of the examples: --wait waits until its pages can be got, and a task
// that stops to answer is replaced.
func TestWebExample(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t))
	d.ohm("run", "../examples/jobs/web.yaml", "--wait", "--timeout", patience.String())
	tasks := func() (ready []ported) {
		for _, v := range read[[]ported](d.client, "task", "list", "web") {
			if v.State == "Running" && v.Ready == "ready" && len(v.Ports) == 1 {
				ready = append(ready, v)
			}
		}
		return ready
	}
	all := tasks()
	if len(all) != 2 {
		t.Fatalf("--wait is over with %d tasks ready", len(all))
	}
	for _, v := range all {
		client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/index.html", v.Ports[0].Number))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || string(text) != "hello from "+v.Task+"\n" {
			t.Errorf("%s says %q, %v", v.Task, text, err)
		}
	}
	if s := d.ohm("status", "web"); !strings.Contains(s, "2/2 running") || strings.Contains(s, "not ready") {
		t.Errorf("status: %s", s)
	}
}

// A service whose task is never ready is not there, says --wait and status; one that fails
// its liveness is replaced.
func TestUnhealthy(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t))
	a := d.try("run", d.job(`job: never
kind: service
groups:
  - {name: main, cpu: 10m, memory: 8Mi, command: [sleep, "1000"], health: {ready: {exec: {command: [test, -e, never]}, interval: 100ms}}}
`), "--wait", "--timeout", "5s")
	if a.code != 6 {
		t.Errorf("exit code %d: %s%s", a.code, a.stdout, a.stderr)
	}
	within(t, patience, "it runs and is not ready", func() bool {
		return strings.Contains(d.ohm("status", "never"), "1/1 running, 1 not ready")
	})
	d.ohm("run", d.job(`job: ill
kind: service
stop: {grace: 1s}
groups:
  - name: main
    cpu: 10m
    memory: 8Mi
    command: [sh, -c, 'test "$OHM_ATTEMPT" = 1 || touch well; exec sleep 1000']
    health: {live: {exec: {command: [test, -e, well]}, startPeriod: 0s, interval: 100ms, failures: 2}}
`))
	within(t, patience, "the second attempt runs", func() bool {
		all := read[[]ported](d.client, "task", "list", "ill", "--attempts")
		return len(all) == 2 && all[0].State == "Failed" && all[0].Cause == "Unhealthy" && all[1].State == "Running"
	})
}

// A task with a network of its own is reached at its port, and probed there, also while the
// agent that started it is gone; the next one finds it ready, and nothing is left in the end.
func TestOwnNetwork(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	d := startDev(t, dir)
	d.ohm("run", d.job(`job: apart
kind: service
groups:
  - name: main
    cpu: 50m
    memory: 32Mi
    network: own
    ports: {http: 0}
    health: {ready: {http: {port: http, path: /index.html}, interval: 200ms}}
    command: [sh, -c, 'echo hello >index.html; exec busybox httpd -f -p 127.0.0.1:$OHM_PORT_HTTP']
`), "--wait", "--timeout", patience.String())
	task := func() ported { return read[[]ported](d.client, "task", "list", "apart")[0] }
	page := func(port int32) string {
		client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/index.html", port))
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	first := task()
	if first.Ready != "ready" || len(first.Ports) != 1 {
		t.Fatalf("--wait is over: %+v", first)
	}
	port := first.Ports[0].Number
	if got := page(port); got != "hello\n" {
		t.Errorf("its page is %q", got)
	}
	d.kill()
	if got := page(port); got != "hello\n" {
		t.Errorf("without an agent its page is %q", got)
	}
	d = d.again()
	within(t, patience, "the next agent is there", func() bool { return read[struct{ State string }](d.client, "node", "get", "here").State == "Ready" })
	if again := task(); again.Attempt != 1 || again.Ready != "ready" {
		t.Errorf("after the agent's restart it is %+v", again)
	}
	d.ohm("stop", "apart", "--wait")
	nothingLeft(t, dir)
	within(t, patience, "its port is free", func() bool {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			l.Close()
		}
		return err == nil
	})
}
