package robustness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/robustness/history"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// alive is a cell of one node with a session and a service of two tasks.
func alive(t *testing.T) *celltest.Cell { return aliveIn(t, memstore.New()) }

func aliveIn(t *testing.T, store *memstore.Store) *celltest.Cell {
	t.Helper()
	cell := celltest.New(t, store)
	cell.Node(celltest.Node{Name: "n1"})
	cell.Put(cellstate.Record{Key: cellstate.AliveKey("n1"), Value: &ohmv1.Alive{Node: "n1", Server: "s"}})
	cell.Job(celltest.Job{Name: "a", Kind: "service", Count: 2, CPU: 1000})
	return cell
}

func slotOf(cell *celltest.Cell, i int) cellstate.Slot {
	return celltest.Slot(cell.Snapshot(), celltest.Name("a"), "main", i)
}

// TestUnsettled: a cell where all that should run does is at rest, and each thing that is
// not so is named.
func TestUnsettled(t *testing.T) {
	settled := func(t *testing.T) *celltest.Cell {
		cell := alive(t)
		for i := range 2 {
			cell.Place("a", i, "n1")
			cell.Status(slotOf(cell, i), task.Running)
		}
		return cell
	}
	for name, c := range map[string]struct {
		spoil func(*celltest.Cell)
		want  string // empty: at rest
	}{
		"at rest":           {func(*celltest.Cell) {}, ""},
		"a task is missing": {func(c *celltest.Cell) { c.Release(slotOf(c, 0), task.Failed) }, "has 1 live tasks, wanted are 2"},
		"a task has not started": {func(c *celltest.Cell) {
			c.Release(slotOf(c, 0), task.Failed)
			c.Place("a", 0, "n1")
		}, "task default/a/main/0@1 is"},
		"a stopped job's tasks": {func(c *celltest.Cell) {
			c.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Stopped = true })
		}, "has 2 live tasks, wanted are 0"},
		"an older version's tasks": {func(c *celltest.Cell) {
			c.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Version++ })
		}, "its group has version 2"},
		"a batch job that is not done": {func(c *celltest.Cell) { c.Job(celltest.Job{Name: "b"}) }, "job default/b is not done"},
		"a node that is away":          {func(c *celltest.Cell) { c.Node(celltest.Node{Name: "n2"}) }, "node n2 has no session"},
		"a hold that is left":          {func(c *celltest.Cell) { c.Hold(&ohmv1.Hold{Node: "n1", Txn: "T", Instance: "i"}) }, "room on node n1 is held for T of i"},
		"a share of one that is gone": {func(c *celltest.Cell) {
			c.Quota(celltest.Namespace("default"), celltest.CPU(4000))
			c.Share(celltest.Account(celltest.Namespace("default"), "i"), celltest.CPU(1000))
		}, "a share of namespace default is left with i"},
		"a quota that is spent by one that is gone": {func(c *celltest.Cell) {
			c.Quota(celltest.Namespace("default"), celltest.CPU(4000))
		}, "test of namespace default is spent by nobody"},
		"more of a quota is wanted": {func(c *celltest.Cell) {
			c.Quota(celltest.Namespace("team"), celltest.CPU(4000))
			c.ShareOf(celltest.Account(celltest.Namespace("team"), "i"), func(s *ohmv1.Share) { s.Wanted = celltest.CPU(1) })
			c.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", "i"), Value: &ohmv1.SchedulerInstance{Scheduler: "batch", Instance: "i"}})
		}, "i wants more of namespace team"},
	} {
		t.Run(name, func(t *testing.T) {
			cell := settled(t)
			c.spoil(cell)
			open := Unsettled(cell.Snapshot())
			found := slices.ContainsFunc(open, func(s string) bool { return strings.Contains(s, c.want) })
			if (c.want == "") != (len(open) == 0) || c.want != "" && !found {
				t.Errorf("open: %q, want %q", open, c.want)
			}
		})
	}
}

// TestDiffer: what a mirror has lost, or has too much, is a difference.
func TestDiffer(t *testing.T) {
	cell := alive(t)
	before := cell.Snapshot()
	if d := Differ(Show(before), Show(cell.Snapshot())); d != "" {
		t.Errorf("equal cells differ: %s", d)
	}
	p := cell.Place("a", 0, "n1")
	for _, pair := range [][2]*cellstate.Snapshot{{before, cell.Snapshot()}, {cell.Snapshot(), before}} {
		if d := Differ(Show(pair[0]), Show(pair[1])); !strings.Contains(d, fmt.Sprint("fence ", int64(p.Revision))) {
			t.Errorf("the difference is %q", d)
		}
	}
	placed := cell.Snapshot()
	cell.Hold(&ohmv1.Hold{Node: "n1", Txn: "T"})
	cell.Quota(celltest.Namespace("team"), celltest.CPU(1000))
	quota := cell.Snapshot()
	cell.Share(celltest.Account(celltest.Namespace("team"), "i"), celltest.CPU(1000))
	for want, old := range map[string]*cellstate.Snapshot{"hold of T": placed, "share of batch i": quota} {
		if d := Differ(Show(cell.Snapshot()), Show(old)); d == "" || !strings.Contains(Show(cell.Snapshot()), want) {
			t.Errorf("%s is no difference", want)
		}
	}
	placed = cell.Snapshot()
	cell.Release(slotOf(cell, 0), task.Failed) // bumps no fence: nobody else notices that it is lost
	if d := Differ(Show(cell.Snapshot()), Show(placed)); d == "" {
		t.Error("a release that was lost is no difference")
	}
}

// TestPress: a claim that finds no room presses out as few as it needs, all of lower
// precedence, and the rule takes it.
func TestPress(t *testing.T) {
	cell := alive(t) // 4 CPUs
	for i := range 2 {
		cell.Place("a", i, "n1")
	}
	cell.Job(celltest.Job{Name: "low", Count: 2, CPU: 1000})
	for i := range 2 {
		cell.Place("low", i, "n1")
	}
	cell.Job(celltest.Job{Name: "high", Scheduler: pressName, Precedence: 250, CPU: 1500})
	s := cell.Snapshot()
	job := s.Job(celltest.Name("high"))
	in := schedulers.Input{Snapshot: s, Work: []schedulers.Work{{Job: job, Needs: []reconcile.Need{
		{Slot: celltest.Slot(s, job.Name, "main", 0), Attempt: 1, Group: job.Group("main")}}}}}
	p, err := Press{}.Schedule(t.Context(), in)
	if err != nil || len(p.Txns) != 1 || len(p.Txns[0].Claims) != 1 || len(p.Txns[0].Claims[0].Victims) != 2 {
		t.Fatalf("proposal %+v, %v", p, err)
	}
	if _, conflicts := cellstate.Validate(s, p.Txns[0]); len(conflicts) > 0 {
		t.Errorf("the rule says %+v", conflicts)
	}
	grown := proto.CloneOf(job.Group("main"))
	grown.Resources.CpuMilli = 5000
	in.Work[0].Needs[0].Group = grown
	if p, err = (Press{}).Schedule(t.Context(), in); err != nil || len(p.Txns) != 0 || len(p.Unplaced) != 1 || p.Unplaced[0].Nodes != 1 {
		t.Errorf("of what fits nowhere: %+v, %v", p, err)
	}
}

// TestReport: a run is a proof only if everything has happened in it and nothing was broken.
func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Report)
		want   string // empty: a proof
	}{
		"a proof":            {func(*Report) {}, ""},
		"a violation":        {func(r *Report) { r.Violations = []history.Violation{{Law: "L1", Detail: "too much"}} }, "1 violations"},
		"a fault too seldom": {func(r *Report) { r.Faults = func() []Count { return []Count{{"b", 3}, {"a", 2}} } }, "a: injected 2 times"},
		"nothing was placed": {func(r *Report) { r.Claims = 0 }, "nothing was committed"},
		"no share moved":     {func(r *Report) { r.Tally.Moved = 0 }, "no quota was dealt out"},
		"no quota bound":     {func(r *Report) { r.Tally.Bound = 0 }, "no quota was dealt out"},
		"nothing was held":   {func(r *Report) { r.Tally.Placed = 0 }, "no room was held"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{Claims: 1, Tally: tally{Moved: 1, Bound: 1, Placed: 1}, Faults: func() []Count { return []Count{{"a", 3}} }}
			c.change(r)
			err := r.Err()
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			var out strings.Builder
			r.Print(&out)
			for _, v := range r.Violations {
				if !strings.Contains(out.String(), v.String()) {
					t.Errorf("the report does not show %v:\n%s", v, out.String())
				}
			}
		})
	}
}

// TestSeeds: what is kept of former finds can be run again, and is held by a test that is there.
func TestSeeds(t *testing.T) {
	raw, err := os.ReadFile("seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		part := strings.Split(strings.TrimSpace(line), " | ")
		if len(part) != 4 || !strings.Contains(part[1], "SEED="+part[0]+" ") {
			t.Errorf("not a row: %s", line)
			continue
		}
		for _, m := range regexp.MustCompile(`-fault '([^']+)'`).FindAllStringSubmatch(part[1], -1) {
			if len(selected([]string{m[1]})) != 1 {
				t.Errorf("there is no fault %q", m[1])
			}
		}
		if _, err := os.Stat(filepath.Join("..", "..", part[3])); err != nil {
			t.Error(err)
		}
	}
	if rows == 0 {
		t.Error("no rows")
	}
}

// TestTally counts from the store's records alone.
func TestTally(t *testing.T) {
	store := memstore.New()
	cell := aliveIn(t, store)
	var got tally
	at := cell.Snapshot()
	see := func(what string, want tally, happens ...func()) {
		t.Helper()
		for _, f := range happens {
			f()
		}
		present := cell.Snapshot().Revision()
		for b, err := range store.Changes(t.Context(), at.Revision()) {
			if err != nil {
				t.Fatal(err)
			}
			after, _, err := at.Apply(b)
			if err != nil {
				t.Fatal(err)
			}
			got.see(at, after, b)
			if at = after; at.Revision() >= present {
				break
			}
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	team := cellstate.Account{Scope: celltest.Namespace("default"), Spender: cellstate.Spender{Scheduler: "service", Instance: "test"}}
	see("a quota", tally{}, func() { cell.Quota(team.Scope, celltest.CPU(1000)) })
	see("a share", tally{Moved: 1}, func() { cell.Share(team, celltest.CPU(1000)) })
	see("its renewal", tally{Moved: 1}, func() { cell.ShareOf(team, func(s *ohmv1.Share) { s.Renewals++ }) })
	see("a task that takes it all", tally{Moved: 1, Bound: 1}, func() { cell.Place("a", 0, "n1") })
	see("it is taken back", tally{Moved: 2, Bound: 1}, func() { cell.Share(team, nil) })
	see("a hold", tally{Moved: 2, Bound: 1, Placed: 1}, func() { cell.Hold(&ohmv1.Hold{Node: "n1", Txn: "T"}) })
	see("its end", tally{Moved: 2, Bound: 1, Placed: 1, Ended: 1}, func() {
		cell.Put(cellstate.Record{Key: cellstate.HoldKey("n1", "T"), Read: cell.Snapshot().Node("n1").Holds[0].Revision})
	})
}

// TestSlow proposes for tasks and for gangs, each by their own policy.
func TestSlow(t *testing.T) {
	cell := alive(t)
	cell.Job(celltest.Job{Name: "b", Scheduler: slowName, CPU: 500})
	cell.Job(celltest.Job{Name: "g", Scheduler: slowName, Kind: "ml", Gang: true, Count: 2, CPU: 500})
	s := cell.Snapshot()
	in := schedulers.Input{Snapshot: s}
	for _, name := range []string{"b", "g"} {
		w := schedulers.Work{Job: s.Job(celltest.Name(name))}
		for i := range w.Job.Group("main").GetCount() {
			w.Needs = append(w.Needs, reconcile.Need{Slot: celltest.Slot(s, w.Job.Name, "main", int(i)), Attempt: 1, Group: w.Job.Group("main")})
		}
		in.Work = append(in.Work, w)
	}
	p, err := NewSlow(time.Millisecond).Schedule(t.Context(), in)
	if err != nil || len(p.Txns) != 2 || p.Txns[0].Mode != cellstate.Atomic || len(p.Txns[0].Claims) != 2 || p.Txns[1].Mode != cellstate.Incremental || len(p.Txns[1].Claims) != 1 {
		t.Errorf("proposal %+v, %v", p, err)
	}
}
