package e2e

import (
	"strings"
	"testing"
)

// The custom scheduler of the examples gets the jobs that name it, and places them.
func TestCustomScheduler(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t), "--schedulers", "batch")
	const file = "../examples/customscheduler/job.yaml"
	if a := d.try("run", file); a.code != 2 || !strings.Contains(a.stderr, `"first-fit"`) {
		t.Errorf("before there is such a scheduler: exit code %d: %s", a.code, a.stderr)
	}
	custom := start(t, "customscheduler", "--address", d.address)
	within(t, patience, "it is registered", func() bool { return strings.Contains(custom.stderr(), `"registered"`) })
	d.ohm("run", file, "--wait", "--timeout", patience.String())
	for _, v := range d.tasks("fitted") {
		txn := read[struct{ Scheduler, Instance string }](d.client, "txn", "get", v.Transaction)
		if v.State != "Succeeded" || txn.Scheduler != "first-fit" || txn.Instance != "one" {
			t.Errorf("%s is %s, placed by %+v", v.Task, v.State, txn)
		}
	}
	if got := d.ohm("logs", "fitted/main/0"); got != "fitted/main/0 was placed on here by first-fit\n" {
		t.Errorf("it said %q", got)
	}
	state := func() string {
		for _, s := range read[[]struct{ Scheduler, State string }](d.client, "scheduler", "list") {
			if s.Scheduler == "first-fit" {
				return s.State
			}
		}
		return ""
	}
	if s := state(); s != "Live" {
		t.Errorf("scheduler list says %q", s)
	}
	if code := custom.terminate(); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, custom.stderr())
	}
	within(t, patience, "it is not seen any more", func() bool { return state() == "NotSeen" })
}

// Two transactions for the same room: winner and loser can be read back.
func TestRaceExample(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	d := startDev(t, dir)
	for range 2 { // it can be run again
		if a := call(t, "race", "--address", d.address); a.code != 0 {
			t.Fatalf("race: exit code %d\n%s%s", a.code, a.stdout, a.stderr)
		}
	}
	type winner struct{ Scheduler, Transaction, Task string }
	conflicts := read[[]struct {
		Time, Scheduler, Transaction, Job, Task, Node, Reason, Dimension, Wanted, Free string
		Winner                                                                         winner
		SnapshotRevision, StoreRevision                                                int64
	}](d.client, "conflict", "list")
	if len(conflicts) != 2 || conflicts[0].Time < conflicts[1].Time {
		t.Fatalf("conflict list says %+v", conflicts)
	}
	for _, c := range conflicts {
		won := map[string]string{"race-a": "race-b", "race-b": "race-a"}[c.Scheduler]
		if c.Winner.Scheduler != won || c.Winner.Task != won+"/main/0" || c.Job != c.Scheduler || c.Task != c.Job+"/main/0" {
			t.Errorf("winner and loser: %+v", c)
		}
		if c.Node != "here" || c.Reason != "Resources" || c.Dimension != "cpu" || c.Wanted == "" || c.Free == "" || c.SnapshotRevision >= c.StoreRevision {
			t.Errorf("what it was about: %+v", c)
		}
		type txn struct {
			Scheduler        string
			SnapshotRevision int64
			Committed        []struct{ Task, Node string }
			Refused          []struct{ Task string }
		}
		w, l := read[txn](d.client, "txn", "get", c.Winner.Transaction), read[txn](d.client, "txn", "get", c.Transaction)
		if w.Scheduler != won || len(w.Committed) != 1 || len(w.Refused) != 0 || w.Committed[0].Node != c.Node {
			t.Errorf("the winner's transaction: %+v", w)
		}
		if l.Scheduler != c.Scheduler || len(l.Committed) != 0 || len(l.Refused) != 1 || l.SnapshotRevision != w.SnapshotRevision {
			t.Errorf("the loser's transaction: %+v, the winner's: %+v", l, w)
		}
	}
	for _, job := range []string{"race-a", "race-b"} {
		if s := d.status(job); s.State != "Stopped" {
			t.Errorf("job %s is %s", job, s.State)
		}
	}
	nothingLeft(t, dir)
	d.ohm("audit")
}
