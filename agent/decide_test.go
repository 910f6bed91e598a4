package agent

import (
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestDecide(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	wanted, stopping := assignment("a", 1000), assignment("a", 1000, stopFor(task.Preempted))
	atOnce := assignment("a", 1000, stopFor(task.Stop), func(a *ohmv1.Assignment) { a.Stop.Grace = durationpb.New(0) })
	limited := assignment("a", 1000, maxRuntime(time.Minute))
	p := wanted.GetPlacement()
	done := endStatus(p, task.Succeeded, task.Exited, "")
	run := essence(wanted)
	running := driver.Observation{State: task.Running, Started: ago(30 * time.Second), Pid: 7}
	exited := driver.Observation{State: task.Succeeded, Cause: task.Exited, Started: ago(30 * time.Second), Ended: ago(time.Second)}
	booted := assignment("a", 1000, stopFor(task.NodeLost))
	unseen := driver.Observation{State: task.Failed, Cause: task.UnknownExit, Started: ago(time.Hour), Ended: ago(time.Second)}
	for _, c := range []struct {
		name   string
		s      situation
		call   driver.Call
		status string // state and cause
		asked  time.Duration
		cause  string // in the memo
		wake   time.Duration
		gone   bool
	}{
		{name: "new", s: situation{desired: wanted}, call: driver.CallStart},
		{name: "prepared", s: situation{desired: wanted, here: true, seen: driver.Observation{State: task.Assigned}}, call: driver.CallStart},
		{name: "starts", s: situation{desired: wanted, here: true, seen: driver.Observation{State: task.Starting}}, status: "Starting"},
		{name: "runs", s: situation{desired: wanted, here: true, seen: running}, status: "Running"},
		{name: "runs for a while", s: situation{desired: limited, here: true, seen: running}, status: "Running", wake: 30 * time.Second},
		{name: "ran and vanished", s: situation{desired: wanted, memo: memo{Started: true}}, status: "Failed UnknownExit"},
		{name: "ended as the journal knows", s: situation{desired: wanted, memo: memo{Started: true, End: done}}, status: "Succeeded Exited"},
		{name: "ended", s: situation{desired: wanted, here: true, seen: exited}, status: "Succeeded Exited"},
		{name: "alive after its end", s: situation{desired: wanted, here: true, seen: running, memo: memo{End: done}},
			call: driver.CallTerminate, status: "Succeeded Exited", asked: 0, wake: 10 * time.Second},
		{name: "to stop", s: situation{desired: stopping, here: true, seen: running},
			call: driver.CallTerminate, status: "Stopping", cause: task.Preempted, wake: 10 * time.Second},
		{name: "to stop, never started", s: situation{desired: stopping}, status: "Stopped Preempted"},
		{name: "to stop at once", s: situation{desired: atOnce, here: true, seen: running, memo: memo{Run: essence(atOnce)}},
			call: driver.CallKill, status: "Stopping", cause: task.Stop},
		{name: "stops", s: situation{desired: stopping, here: true, seen: running, memo: memo{StopAsked: ago(4 * time.Second), StopCause: task.Stop}},
			status: "Stopping", asked: 4 * time.Second, cause: task.Stop, wake: 6 * time.Second},
		{name: "stops, but the signal was not sent", s: situation{desired: stopping, here: true, seen: running, unsent: true, memo: memo{StopAsked: ago(4 * time.Second), StopCause: task.Stop}},
			call: driver.CallTerminate, status: "Stopping", asked: 4 * time.Second, cause: task.Stop, wake: 6 * time.Second},
		{name: "does not stop", s: situation{desired: stopping, here: true, seen: running, memo: memo{StopAsked: ago(10 * time.Second), StopCause: task.Stop}},
			call: driver.CallKill, status: "Stopping", asked: 10 * time.Second, cause: task.Stop},
		{name: "wanted again", s: situation{desired: wanted, here: true, seen: running, memo: memo{StopAsked: ago(time.Second), StopCause: task.Stop}},
			status: "Stopping", asked: time.Second, cause: task.Stop, wake: 9 * time.Second},
		{name: "of before the boot, never heard of", s: situation{desired: booted}, status: "Lost NodeLost"},
		{name: "of before the boot, started", s: situation{desired: booted, memo: memo{Started: true}}, status: "Lost NodeLost"},
		{name: "of before the boot, its end not seen", s: situation{desired: booted, here: true, seen: unseen}, status: "Lost NodeLost"},
		{name: "of before the boot, its end seen", s: situation{desired: booted, here: true, seen: exited}, status: "Succeeded Exited"},
		{name: "of before the boot, ended as the journal knows", s: situation{desired: booted, memo: memo{Started: true, End: done}}, status: "Succeeded Exited"},
		{name: "over its limit", s: situation{desired: assignment("a", 1, maxRuntime(30*time.Second)), here: true, seen: running},
			call: driver.CallTerminate, status: "Stopping", cause: task.TimedOut, wake: 10 * time.Second},
		{name: "released while it runs", s: situation{here: true, seen: running}, call: driver.CallTerminate, wake: 10 * time.Second},
		{name: "released, grace over", s: situation{here: true, seen: running, memo: memo{StopAsked: ago(time.Minute)}}, call: driver.CallKill, asked: time.Minute},
		{name: "released and ended", s: situation{here: true, seen: exited}, call: driver.CallRemove},
		{name: "released, only prepared", s: situation{here: true, seen: driver.Observation{State: task.Assigned}}, call: driver.CallRemove},
		{name: "released and gone", s: situation{memo: memo{Started: true, End: done}}, gone: true},
	} {
		c.s.now = now
		if c.s.memo.Run == nil {
			c.s.memo.Run = run
		}
		d := decide(c.s)
		status := ""
		if d.status != nil {
			if status = task.Name(d.status.GetState()); d.status.GetCause() != "" {
				status += " " + d.status.GetCause()
			}
		}
		var wake time.Time
		if c.wake > 0 {
			wake = now.Add(c.wake)
		}
		if d.call != c.call || status != c.status || !d.wake.Equal(wake) || d.gone != c.gone {
			t.Errorf("%s: call %q, status %q, wake %v, gone %v", c.name, d.call, status, d.wake, d.gone)
		}
		var asked time.Time
		if c.asked > 0 || c.call == driver.CallTerminate || c.call == driver.CallKill {
			asked = ago(c.asked)
		}
		if !d.memo.StopAsked.Equal(asked) || d.memo.StopCause != c.cause {
			t.Errorf("%s: asked %v for %q", c.name, d.memo.StopAsked, d.memo.StopCause)
		}
		// Once decided and written down nothing new follows from the same situation.
		c.s.memo = d.memo
		if again := decide(c.s); again.memo != d.memo || !proto.Equal(again.status, d.status) {
			t.Errorf("%s: decided differently again: %+v, then %+v", c.name, d, again)
		}
	}
}

func TestSeenEnd(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	asked := func(cause string, d time.Duration) memo { return memo{StopAsked: at.Add(d), StopCause: cause} }
	end := func(cause string, code, signal int) driver.Observation {
		return driver.Observation{State: task.Failed, Cause: cause, ExitCode: code, Signal: signal, Started: at.Add(-time.Hour), Ended: at, Pid: 3, Message: "m"}
	}
	lost := end(task.UnknownExit, 0, 0)
	lost.State = task.Lost
	for _, c := range []struct {
		name string
		o    driver.Observation
		memo memo
		stop string
		want string
	}{
		{"well", end(task.Exited, 0, 0), memo{}, "", "Succeeded Exited"},
		{"badly", end(task.Exited, 4, 0), memo{}, "", "Failed Exited"},
		{"signal", end(task.Signalled, 0, 11), memo{}, "", "Failed Signalled"},
		{"memory", end(task.OOMKilled, 0, 9), memo{}, "", "Failed OOMKilled"},
		{"unknown", end(task.UnknownExit, 0, 0), memo{}, "", "Failed UnknownExit"},
		{"lost", lost, memo{}, "", "Lost UnknownExit"},
		{"no start", end(task.StartFailed, 0, 0), memo{}, task.Stop, "Failed StartFailed"},
		{"stopped, well", end(task.Exited, 0, 0), asked(task.Stop, -time.Second), task.Stop, "Stopped Stopped"},
		{"stopped, badly", end(task.Exited, 143, 0), asked(task.Drained, -time.Second), task.Stop, "Stopped Drained"},
		{"ended before it was asked", end(task.Exited, 0, 0), asked(task.Stop, time.Second), task.Stop, "Succeeded Exited"},
		{"killed before it was asked", end(task.Signalled, 0, 9), asked(task.Stop, time.Second), task.Stop, "Failed Signalled"},
		{"timed out", end(task.Signalled, 0, 15), asked(task.TimedOut, -time.Second), "", "Failed TimedOut"},
		{"not desired", end(task.Signalled, 0, 15), asked("", -time.Second), "", "Stopped Stopped"},
		{"ended by itself, then to stop", end(task.Exited, 0, 0), memo{}, task.Stop, "Succeeded Exited"},
		{"stopped by an agent without memory", end(task.Signalled, 0, 15), memo{}, task.Preempted, "Stopped Preempted"},
	} {
		st := seenEnd(assignment("a", 1).GetPlacement(), c.o, &c.memo, c.stop)
		equal(t, c.name, task.Name(st.GetState())+" "+st.GetCause(), c.want)
		if int(st.GetExitCode()) != c.o.ExitCode || int(st.GetSignal()) != c.o.Signal || st.GetPid() != 3 ||
			!st.GetEnded().AsTime().Equal(at) || st.GetMessage() != "m" || st.GetTxn() != "t-a" || st.GetNode() != "n1" || st.GetAttempt() != 1 {
			t.Errorf("%s: %v", c.name, st)
		}
	}
}

func TestStopPolicy(t *testing.T) {
	for name, want := range map[string]syscall.Signal{
		"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGUSR2": syscall.SIGUSR2, "": defaultSignal, "SIGNONE": defaultSignal,
	} {
		equal(t, name, stopSignal(&ohmv1.Assignment{Stop: &ohmv1.StopPolicy{Signal: name}}), want)
	}
	equal(t, "signal of nothing known", stopSignal(nil), defaultSignal)
	equal(t, "grace of nothing known", grace(nil), defaultGrace)
	equal(t, "no grace", grace(&ohmv1.Assignment{Stop: &ohmv1.StopPolicy{Grace: durationpb.New(0)}}), 0)
}

func TestMemo(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	a := assignment("a", 1000, maxRuntime(time.Minute))
	a.Placement.Time = timestamppb.New(now)
	for _, m := range []memo{
		{},
		{Started: true},
		{Run: essence(a), StopAsked: now, StopCause: task.Stop},
		{Run: essence(a), Started: true, End: endStatus(a.Placement, task.Failed, task.Exited, "x"), Kept: now},
	} {
		data, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeMemo(data)
		if err != nil || !proto.Equal(got.Run, m.Run) || !proto.Equal(got.End, m.End) || got.Started != m.Started ||
			got.StopCause != m.StopCause || !got.StopAsked.Equal(m.StopAsked) || !got.Kept.Equal(m.Kept) {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
	}
	if got, err := decodeMemo([]byte(`{"started":true,"later":1,"run":{"id":"x","later":{}}}`)); err != nil || !got.Started || got.Run.GetId() != "x" {
		t.Errorf("an entry of a later release: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "[]", `{"run":3}`, `{"end":{"slot":4}}`} {
		if _, err := decodeMemo([]byte(bad)); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
	if e := essence(a); e.GetEnv() != nil || e.GetCommand() != nil {
		t.Error("the journal would hold the task's environment")
	}
}
