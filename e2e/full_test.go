package e2e

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// fill writes one key of nobody's over and over until etcd is full.
func fill(t *testing.T, etcd *clientv3.Client) {
	t.Helper()
	megabyte := strings.Repeat("x", 1<<20)
	for range 1000 {
		if _, err := etcd.Put(t.Context(), "/elsewhere", megabyte); errors.Is(err, rpctypes.ErrNoSpace) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("etcd is never full")
}

// A store that is full: tasks live, reads work, what cannot be written says why and what
// to do, and the doctor's cure brings everything back; nothing has to be started again.
func TestCase95(t *testing.T) {
	t.Parallel()
	t.Run("an etcd of one's own", func(t *testing.T) {
		t.Parallel()
		dir, address := shortDir(t), freeAddress(t)
		startEtcd(t, filepath.Join(dir, "etcd"), address, etcdQuotaVar+"=16777216")
		c := client{t, start(t, "ohm", "server", "--etcd", address, "--address", "127.0.0.1:0").word("ready")}
		recovers(t, c, dir, "--etcd", address)
	})
	t.Run("the embedded etcd", func(t *testing.T) {
		t.Parallel()
		dir := shortDir(t)
		server := start(t, "ohm", "server", "--embedded-etcd", "--embedded-etcd-quota", "16Mi", "--data-dir", filepath.Join(dir, "s"), "--address", "127.0.0.1:0")
		server.word("etcd")
		recovers(t, client{t, server.word("ready")}, dir)
	})
}

// recovers fills the store of a cell without schedulers and agents, and has the doctor,
// who is called with these flags, cure it.
func recovers(t *testing.T, c client, dir string, flags ...string) {
	notes := shortDir(t)
	start(t, "ohm", "scheduler", "--policy", "batch,service", "--address", c.address)
	t.Cleanup(func() { endTasks(t, dir) })
	start(t, "ohm", "agent", "--address", c.address, "--data-dir", dir, "--node", "here")
	c.run(service("svc", 1, notes))
	pid := c.tasks("svc")["svc/main/0"].Pid
	was := alive(t, pid)
	doctor := append([]string{"store", "doctor"}, flags...)
	if a := c.try(doctor...); a.code != 0 || !strings.Contains(a.stdout, "nothing is wrong") || !strings.Contains(a.stdout, "16Mi") {
		t.Errorf("the doctor on a sound store: exit code %d\n%s%s", a.code, a.stdout, a.stderr)
	}

	fill(t, c.store())
	hello := c.job(batch("hello", 2))
	a := c.try("run", hello)
	if a.code != 5 || !strings.Contains(a.stderr, "the store is full") || !strings.Contains(a.stderr, "ohm store doctor") {
		t.Errorf("run: exit code %d, %s", a.code, a.stderr)
	}
	if a := c.try("stop", "svc"); a.code != 5 || !strings.Contains(a.stderr, "the store is full") {
		t.Errorf("stop: exit code %d, %s", a.code, a.stderr)
	}
	if got := c.status("svc"); got.State != "Running" {
		t.Errorf("status says %+v", got)
	}
	if got := c.ohm("node", "list"); !strings.Contains(got, "Ready") {
		t.Errorf("node list says %s", got)
	}
	if got := c.ohm("version"); !strings.Contains(got, "ohm store doctor") {
		t.Errorf("version says %s", got)
	}
	// A server that starts meanwhile reads, too.
	info := read[struct{ Cell struct{ Etcd []string } }](c, "version")
	second := client{t, start(t, "ohm", "server", "--etcd", info.Cell.Etcd[0], "--address", "127.0.0.1:0").word("ready")}
	if got := second.status("svc"); got.State != "Running" {
		t.Errorf("a second server says %+v", got)
	}
	a = c.try(doctor...)
	for _, want := range []string{"NOSPACE", "takes no writes", "ohm store doctor --cure", "compaction", "defrag", "alarm disarm"} {
		if a.code != 1 || !strings.Contains(a.stdout, want) {
			t.Errorf("the doctor on a full store: exit code %d, no %q in\n%s%s", a.code, want, a.stdout, a.stderr)
		}
	}
	if got := alive(t, pid); got != was {
		t.Errorf("the task was %s, now it is %s", was, got)
	}

	a = c.try(append(doctor, "--cure")...)
	for _, want := range []string{"compact: ", "defragment ", "disarm: alarms NOSPACE ended: 1"} {
		if a.code != 0 || !strings.Contains(a.stderr, want) || !strings.Contains(a.stdout, "nothing is wrong") {
			t.Fatalf("the cure: exit code %d, want %q in\n%s%s", a.code, want, a.stdout, a.stderr)
		}
	}
	c.ohm("run", hello, "--wait", "--timeout", patience.String())
	v := c.tasks("svc")["svc/main/0"]
	if got := alive(t, v.Pid); got != was || v.Attempt != 1 || starts(t, notes, "svc", 0) != 1 {
		t.Errorf("the task was %s, now it is %s, attempt %d, started %d times", was, got, v.Attempt, starts(t, notes, "svc", 0))
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir, pid)
	c.ohm("audit")
}
