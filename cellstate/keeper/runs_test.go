package keeper

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// waits adds a run that waits for its turn.
func (h *house) waits(job cellstate.JobName, number int64) {
	h.Put(cellstate.Record{Key: cellstate.RunKey(job, number), Value: &ohmv1.Run{Job: &ohmv1.Job{Spec: celltest.Job{Name: job.Name}.Proto(), SubmitTime: timestamppb.Now()}}})
}

// runs are the states of a job's runs by number, the one of its record in brackets. (In a bubble.)
func (h *house) runs(job cellstate.JobName) string {
	text := ""
	row := h.Snapshot().Job(job)
	for _, v := range reconcile.History(h.Snapshot(), row, 0, time.Now()) {
		one := fmt.Sprintf("%d:%s", v.Run, v.State)
		if v.Run == reconcile.RunOf(row) {
			one = fmt.Sprintf("[%s v%d]", one, v.Version)
		}
		text = one + " " + text
	}
	return text
}

// Runs of a job follow each other, each when the one before has ended and not sooner, in
// the order in which they were asked for; a run that is stopped before it begins never does.
func TestRunsFollow(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		a := h.Job(celltest.Job{Name: "a"})
		h.run(h.keeper("s1", Limits{}))
		p := h.Place("a", 0, "n1")
		for n := range int64(4) {
			h.waits(a, 2+n)
		}
		h.pass(time.Second)
		h.is(a, "[1:Pending v1] 2:Pending 3:Pending 4:Pending 5:Pending ")
		h.Release(p.Slot, task.Succeeded)
		h.pass(time.Second)
		h.is(a, "1:Succeeded [2:Pending v2] 3:Pending 4:Pending 5:Pending ")
		h.Mark(a, func(j *ohmv1.Job) { j.Stopped, j.StoppedThrough = true, 4 }) // as a stop does that sees run 4
		h.pass(time.Second)
		h.is(a, "1:Succeeded 2:Stopped 3:Stopped 4:Stopped [5:Pending v3] ")
		h.Put(h.failure(h.Place("a", 0, "n1"))...)
		h.pass(time.Second)
		h.is(a, "1:Succeeded 2:Stopped 3:Stopped 4:Stopped [5:Failed v3] ")
		h.waits(a, 6) // by somebody who had not seen that run 5 has ended
		h.pass(time.Second)
		h.is(a, "1:Succeeded 2:Stopped 3:Stopped 4:Stopped 5:Failed [6:Pending v4] ")
	})
}

func (h *house) is(job cellstate.JobName, want string) {
	h.t.Helper()
	if got := h.runs(job); got != want {
		h.t.Errorf("runs are %q, want %q", got, want)
	}
}

// Field case 121: a day after its end, when the job's records have gone, it is still told how each
// attempt went, on which node and with which exit code; of 10,000 attempts the first ones and
// the newest.
func TestCase121(t *testing.T) {
	inHouse(t, func(h *house) {
		h.Node(celltest.Node{Name: "n1"})
		h.alive("n1")
		a := h.Job(celltest.Job{Name: "a", Count: 2, Retries: 1})
		h.run(h.keeper("s1", Limits{}))
		h.Release(h.Place("a", 1, "n1").Slot, task.Succeeded)
		for range 2 {
			p := h.Place("a", 0, "n1")
			h.pass(time.Minute)
			status := celltest.StatusOf(p, task.Failed)
			status.ExitCode, status.Message = 42, "no such table"
			status.Started, status.Ended = timestamppb.New(time.Now().Add(-time.Minute)), timestamppb.Now()
			h.Put(cellstate.ReleaseRecords(h.Snapshot().Job(a).Task(p.Slot), status)...)
		}
		web := h.Job(celltest.Job{Name: "web", Kind: "service"})
		for i := range 10_000 {
			if h.Put(h.failure(h.Place("web", 0, "n1"))...); i%50 == 0 {
				h.pass(2 * time.Minute)
			}
		}
		h.Mark(web, func(j *ohmv1.Job) { j.Stopped = true })
		h.pass(25 * time.Hour)
		row := h.Snapshot().Job(a)
		if row.Record != nil || len(row.Tasks) > 0 {
			t.Fatalf("the job is still there: %v", row.Record)
		}
		v := reconcile.History(h.Snapshot(), row, 1, time.Now())[0]
		if v.State != "Failed" || v.Message != "main/0 failed (exited 42) in attempt 2: no such table" || len(v.Attempts) != 3 {
			t.Fatalf("a day later: %v", v)
		}
		for i, want := range []string{"a/main/0#1 n1 exited 42 42", "a/main/0#2 n1 exited 42 42", "a/main/1#1 n1 exited 0 0"} {
			x := v.Attempts[i]
			if got := fmt.Sprintf("%s#%d %s %s %d", x.Task, x.Attempt, x.Node, x.Cause, x.ExitCode); got != want {
				t.Errorf("attempt %d is %s, want %s", i, got, want)
			}
			if x.ExitCode != 0 && (x.Placed == nil || x.Ended.AsTime().Sub(x.Started.AsTime()) != time.Minute) {
				t.Errorf("%s has lost its times: %v", x.Task, x)
			}
		}
		w := reconcile.History(h.Snapshot(), h.Snapshot().Job(web), 1, time.Now())[0]
		var first, last int32
		if n := len(w.Attempts); n == reconcile.FirstAttempts+reconcile.NewestAttempts {
			first, last = w.Attempts[4].Attempt, w.Attempts[5].Attempt
		}
		if first != 5 || last != 9981 || w.AttemptsLeftOut != 9975 {
			t.Errorf("of 10,000 attempts %d are told and %d left out: to %d, then from %d", len(w.Attempts), w.AttemptsLeftOut, first, last)
		}
	})
}
