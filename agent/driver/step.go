package driver

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/ohmcell/ohm/pkg/task"
)

// Controller does one thing to one task. Every method is idempotent.
type Controller interface {
	Start(ctx context.Context) error     // an error: it never will run
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

// Step does the one thing that brings a task closer to what is wanted of it and returns
// the state in which it is then, as far as can be known without looking again. It makes
// at most one call to c. It may be repeated for ever: where nothing is left to do, or
// nothing but waiting, it calls nothing and returns now.
//
// now is Unknown for a task that the machine does not know. Whoever knows that such a
// task did run must not call Step with want Running: it would run twice. want is one of
// the four states of Wish.State. A failed start gives Failed with the error; any other
// error leaves the state as it was, to be tried again.
func Step(ctx context.Context, now, want task.State, c Controller) (task.State, error) {
	if err := ctx.Err(); err != nil {
		return now, err // of a start that was not tried nobody may say that it failed
	}
	if now < task.Unknown || now > task.Lost {
		return now, fmt.Errorf("a task cannot be in state %d", now)
	}
	fresh, ended := now <= task.Assigned, task.Ended(now)
	switch want {
	case task.Running:
		if fresh {
			if err := c.Start(ctx); err != nil {
				return task.Failed, err
			}
			return task.Starting, nil
		}
	case task.Stopping:
		if fresh {
			return task.Stopped, nil
		}
		if now < task.Stopping {
			return then(task.Stopping, now, c.Terminate(ctx))
		}
	case task.Stopped:
		if fresh {
			return task.Stopped, nil
		}
		if !ended {
			return then(task.Stopping, now, c.Kill(ctx))
		}
	case task.Unknown:
		if now == task.Assigned || ended {
			return then(task.Unknown, now, c.Remove(ctx))
		}
		if !fresh {
			return then(task.Stopping, now, c.Kill(ctx))
		}
	default:
		return now, fmt.Errorf("a task cannot be wanted in state %s", task.Name(want))
	}
	return now, nil
}

func then(next, now task.State, err error) (task.State, error) {
	if err != nil {
		return now, err
	}
	return next, nil
}
