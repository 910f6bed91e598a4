package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver"
)

// Starts are quick, or they wait: for a registry, or for a machine that is out of breath.
const (
	// abandonAfter is when a start that is not wanted any more is given up. One that is
	// quick comes to its end before, and then its task is asked to end as any other.
	abandonAfter = time.Second
	// waitingAfter is when a start does not count as a step any more: what it waits for is
	// not this node, and other tasks are not to wait with it.
	waitingAfter = 10 * time.Second
)

// underWay deals with a task that a step is under way for. It returns when to do so again;
// zero: there is no need.
func (l *loop) underWay(ctx context.Context, e *entry, now time.Time) (next time.Time) {
	if e.lastCall != driver.CallStart {
		return time.Time{}
	}
	next = l.slowStart(e, now)
	s := l.situation(e, now)
	if cause, _ := stopCause(&s); (e.desired == nil || cause != "") && !e.abandoned {
		if due := e.begun.Add(abandonAfter); now.Before(due) {
			return earlier(due, next)
		}
		l.abandon(ctx, e, cause, now)
	}
	if due := e.begun.Add(waitingAfter); now.Before(due) {
		next = earlier(due, next)
	}
	return next
}

// abandon kills a task while it starts. Should it have started nevertheless, it is asked to
// end like any other.
func (l *loop) abandon(ctx context.Context, e *entry, cause string, now time.Time) {
	e.abandoned, e.unsent = true, true
	m := e.memo
	m.StopAsked, m.StopCause = now, cause
	l.remember(e, m)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.StepTimeout)
	l.asking.Add(1)
	go func() {
		defer l.asking.Done()
		defer cancel()
		if err := l.Driver.Kill(ctx, e.id); err != nil {
			l.Log.Warn("a start cannot be given up", zap.String("task", e.id), zap.Error(err))
		}
	}()
}

// free is how many more steps may be begun now. Starts that wait do not count.
func (l *loop) free(now time.Time) int {
	n := l.Steps - l.busy
	if n > 0 {
		return n
	}
	for _, e := range l.tasks {
		if e.busy && e.lastCall == driver.CallStart && !now.Before(e.begun.Add(waitingAfter)) {
			n++
		}
	}
	return n
}
