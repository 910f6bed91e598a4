package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ohmcell/ohm/pkg/task"
)

// recorder is a Controller that notes its calls and answers them all with err.
type recorder struct {
	calls []Call
	err   error
}

func (r *recorder) note(call Call) error { r.calls = append(r.calls, call); return r.err }

func (r *recorder) Start(context.Context) error     { return r.note(CallStart) }
func (r *recorder) Terminate(context.Context) error { return r.note(CallTerminate) }
func (r *recorder) Kill(context.Context) error      { return r.note(CallKill) }
func (r *recorder) Remove(context.Context) error    { return r.note(CallRemove) }

// outcome is a cell of the table: the call, and the next state by answer.
type outcome struct {
	call               Call
	done, later, never task.State
}

// table is all that Step may do: by want, by now. It is written out, so that no rule stands
// between it and who reads it.
func table() map[task.State]map[task.State]outcome {
	const (
		unknown, assigned, starting, running, stopping = task.Unknown, task.Assigned, task.Starting, task.Running, task.Stopping
		succeeded, failed, stopped, lost               = task.Succeeded, task.Failed, task.Stopped, task.Lost
	)
	return map[task.State]map[task.State]outcome{
		running: {
			unknown:   {CallStart, starting, unknown, failed},
			assigned:  {CallStart, starting, assigned, failed},
			starting:  {NoCall, starting, starting, starting},
			running:   {NoCall, running, running, running},
			stopping:  {NoCall, stopping, stopping, stopping},
			succeeded: {NoCall, succeeded, succeeded, succeeded},
			failed:    {NoCall, failed, failed, failed},
			stopped:   {NoCall, stopped, stopped, stopped},
			lost:      {NoCall, lost, lost, lost},
		},
		stopping: {
			unknown:   {NoCall, stopped, stopped, stopped},
			assigned:  {NoCall, stopped, stopped, stopped},
			starting:  {CallTerminate, stopping, starting, starting},
			running:   {CallTerminate, stopping, running, running},
			stopping:  {NoCall, stopping, stopping, stopping},
			succeeded: {NoCall, succeeded, succeeded, succeeded},
			failed:    {NoCall, failed, failed, failed},
			stopped:   {NoCall, stopped, stopped, stopped},
			lost:      {NoCall, lost, lost, lost},
		},
		stopped: {
			unknown:   {NoCall, stopped, stopped, stopped},
			assigned:  {NoCall, stopped, stopped, stopped},
			starting:  {CallKill, stopping, starting, starting},
			running:   {CallKill, stopping, running, running},
			stopping:  {CallKill, stopping, stopping, stopping},
			succeeded: {NoCall, succeeded, succeeded, succeeded},
			failed:    {NoCall, failed, failed, failed},
			stopped:   {NoCall, stopped, stopped, stopped},
			lost:      {NoCall, lost, lost, lost},
		},
		unknown: {
			unknown:   {NoCall, unknown, unknown, unknown},
			assigned:  {CallRemove, unknown, assigned, assigned},
			starting:  {CallKill, stopping, starting, starting},
			running:   {CallKill, stopping, running, running},
			stopping:  {CallKill, stopping, stopping, stopping},
			succeeded: {CallRemove, unknown, succeeded, succeeded},
			failed:    {CallRemove, unknown, failed, failed},
			stopped:   {CallRemove, unknown, stopped, stopped},
			lost:      {CallRemove, unknown, lost, lost},
		},
	}
}

// TestStep walks every state, every wish and every answer of the driver; a case that the
// table lacks fails.
func TestStep(t *testing.T) {
	answers := map[Answer]error{Done: nil, Later: fmt.Errorf("the daemon is away: %w", ErrLater), Never: errors.New("broken")}
	wishes := table()
	for want := task.Unknown; want <= task.Lost; want++ {
		row, wished := wishes[want]
		if able := slices.Contains([]task.State{task.Running, task.Stopping, task.Stopped, task.Unknown}, want); able != wished {
			t.Fatalf("the table has wish %s: %v", task.Name(want), wished)
		}
		for now := task.Unknown; now <= task.Lost; now++ {
			expect, there := row[now]
			if wished && !there {
				t.Fatalf("the table lacks %s wanted %s", task.Name(now), task.Name(want))
			}
			for answer := Done; answer <= Never; answer++ {
				t.Run(fmt.Sprintf("%s wanted %s, answer %d", task.Name(now), task.Name(want), answer), func(t *testing.T) {
					r := &recorder{err: answers[answer]}
					next, err := Step(t.Context(), now, want, r)
					if !wished {
						if check(t, r, NoCall); err == nil || next != now {
							t.Errorf("got %v, %v; want an error", next, err)
						}
						return
					}
					check(t, r, expect.call)
					if after := []task.State{expect.done, expect.later, expect.never}[answer]; next != after {
						t.Errorf("next is %v, want %v", next, after)
					}
					if failed := expect.call != NoCall && answer != Done; (err != nil) != failed {
						t.Errorf("error %v", err)
					}
					if next < now && next != task.Unknown || task.Ended(now) && next != now && next != task.Unknown {
						t.Errorf("from %v back to %v", now, next)
					}
				})
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			late := new(recorder)
			next, err := Step(ctx, now, want, late)
			if check(t, late, NoCall); !errors.Is(err, context.Canceled) || next != now {
				t.Errorf("%v wanted %v with a cancelled context: got %v, %v", now, want, next, err)
			}
		}
	}
	for _, now := range []task.State{-1, 99} {
		for _, want := range []task.State{now, task.Running} {
			r := new(recorder)
			if next, err := Step(t.Context(), now, want, r); err == nil || next != now {
				t.Errorf("now %d: %v, no error", now, next)
			}
			check(t, r, NoCall)
		}
	}
	if next, err := Step(t.Context(), task.Running, 99, new(recorder)); err == nil || next != task.Running {
		t.Errorf("wanted 99: got %v, %v", next, err)
	}
}

func check(t *testing.T, r *recorder, call Call) {
	t.Helper()
	want := []Call{call}
	if call == NoCall {
		want = nil
	}
	if !slices.Equal(r.calls, want) {
		t.Errorf("calls %q, want %q", r.calls, want)
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
