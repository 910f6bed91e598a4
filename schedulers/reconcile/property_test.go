package reconcile_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/pkg/task"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// A slot with retries r is never given a node again once r + 1 of its attempts ended
// by a user error, or one by success, whatever else happened to it; and until then it
// always gets one in the end.
func TestBudgetOfASlot(t *testing.T) {
	causes := []string{
		task.Exited, task.Signalled, task.OOMKilled, task.StartFailed, task.TimedOut, task.UnknownExit,
		task.Stop, task.Drained, task.Preempted, task.NodeLost,
		task.PortBusy, task.DeviceLost, task.DiskFull, task.Refused, task.StartDeadline,
	}
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom([]string{"batch", "ml"}).Draw(rt, "kind")
		r := rapid.Int32Range(0, 4).Draw(rt, "retries")
		now := t0
		var ends []end
		starts, errors, succeeded := 0, int32(0), false
		for step := 0; step < 30; step++ {
			s, j := newBuild(t, kind, 1, retries(r)).ended(slot(0), ends...).snapshot()
			d := reconcile.Job(s, j, now)
			over := succeeded || errors > r
			switch {
			case over != (d.Done != nil):
				rt.Fatalf("after %d errors of %d and success %v: done %v", errors, r+1, succeeded, d.Done)
			case over && (len(d.Needs) > 0 || !d.Wake.IsZero()):
				rt.Fatalf("it is over and still needs %v, wakes %v", d.Needs, d.Wake)
			case over:
				want := reconcile.Failed
				if succeeded {
					want = reconcile.Succeeded
				}
				if d.State != want {
					rt.Fatalf("state %s, want %s", d.State, want)
				}
				return
			case len(d.Needs) == 0:
				if !d.Wake.After(now) || d.Wake.After(now.Add(time.Minute)) {
					rt.Fatalf("it needs nothing and wakes %v after now", d.Wake.Sub(now))
				}
				now = d.Wake
				continue
			}
			if d.Needs[0].Attempt != starts+1 {
				rt.Fatalf("attempt %d after %d starts", d.Needs[0].Attempt, starts)
			}
			starts++
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(rt, "ran")) * time.Millisecond)
			e := end{cause: rapid.SampledFrom(causes).Draw(rt, "cause"), at: now.Sub(t0).Seconds()}
			switch e.cause {
			case task.Exited:
				e.code = rapid.Int32Range(0, 2).Draw(rt, "code")
				succeeded = e.code == 0
				if e.code != 0 {
					errors++
				}
			case task.Stop, task.Drained, task.Preempted, task.NodeLost, task.UnknownExit,
				task.PortBusy, task.DeviceLost, task.DiskFull, task.Refused, task.StartDeadline:
			default:
				errors++
			}
			ends = append(ends, e)
		}
	})
}
