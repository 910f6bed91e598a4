package e2e

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// future is a field that no release has yet.
var future = protowire.AppendString(protowire.AppendTag(nil, 9999, protowire.BytesType), "of a later release")

// rewrite makes another message of a stored one, as a later release may.
func rewrite[M proto.Message](t *testing.T, etcd *clientv3.Client, key string, m M, change func(M)) {
	t.Helper()
	stored[M](t, etcd, key, m)
	change(m)
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Put(t.Context(), key, string(raw)); err != nil {
		t.Fatal(err)
	}
}

// stored reads the message of a key.
func stored[M proto.Message](t *testing.T, etcd *clientv3.Client, key string, m M) M {
	t.Helper()
	got, err := etcd.Get(t.Context(), key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("%s: %v, %v", key, got, err)
	}
	if err := proto.Unmarshal(got.Kvs[0].Value, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// kept says that a message still has the field of a later release.
func kept(t *testing.T, what string, m proto.Message) {
	t.Helper()
	if got := m.ProtoReflect().GetUnknown(); !bytes.Equal(got, future) {
		t.Errorf("%s lost what a later release had written: %q", what, got)
	}
}

// Field case 101: two releases live together. Fields and values that this one does not know are
// kept where it rewrites a record, left alone where it does not, and crash nobody; a job that
// needs what it does not know is held. While all processes are replaced one after the other, and
// meet such records as they start, no task is started anew.
func TestCase101(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	endpoint := freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), endpoint)
	address := freeAddress(t)
	homes := map[string]string{}
	for _, node := range []string{"a", "b"} {
		homes[node] = filepath.Join(dir, node)
		t.Cleanup(func() { endTasks(t, homes[node]) })
	}
	starts := map[string]func() *process{
		"server": func() *process {
			p := start(t, "ohm", "server", "--etcd", endpoint, "--address", address, "--data-dir", filepath.Join(dir, "server"))
			p.word("ready")
			return p
		},
		"schedulers": func() *process {
			return start(t, "ohm", "scheduler", "--policy", "batch,service", "--etcd", endpoint, "--data-dir", filepath.Join(dir, "schedulers"))
		},
		"agent a": func() *process {
			return start(t, "ohm", "agent", "--address", address, "--data-dir", homes["a"], "--node", "a", soon)
		},
		"agent b": func() *process {
			return start(t, "ohm", "agent", "--address", address, "--data-dir", homes["b"], "--node", "b", soon)
		},
	}
	order := []string{"server", "schedulers", "agent a", "agent b"}
	parts := map[string]*process{}
	for _, part := range order {
		parts[part] = starts[part]()
	}
	c := client{t, address}
	c.run("job: svc\nkind: service\ngroups:\n  - {name: main, count: 50, cpu: 1m, memory: 1Mi, command: [sleep, \"1000\"]}\n")
	before := c.processesOf(t, "svc")
	if len(before) != 50 {
		t.Fatalf("%d tasks", len(before))
	}
	unharmed := func(when string) {
		t.Helper()
		within(t, patience, when+": all tasks are seen to run", func() bool {
			for name, v := range c.tasks("svc") {
				if v.State != "Running" || before[name] == "" {
					return false
				}
			}
			return true
		})
		for name, now := range c.processesOf(t, "svc") {
			if now != before[name] {
				t.Errorf("%s: %s was %s, and is %s", when, name, before[name], now)
			}
		}
	}

	etcd := c.store()
	const root = "/ohm/default/"
	c.ohm("node", "label", "a", "rack=r1")
	rewrite(t, etcd, root+"jobs/default/svc", &ohmv1.Job{}, func(j *ohmv1.Job) {
		j.ProtoReflect().SetUnknown(future)
		j.Spec.ProtoReflect().SetUnknown(future)
		j.Spec.Groups[0].ProtoReflect().SetUnknown(future)
	})
	rewrite(t, etcd, root+"intents/a", &ohmv1.Intent{}, func(i *ohmv1.Intent) { i.ProtoReflect().SetUnknown(future) })
	rewrite(t, etcd, root+"schedulers/service", &ohmv1.Scheduler{}, func(s *ohmv1.Scheduler) { s.ProtoReflect().SetUnknown(future) })
	placements := 0
	got, err := etcd.Get(t.Context(), root+"tasks/default/svc/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		switch key := string(kv.Key); {
		case strings.HasSuffix(key, "/placement"):
			rewrite(t, etcd, key, &ohmv1.Placement{}, func(p *ohmv1.Placement) { p.ProtoReflect().SetUnknown(future) })
			placements++
		case strings.HasSuffix(key, "/status"):
			rewrite(t, etcd, key, &ohmv1.Status{}, func(s *ohmv1.Status) { s.ProtoReflect().SetUnknown(future) })
		}
	}
	if placements != 50 {
		t.Fatalf("%d placements", placements)
	}
	if _, err := etcd.Put(t.Context(), root+"future/thing", "\xff of a kind that nobody knows"); err != nil {
		t.Fatal(err)
	}
	unharmed("rewritten by a later release")

	// A job of a kind, and one with a constraint, of a later release.
	job := func(name string, change func(*ohmv1.JobSpec)) {
		c.ohm("run", c.job(batch("like", 1)), "--wait", "--timeout", patience.String())
		record := stored(t, etcd, root+"jobs/default/like", &ohmv1.Job{})
		record.Spec.Name, record.Done = name, nil
		change(record.Spec)
		raw, err := proto.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := etcd.Put(t.Context(), root+"jobs/default/"+name, string(raw)); err != nil {
			t.Fatal(err)
		}
	}
	job("kind", func(s *ohmv1.JobSpec) { s.Kind = "quantum" })
	job("operator", func(s *ohmv1.JobSpec) { s.Groups[0].Constraints = []*ohmv1.Constraint{{Key: "rack", Op: 99}} })
	held := func() {
		t.Helper()
		c.run(batch(fmt.Sprint("after", len(parts)), 1)) // the scheduler has looked
		for _, name := range []string{"kind", "operator"} {
			if got, err := etcd.Get(t.Context(), root+"tasks/default/"+name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || got.Count != 0 {
				t.Errorf("job %s has %d records of tasks, %v", name, got.Count, err)
			}
			for _, verb := range [][]string{{"status", name}, {"job", "get", name}, {"explain", name}} {
				if a := c.try(verb...); a.code != 0 {
					t.Errorf("%v: exit code %d: %s", verb, a.code, a.stderr)
				}
			}
		}
	}
	held()
	for name, why := range map[string]string{"kind": "quantum", "operator": "under an operator that this release does not know"} {
		within(t, 30*time.Second, "explain says what is not known of job "+name, func() bool { return strings.Contains(c.ohm("explain", name), why) })
	}

	// A task in a state of a later release, on a node whose agent is away.
	parts["agent b"].kill()
	key := ""
	for name, v := range c.tasks("svc") {
		if v.Node == "b" {
			key = root + "tasks/default/" + name + "@1/status"
		}
	}
	rewrite(t, etcd, key, &ohmv1.Status{}, func(s *ohmv1.Status) { s.State = 99 })
	if n := len(c.tasks("svc")); n != 50 {
		t.Errorf("%d tasks are shown", n)
	}
	parts["agent b"] = starts["agent b"]()
	unharmed("in a state of a later release")

	for _, part := range order {
		parts[part].terminate()
		parts[part] = starts[part]()
		unharmed("with another " + part)
	}
	held()
	c.ohm("node", "label", "a", "rack=r2")
	kept(t, "the intent", stored(t, etcd, root+"intents/a", &ohmv1.Intent{}))
	kept(t, "the scheduler", stored(t, etcd, root+"schedulers/service", &ohmv1.Scheduler{}))

	c.ohm("stop", "svc", "--wait", "--timeout", patience.String())
	record := stored(t, etcd, root+"jobs/default/svc", &ohmv1.Job{})
	kept(t, "the job", record)
	kept(t, "its spec", record.GetSpec())
	kept(t, "its group", record.GetSpec().GetGroups()[0])
	ended := 0
	within(t, patience, "the tasks' ends are kept", func() bool {
		got, err = etcd.Get(context.Background(), root+"tasks/default/svc/", clientv3.WithPrefix())
		ended = 0
		for _, kv := range got.Kvs {
			if strings.Contains(string(kv.Key), "/ended/") {
				ended++
			}
		}
		return err == nil && ended == 50
	})
	for _, kv := range got.Kvs {
		if strings.Contains(string(kv.Key), "/ended/") {
			kept(t, string(kv.Key), stored(t, etcd, string(kv.Key), &ohmv1.Ended{}).GetPlacement())
		}
	}
	if got, err := etcd.Get(t.Context(), root+"future/thing"); err != nil || got.Count != 1 {
		t.Errorf("what nobody knows: %v, %v", got, err)
	}
}
