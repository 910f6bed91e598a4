package driver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ohmcell/ohm/pkg/task"
)

// recorder is a Controller that notes its calls and fails them all with err.
type recorder struct {
	calls []string
	err   error
}

func (r *recorder) note(call string) error { r.calls = append(r.calls, call); return r.err }

func (r *recorder) Start(context.Context) error     { return r.note("Start") }
func (r *recorder) Terminate(context.Context) error { return r.note("Terminate") }
func (r *recorder) Kill(context.Context) error      { return r.note("Kill") }
func (r *recorder) Remove(context.Context) error    { return r.note("Remove") }

// TestStep goes through every state and every wish.
func TestStep(t *testing.T) {
	const none = ""
	type cell struct {
		call string
		next task.State
	}
	ends := []task.State{task.Succeeded, task.Failed, task.Stopped, task.Lost}
	table := map[task.State]map[task.State]cell{ // by want, by now
		task.Running: {
			task.Unknown:  {"Start", task.Starting},
			task.Assigned: {"Start", task.Starting},
			task.Starting: {none, task.Starting},
			task.Running:  {none, task.Running},
			task.Stopping: {none, task.Stopping},
		},
		task.Stopping: {
			task.Unknown:  {none, task.Stopped},
			task.Assigned: {none, task.Stopped},
			task.Starting: {"Terminate", task.Stopping},
			task.Running:  {"Terminate", task.Stopping},
			task.Stopping: {none, task.Stopping},
		},
		task.Stopped: {
			task.Unknown:  {none, task.Stopped},
			task.Assigned: {none, task.Stopped},
			task.Starting: {"Kill", task.Stopping},
			task.Running:  {"Kill", task.Stopping},
			task.Stopping: {"Kill", task.Stopping},
		},
		task.Unknown: {
			task.Unknown:  {none, task.Unknown},
			task.Assigned: {"Remove", task.Unknown},
			task.Starting: {"Kill", task.Stopping},
			task.Running:  {"Kill", task.Stopping},
			task.Stopping: {"Kill", task.Stopping},
		},
	}
	for _, end := range ends {
		table[task.Running][end] = cell{none, end}
		table[task.Stopping][end] = cell{none, end}
		table[task.Stopped][end] = cell{none, end}
		table[task.Unknown][end] = cell{"Remove", task.Unknown}
	}
	for want, row := range table {
		for now := task.Unknown; now <= task.Lost; now++ {
			expect, ok := row[now]
			if !ok {
				t.Fatalf("the table has no entry for now %v, want %v", now, want)
			}
			t.Run(fmt.Sprintf("%s wanted %s", task.Name(now), task.Name(want)), func(t *testing.T) {
				r := new(recorder)
				next, err := Step(t.Context(), now, want, r)
				check(t, r, expect.call)
				if err != nil || next != expect.next {
					t.Errorf("got %v, %v; want %v", next, err, expect.next)
				}

				broken := &recorder{err: errors.New("broken")}
				next, err = Step(t.Context(), now, want, broken)
				check(t, broken, expect.call)
				after := now // an error changes nothing, but a failed start is final
				switch expect.call {
				case none:
					after = expect.next
				case "Start":
					after = task.Failed
				}
				if (err != nil) != (expect.call != none) || next != after {
					t.Errorf("where calls fail: got %v, %v; want %v", next, err, after)
				}

				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				late := new(recorder)
				next, err = Step(ctx, now, want, late)
				check(t, late, none)
				if !errors.Is(err, context.Canceled) || next != now {
					t.Errorf("with a cancelled context: got %v, %v", next, err)
				}
			})
		}
	}
	for _, want := range append(ends[:2:2], task.Assigned, task.Starting, task.Lost, 99) {
		r := new(recorder)
		if next, err := Step(t.Context(), task.Running, want, r); err == nil || next != task.Running {
			t.Errorf("wanted %v: got %v, %v; want an error", want, next, err)
		}
		check(t, r, none)
	}
	for _, now := range []task.State{-1, 99} {
		r := new(recorder)
		if _, err := Step(t.Context(), now, task.Running, r); err == nil {
			t.Errorf("now %d: no error", now)
		}
		check(t, r, none)
	}
}

func check(t *testing.T, r *recorder, call string) {
	t.Helper()
	want := 1
	if call == "" {
		want = 0
	}
	if len(r.calls) != want || want == 1 && r.calls[0] != call {
		t.Errorf("calls %q, want %q", r.calls, call)
	}
}

// TestStepGetsThere drives a task that behaves, from every state to every wish.
func TestStepGetsThere(t *testing.T) {
	for _, want := range []task.State{task.Running, task.Stopping, task.Stopped, task.Unknown} {
		for now := task.Unknown; now <= task.Lost; now++ {
			state, steps := now, 0
			for ; steps < 5; steps++ {
				r := new(recorder)
				next, err := Step(t.Context(), state, want, r)
				if err != nil {
					t.Fatal(err)
				}
				if len(r.calls) == 0 && next == state {
					break
				}
				switch state = next; {
				case next == task.Starting:
					state = task.Running
				case next == task.Stopping:
					state = task.Stopped
				}
			}
			if steps == 5 {
				t.Errorf("from %v to %v does not settle", now, want)
			}
			if want == task.Unknown && state != task.Unknown {
				t.Errorf("from %v: %v is left of a task to be forgotten", now, state)
			}
			if want != task.Running && !task.Ended(state) && state != task.Unknown && now != task.Stopping {
				t.Errorf("from %v to %v ends in %v", now, want, state)
			}
		}
	}
}

func TestWish(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name string
		wish Wish
		want task.State
	}{
		{"wanted", Wish{Wanted: true, Grace: time.Second}, task.Running},
		{"wanted again after it was asked to end", Wish{Wanted: true, StopAsked: ago(0), Grace: time.Second}, task.Stopping},
		{"not asked yet", Wish{Grace: time.Second}, task.Stopping},
		{"within its grace", Wish{StopAsked: ago(time.Second - 1), Grace: time.Second}, task.Stopping},
		{"at the end of its grace", Wish{StopAsked: ago(time.Second), Grace: time.Second}, task.Stopped},
		{"no grace", Wish{}, task.Stopped},
		{"no grace, forgotten", Wish{Forget: true}, task.Unknown},
		{"forgotten, not asked yet", Wish{Forget: true, Grace: time.Second}, task.Stopping},
		{"forgotten, grace over", Wish{Forget: true, StopAsked: ago(time.Hour), Grace: time.Second}, task.Unknown},
	} {
		if got := c.wish.State(task.Running, now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, end := range []task.State{task.Succeeded, task.Lost} {
		if got := (Wish{Forget: true, Grace: time.Hour}).State(end, now); got != task.Unknown {
			t.Errorf("forgotten, ended: %v", got)
		}
		if got := (Wish{Grace: time.Hour}).State(end, now); got != task.Stopping {
			t.Errorf("ended: %v", got)
		}
	}
	w := Wish{StopAsked: now, Grace: time.Minute}
	if at := w.Deadline(); w.State(task.Running, at) != task.Stopped || w.State(task.Running, at.Add(-1)) != task.Stopping {
		t.Errorf("the wish does not change at its deadline %v", at)
	}
	if at := (Wish{Wanted: true, Grace: time.Minute}).Deadline(); !at.IsZero() {
		t.Errorf("a task that is wanted has the deadline %v", at)
	}
}

func TestNow(t *testing.T) {
	for _, c := range []struct {
		state        task.State
		known, asked bool
		want         task.State
	}{
		{task.Running, false, false, task.Unknown},
		{task.Running, true, false, task.Running},
		{task.Running, true, true, task.Stopping},
		{task.Starting, true, true, task.Stopping},
		{task.Assigned, true, true, task.Assigned},
		{task.Failed, true, true, task.Failed},
	} {
		if got := Now(Observation{State: c.state}, c.known, c.asked); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}
