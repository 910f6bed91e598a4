package driver

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/ohmcell/ohm/pkg/task"
)

// Controller does one thing to one task. Every method is idempotent.
type Controller interface {
	Start(ctx context.Context) error     // an error that is not ErrLater: it never will run
	Terminate(ctx context.Context) error // asks it to end, with the signal of its stop policy
	Kill(ctx context.Context) error      // ends every process of it
	Remove(ctx context.Context) error    // gives back what an ended task still holds, but its logs
}

// Control is the Controller of one task of a driver; stop is the signal that asks it
// to end.
func Control(d Driver, t Task, stop syscall.Signal) Controller {
	return control{d, t, stop}
}

type control struct {
	driver Driver
	task   Task
	stop   syscall.Signal
}

func (c control) Start(ctx context.Context) error { return c.driver.Start(ctx, c.task) }
func (c control) Terminate(ctx context.Context) error {
	return c.driver.Signal(ctx, c.task.ID, c.stop)
}
func (c control) Kill(ctx context.Context) error   { return c.driver.Kill(ctx, c.task.ID) }
func (c control) Remove(ctx context.Context) error { return c.driver.Remove(ctx, c.task.ID) }

// Wish is what the cell wants of one task.
type Wish struct {
	Wanted    bool          // to run; false: to end
	StopAsked time.Time     // when the agent first asked it to end; zero: not yet
	Grace     time.Duration // from StopAsked until it is killed; 0: at once
	Forget    bool          // its end is no news to the cell: keep nothing of it
}

// State is the wish as Step takes it: Running, Stopping (ask it to end), Stopped (end
// it now) or Unknown (leave nothing of it, ending it now if need be). A task that has
// been asked to end is never wanted again under the same attempt. now is the state in
// which the task is, at the time.
func (w Wish) State(now task.State, at time.Time) task.State {
	switch asked := !w.StopAsked.IsZero(); {
	case w.Forget && task.Ended(now):
		return task.Unknown
	case w.Wanted && !asked:
		return task.Running
	case w.Grace > 0 && (!asked || at.Before(w.StopAsked.Add(w.Grace))):
		return task.Stopping
	case w.Forget:
		return task.Unknown
	default:
		return task.Stopped
	}
}

// Deadline is when the wish's grace is over and State changes by itself, zero if it
// does not.
func (w Wish) Deadline() time.Time {
	if w.StopAsked.IsZero() || w.Grace <= 0 {
		return time.Time{}
	}
	return w.StopAsked.Add(w.Grace)
}

// Now is the state that Step takes for what was observed. known is Observe's ok, asked
// says that the task has been asked to end.
func Now(o Observation, known, asked bool) task.State {
	switch {
	case !known:
		return task.Unknown
	case asked && (o.State == task.Starting || o.State == task.Running):
		return task.Stopping
	}
	return o.State
}

// Call is one call of a Controller.
type Call string

// The calls.
const (
	NoCall        Call = "" // there is nothing to be done, or nothing but waiting
	CallStart     Call = "start"
	CallTerminate Call = "terminate"
	CallKill      Call = "kill"
	CallRemove    Call = "remove"
)

// Answer is what a driver said to a call.
type Answer int

// The answers.
const (
	Done  Answer = iota
	Later        // it could not be done now: the call is to be made again
	Never        // to CallStart alone: the task never will run
)

// ErrLater is wrapped by a start that has not failed for good: nothing of the task has run,
// and the next Start goes on with it.
var ErrLater = errors.New("it can be tried again")

// AnswerTo takes an error for an answer.
func AnswerTo(call Call, err error) Answer {
	switch {
	case err == nil:
		return Done
	case call == CallStart && !errors.Is(err, ErrLater):
		return Never
	}
	return Later
}

// Move is what Step does in one case: a call, and the state in which the task is after each
// answer to it. Without a call the answer is Done.
type Move struct {
	Call Call
	Next [Never + 1]task.State
}

// Next is the table of Step: the move for a task in state now that is wanted so. now is
// Unknown for a task that the machine does not know. want is one of the four states of
// Wish.State.
//
//	wanted   | Unknown  Assigned | Starting   Running    Stopping | ended
//	Running  | start    start    | -          -          -        | -
//	Stopping | -        -        | terminate  terminate  -        | -
//	Stopped  | -        -        | kill       kill       kill     | -
//	Unknown  | -        remove   | kill       kill       kill     | remove
//
// A state only goes forward; where the task is to be forgotten it goes to Unknown, once
// nothing of it is left.
func Next(now, want task.State) (Move, error) {
	if now < task.Unknown || now > task.Lost {
		return Move{}, fmt.Errorf("a task cannot be in state %d", now)
	}
	fresh, ended := now <= task.Assigned, task.Ended(now)
	switch want {
	case task.Running:
		if fresh {
			return Move{CallStart, [...]task.State{Done: task.Starting, Later: now, Never: task.Failed}}, nil
		}
		return stay(now), nil
	case task.Stopping:
		switch {
		case fresh:
			return stay(task.Stopped), nil // it never ran, and will not
		case now < task.Stopping:
			return call(CallTerminate, now, task.Stopping), nil
		}
		return stay(now), nil
	case task.Stopped:
		switch {
		case fresh:
			return stay(task.Stopped), nil
		case ended:
			return stay(now), nil
		}
		return call(CallKill, now, task.Stopping), nil
	case task.Unknown:
		switch {
		case now == task.Unknown:
			return stay(now), nil
		case now == task.Assigned, ended:
			return call(CallRemove, now, task.Unknown), nil
		}
		return call(CallKill, now, task.Stopping), nil
	}
	return Move{}, fmt.Errorf("a task cannot be wanted in state %s", task.Name(want))
}

// stay is a move without a call.
func stay(s task.State) Move { return Move{NoCall, [...]task.State{s, s, s}} }

// call is a move that leaves the task as it is until it works.
func call(c Call, now, then task.State) Move {
	return Move{c, [...]task.State{Done: then, Later: now, Never: now}}
}

// Step does the one thing that brings a task closer to what is wanted of it and returns
// the state in which it is then, as far as can be known without looking again. It makes
// at most one call to c, which Next names. It may be repeated for ever.
//
// Whoever knows that a task did run of which the machine knows nothing must not call Step
// with want Running: it would run twice. A start that failed for good gives Failed with the
// error; any other error leaves the state as it was, to be tried again.
func Step(ctx context.Context, now, want task.State, c Controller) (task.State, error) {
	if err := ctx.Err(); err != nil {
		return now, err // of a start that was not tried nobody may say that it failed
	}
	m, err := Next(now, want)
	if err != nil {
		return now, err
	}
	switch m.Call {
	case CallStart:
		err = c.Start(ctx)
	case CallTerminate:
		err = c.Terminate(ctx)
	case CallKill:
		err = c.Kill(ctx)
	case CallRemove:
		err = c.Remove(ctx)
	}
	return m.Next[AnswerTo(m.Call, err)], err
}
