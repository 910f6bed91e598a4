package robustness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
func alive(t *testing.T) *celltest.Cell {
	t.Helper()
	cell := celltest.New(t, memstore.New())
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
		}, "the job has version 2"},
		"a batch job that is not done": {func(c *celltest.Cell) { c.Job(celltest.Job{Name: "b"}) }, "job default/b is not done"},
		"a node that is away":          {func(c *celltest.Cell) { c.Node(celltest.Node{Name: "n2"}) }, "node n2 has no session"},
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
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{Claims: 1, Faults: func() []Count { return []Count{{"a", 3}} }}
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
