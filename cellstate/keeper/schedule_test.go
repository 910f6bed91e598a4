package keeper

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// scheduled gives a job a schedule.
func (h *house) scheduled(job string, rule *ohmv1.Cron) cellstate.JobName {
	spec := celltest.Job{Name: job}.Proto()
	spec.Schedule = rule
	if rule.StartWithin == nil {
		rule.StartWithin = durationpb.New(time.Minute)
	}
	name := celltest.Name(job)
	h.Put(cellstate.Record{Key: cellstate.ScheduleKey(name), Value: &ohmv1.Schedule{Spec: spec, Through: timestamppb.Now()}})
	return name
}

// play has the job's task run for so long, wherever it needs a node, and ends it with success; it
// returns the times at which runs began, and fails where two are live. (In a bubble.)
func (h *house) play(job cellstate.JobName, lasts, until time.Duration, each func(second int)) []string {
	h.t.Helper()
	began := map[cellstate.Slot]time.Time{}
	var launched []string
	for second := range int(until / time.Second) {
		h.pass(time.Second)
		if each != nil {
			each(second)
		}
		s := h.Snapshot()
		row := s.Job(job)
		if row.Record == nil {
			continue
		}
		live := 0
		for _, t := range row.Tasks {
			if t.Placement == nil {
				continue
			}
			live++
			if time.Since(began[t.Slot]) >= lasts || row.Record.GetStopped() {
				status := celltest.StatusOf(t.Placement, task.Succeeded)
				if row.Record.GetStopped() {
					status.State, status.Cause = task.Stopped, task.Stop
				}
				h.Put(cellstate.ReleaseRecords(t, status)...)
			}
		}
		if live > 1 {
			h.t.Fatalf("%d tasks are live after %d s", live, second)
		}
		needs, _ := reconcile.Defaults().Needs(s, row, time.Now())
		for _, n := range needs {
			h.Place(job.Name, n.Slot.Index, "n1")
			began[n.Slot] = time.Now()
			due := row.Record.GetDue().AsTime()
			if time.Since(due) > time.Minute {
				due = time.Now()
			}
			launched = append(launched, due.UTC().Format("15:04"))
		}
	}
	return launched
}

// Field case 81: a schedule of each minute, runs of 90 seconds, and a leader that is killed every 20
// seconds: never are two live, and what is left out is what came while one was.
func TestCase81(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		a := h.scheduled("a", &ohmv1.Cron{Cron: "* * * * *", Overlap: "forbid", CatchUp: "none"})
		stop := h.run(h.keeper("s0", Limits{}))
		launched := h.play(a, 90*time.Second, 10*time.Minute+30*time.Second, func(second int) {
			if second%20 == 19 {
				stop()
				stop = h.run(h.keeper(fmt.Sprintf("s%d", second), Limits{}))
			}
		})
		if got := strings.Join(launched, " "); got != "00:01 00:03 00:05 00:07 00:09" {
			t.Errorf("launched at %s", got)
		}
		if r := h.Snapshot().Job(a).Schedule; r.GetLaunched() != 5 || r.GetLeftOut() != 5 {
			t.Errorf("%d launched, %d left out, want 5 and 5", r.GetLaunched(), r.GetLeftOut())
		}
	})
}

// A keeper that has not noticed that another leads, or that a run has begun meanwhile, launches
// nothing: its write does not apply.
func TestLaunchComparesTheRun(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		for _, overlap := range []string{"forbid", "queue", "replace"} {
			a := h.scheduled("job-"+overlap, &ohmv1.Cron{Cron: "* * * * *", Overlap: overlap, CatchUp: "one"})
			h.pass(time.Minute)
			stale := h.Snapshot()
			write := func() cellstate.Write {
				w, _ := launch(stale, stale.Job(a), time.Now())
				if w == nil {
					t.Fatal("nothing is due")
				}
				return *w
			}
			launched := write()
			h.Job(celltest.Job{Name: a.Name}) // by somebody else
			if out, err := h.store.Commit(h.ctx, launched); err != nil || out.Applied[0] != 0 {
				t.Errorf("%s: a launch beside a run that has begun: %v, %v", overlap, out, err)
			}
			h.Mark(a, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Succeeded"} })
			stale = h.Snapshot()
			for i, w := range []cellstate.Write{write(), write()} {
				if out, err := h.store.Commit(h.ctx, w); err != nil || out.Applied[0] > 0 != (i == 0) {
					t.Errorf("%s: launch %d of two: %v, %v", overlap, i+1, out, err)
				}
			}
		}
	})
}

// What is due while a run goes on takes its place, or its turn.
func TestOverlap(t *testing.T) {
	for overlap, want := range map[string]string{
		"replace": "1:Stopped 2:Stopped [3:Running v3] ",
		"queue":   "1:Succeeded [2:Running v2] 3:Pending ",
	} {
		inHouse(t, func(h *house) {
			h.Node(celltest.Node{Name: "n1"})
			h.alive("n1")
			a := h.scheduled("a", &ohmv1.Cron{Cron: "* * * * *", Overlap: overlap, CatchUp: "one"})
			h.run(h.keeper("s1", Limits{}))
			h.play(a, 90*time.Second, 3*time.Minute+20*time.Second, nil)
			p := h.Snapshot().Job(a)
			for _, task := range p.Tasks {
				if task.Placement != nil {
					h.Put(cellstate.Record{Key: task.Slot.StatusKey(), Value: celltest.StatusOf(task.Placement, ohmv1.TaskState_TASK_STATE_RUNNING)})
				}
			}
			h.is(a, want)
		})
	}
}

// What was missed while nobody led is caught up with as the schedule says, and no more.
func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		rule    *ohmv1.Cron
		runs    string
		leftOut int64
	}{
		{&ohmv1.Cron{Cron: "0 * * * *", Overlap: "forbid", CatchUp: "none"}, "", 5},
		{&ohmv1.Cron{Cron: "0 * * * *", Overlap: "forbid", CatchUp: "none", StartWithin: durationpb.New(time.Hour)}, "05:00", 4},
		{&ohmv1.Cron{Cron: "0 * * * *", Overlap: "forbid", CatchUp: "one"}, "05:00", 4},
		{&ohmv1.Cron{Cron: "0 * * * *", Overlap: "queue", CatchUp: "all", Limit: 3}, "03:00 04:00 05:00", 2},
		{&ohmv1.Cron{Cron: "0 * * * *", Overlap: "queue", CatchUp: "all", Limit: 10}, "01:00 02:00 03:00 04:00 05:00", 0},
	} {
		inHouse(t, func(h *house) {
			a := h.scheduled("a", c.rule)
			h.pass(5*time.Hour + 30*time.Minute)
			h.run(h.keeper("s1", Limits{}))
			h.pass(5 * time.Second)
			row := h.Snapshot().Job(a)
			var runs []string
			if row.Record != nil {
				runs = append(runs, row.Record.GetDue().AsTime().Format("15:04"))
			}
			for _, r := range row.Runs {
				runs = append(runs, r.GetJob().GetDue().AsTime().Format("15:04"))
			}
			if got := strings.Join(runs, " "); got != c.runs || row.Schedule.GetLeftOut() != c.leftOut {
				t.Errorf("%v: launched %s, left out %d, want %s and %d", c.rule, got, row.Schedule.GetLeftOut(), c.runs, c.leftOut)
			}
			h.pass(20 * time.Minute)
			if n := int(h.Snapshot().Job(a).Schedule.GetLaunched()); n != len(runs) {
				t.Errorf("%v: %d were launched in the end, want %d", c.rule, n, len(runs))
			}
		})
	}
}

// Field case 79, by a keeper: over the day on which New York's clocks go forward there is a run for each
// day, and not one more.
func TestCase79(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		h.pass(time.Until(time.Date(2000, 4, 1, 0, 0, 0, 0, time.UTC)))
		two := h.scheduled("two", &ohmv1.Cron{Cron: "0 2 * * *", TimeZone: "America/New_York", Overlap: "queue", CatchUp: "none"})
		h.run(h.keeper("s1", Limits{Sweep: 12 * time.Hour}))
		var due []string
		days := func(n int) {
			for range n * 24 {
				h.pass(time.Hour)
				row := h.Snapshot().Job(two)
				if row.Record == nil || row.Record.GetDone() != nil {
					continue
				}
				due = append(due, row.Record.GetDue().AsTime().UTC().Format("0102 15:04"))
				h.Release(h.Place("two", 0, "n1").Slot, task.Succeeded)
			}
		}
		days(3)
		if got, want := strings.Join(due, ", "), "0401 07:00, 0402 07:00, 0403 06:00"; got != want {
			t.Errorf("in spring: runs for %s, want %s", got, want)
		}
	})
}
