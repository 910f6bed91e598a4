package schedulers_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// would asks where the tasks of a job would go if it were that, and returns what is said of its only group.
func would(t *testing.T, cell *schedtest.Cell, job celltest.Job) *ohmv1.GroupPlacement {
	t.Helper()
	spec := job.Proto()
	q := &ohmv1.Ask{Scheduler: spec.Scheduler, Namespace: spec.Namespace, Job: spec.Name, Plan: &ohmv1.Job{Spec: spec, Version: 1}}
	if row := cell.Snapshot().Job(celltest.Name(spec.Name)); row != nil {
		q.Plan, q.Rollout = reconcile.Next(row, spec, time.Now())
	}
	a := ask(cell, q)
	if a.GetProblem() != "" || len(a.GetPlacement().GetGroups()) != 1 {
		t.Fatalf("the answer is %v", a)
	}
	return a.Placement.Groups[0]
}

// A plan is made as if what it ends had ended, and as if all that runs went on: of a change it says
// what room the new tasks find when the old ones have gone. Nothing is claimed by it.
func TestPlanOfPlacement(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000})
		for kind, policy := range map[string]schedulers.Scheduler{"batch": batch.New(), "service": service.New(), "ml": ml.New()} {
			cell.Run(kind, "a", policy)
		}
		web := celltest.Job{Name: "web", Kind: "service", CPU: 2000, Count: 2}
		if g := would(t, cell, web); g.Wanted != 2 || g.Placed != 2 || len(g.Chosen) != 2 || g.Chosen[1].GetTask() != "web/main/1" || g.Chosen[1].GetNode() != "n1" {
			t.Errorf("of a new job: %v", g)
		}
		cell.Submit(web)
		cell.Until("web is placed", placed("web", 2))
		for _, c := range []struct {
			what           string
			cpu            int64
			count          int
			wanted, placed int32
			message        string
		}{
			{"the same again, in the room of the old", 2001, 1, 1, 1, ""},
			{"larger ones", 3000, 2, 2, 1, "main: no node for 1 task: of 1 node 1 short of cpu"},
			{"one more", 2000, 3, 1, 0, "main: no node for 1 task"},
			{"one less", 2000, 1, 0, 0, ""},
			{"what no node can", 5000, 1, 1, 0, "it can never run on the nodes of this cell"},
		} {
			changed := web
			changed.CPU, changed.Count = c.cpu, c.count
			g := would(t, cell, changed)
			if g.Wanted != c.wanted || g.Placed != c.placed || !strings.Contains(g.Message, c.message) || (c.message == "") != (g.Message == "") || (g.Waiting == nil) != (c.message == "") {
				t.Errorf("%s: %v; want %d of %d placed, and %q", c.what, g, c.placed, c.wanted, c.message)
			}
		}
		if g := would(t, cell, celltest.Job{Name: "gang", Kind: "ml", Gang: true, CPU: 1, Count: 2}); g.Wanted != 2 || g.Placed != 0 {
			t.Errorf("of a gang without room: %v", g)
		}
		s := cell.Snapshot()
		if s.Job(celltest.Name("gang")) != nil || schedtest.Placed(s, "web") != 2 || s.Job(celltest.Name("web")).Record.GetVersion() != 1 {
			t.Error("a plan has changed something")
		}
		// The policy goes on from what is there, not from what was tried.
		cell.Submit(celltest.Job{Name: "more", CPU: 1})
		cell.Until("more waits", waits("more"))
		cell.End(s.Job(celltest.Name("web")).Tasks[0].Slot, "Stopped")
		cell.Until("there is room", func(s *cellstate.Snapshot) bool { return schedtest.Placed(s, "web")+schedtest.Placed(s, "more") == 2 })
		schedtest.Audited(t, cell.Store, nil)
	})
}

// A quota is asked, too: what is left of it, whoever has the share.
func TestPlanUnderAQuota(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 8000})
		cell.Run("batch", "a", batch.New())
		cell.Quota(celltest.Namespace("default"), &ohmv1.Amounts{CpuMilli: proto.Int64(2500)})
		if g := would(t, cell, celltest.Job{Name: "j", CPU: 1000, Count: 3}); g.Wanted != 3 || g.Placed != 2 || !strings.Contains(g.Message, "waiting for the quota of namespace default") {
			t.Errorf("beyond the quota: %v", g)
		}
		if g := would(t, cell, celltest.Job{Name: "j", CPU: 3000}); g.Placed != 0 || !strings.Contains(g.Message, "can never run under the quota") {
			t.Errorf("larger than the quota: %v", g)
		}
	})
}
