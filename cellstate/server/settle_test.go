package server

import (
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestReportsSettle: while many reports come in, a start waits for a while and gives way to
// its end; an end never waits, and neither does anything while few come.
func TestReportsSettle(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := newReports(nil)
	of := func(i int) attempt { return attempt{cellstate.Slot{Job: "j", Index: i}, "T", "n"} }
	said := func(i int, s task.State, message string) {
		r.keep(of(i), &ohmv1.Status{State: s, Message: message}, true, now)
	}
	taken := func(when string, later time.Duration, want map[int]task.State) {
		t.Helper()
		got, at := r.take(now)
		if len(got) != len(want) {
			t.Errorf("%s: %d reports, want %d", when, len(got), len(want))
		}
		for i, s := range want {
			if got[of(i)].GetState() != s {
				t.Errorf("%s: %d is %s, want %s", when, i, task.Name(got[of(i)].GetState()), task.Name(s))
			}
		}
		if later == 0 != at.IsZero() || later != 0 && at.Sub(now) != later {
			t.Errorf("%s: others at %v, want in %v", when, at, later)
		}
	}
	r.count(1, now)
	said(0, task.Running, "")
	taken("few come", 0, map[int]task.State{0: task.Running})

	now = now.Add(time.Second)
	r.count(busyReports+1, now)
	said(1, task.Running, "")
	said(2, task.Starting, "")
	said(3, task.Running, "look at this")
	said(4, task.Succeeded, "")
	taken("at once", settle, map[int]task.State{3: task.Running, 4: task.Succeeded})
	now = now.Add(settle / 2)
	said(1, task.Failed, "")
	said(1, task.Running, "") // late
	said(2, task.Running, "")
	said(5, task.Running, "")
	taken("an end gives no time", settle/2, map[int]task.State{1: task.Failed})
	now = now.Add(settle / 2)
	taken("settled", 0, map[int]task.State{2: task.Running, 5: task.Running})
	taken("all is said", 0, nil)

	now = now.Add(time.Minute)
	r.count(busyReports, now)
	said(6, task.Running, "")
	taken("few come again", 0, map[int]task.State{6: task.Running})
}
