package agent

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/health"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// result of a step, with a look at the task after it.
type result struct {
	entry *entry
	call  driver.Call
	next  task.State
	bytes int64 // of callWeighLogs
	err   error

	seen    driver.Observation
	here    bool
	lookErr error
}

// Pauses between two steps that make the same call for one task.
const (
	firstRepeat = time.Second
	lastRepeat  = 30 * time.Second
)

// step does one step for one task in a goroutine of its own. It is not cut short by the
// agent's end: a start that is given up half way would be worse than a late end.
func (l *loop) step(ctx context.Context, e *entry, d decision) {
	if e.repeats++; d.call != e.lastCall {
		e.lastCall, e.repeats = d.call, 1
	}
	timeout := l.StepTimeout
	if d.call == driver.CallStart {
		if e.startBy.IsZero() {
			e.startBy = time.Now().Add(startFor(e.desired, l.StartFor))
		}
		timeout += max(0, time.Until(e.startBy)) // the driver tries for so long, and then cleans up
	}
	control := driver.Control(l.Driver, l.driverTask(e), stopSignal(e.memo.Run))
	r := result{entry: e, call: d.call}
	l.act(ctx, e, timeout, func(ctx context.Context) result {
		if busy := l.busyPorts(e, d.call); busy != nil {
			r.next, r.err = task.Failed, busy
		} else {
			r.next, r.err = driver.Step(ctx, d.from, d.want, control)
		}
		if !l.instant {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), l.LookTimeout)
			defer cancel()
		}
		r.seen, r.here, r.lookErr = l.Driver.Observe(ctx, e.id)
		return r
	})
}

// quickStart is how long a start may take before the server hears of it: of a quick one it
// hears the result, and so writes one status instead of two.
const quickStart = 250 * time.Millisecond

// slowStart reports a start that takes long. It returns when one that is under way will
// have; zero: there is none.
func (l *loop) slowStart(e *entry, now time.Time) time.Time {
	if e.lastCall != driver.CallStart || e.desired == nil {
		return time.Time{}
	}
	if slow := e.begun.Add(quickStart); now.Before(slow) {
		return slow
	}
	l.report(e, statusOf(e.desired.GetPlacement(), task.Starting), now)
	return time.Time{}
}

// act does something to a task while the loop leaves it alone, or on the spot.
func (l *loop) act(ctx context.Context, e *entry, timeout time.Duration, do func(context.Context) result) {
	e.busy, e.begun = true, time.Now()
	l.busy++
	ctx = context.WithoutCancel(ctx)
	if l.instant {
		l.done = append(l.done, do(ctx))
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		l.results <- do(ctx)
	}()
}

// ownNetwork is what a job file says of a task that is not in the node's.
const ownNetwork = "own"

func portNumbers(p *ohmv1.Placement) (numbers []int32) {
	for _, port := range p.GetPorts() {
		numbers = append(numbers, port.GetNumber())
	}
	return numbers
}

// result takes over what a step has done.
func (l *loop) result(r result) {
	e := r.entry
	e.busy = false
	l.busy--
	l.touch(e)
	if e.again {
		e.again = false
		l.hint(e.id)
	}
	switch r.call {
	case callRemoveLogs:
		l.logsRemoved(e, r.err)
		return
	case callWeighLogs:
		l.logsWeighed(e, r.bytes, r.err)
		return
	}
	e.notUntil = time.Now().Add(backoff(firstRepeat, lastRepeat, e.repeats))
	l.saw(e, r.seen, r.here, r.lookErr)
	if err := errors.Join(r.err, r.lookErr); err != nil {
		l.warnStep(e, r.call, err)
	}
	switch r.call {
	case driver.CallStart:
		l.started(e, r)
	case driver.CallTerminate:
		e.unsent = r.err != nil
	}
}

func (l *loop) warnStep(e *entry, call driver.Call, err error) {
	l.Log.Warn("a step failed", zap.String("task", e.id), zap.String("step", string(call)), zap.Error(err))
}

// started takes over how a start went (A2). A start that was not tried changes nothing.
func (l *loop) started(e *entry, r result) {
	m := e.memo
	switch {
	case r.err == nil:
		m.Started = true
		if e.desired.GetHealth().GetReady() != nil {
			m.Ready = health.NotReady // until it says otherwise
		}
	case r.next != task.Failed, !e.blind && e.here && e.seen.State > task.Assigned:
		return // not tried; or the driver says more
	default:
		m.End = failedStart(e.memo.Run.GetPlacement(), driver.StartCause(r.err), r.err.Error(), time.Now())
		if busy := (*driver.PortBusyError)(nil); errors.As(r.err, &busy) {
			m.End.BusyPorts = busy.Ports
		}
	}
	l.remember(e, m)
}

// busyPorts looks for ports of a task that is to be started which somebody outside of the
// cell has; the cell itself has seen to it that no other task owns them. nil: there are
// none. Between this look and the task's own bind somebody may still come first; then the
// task itself fails over it. For a task with a network of its own the driver listens there
// itself, may do so since an earlier try to start it, and says who was before it.
func (l *loop) busyPorts(e *entry, call driver.Call) error {
	if call != driver.CallStart || l.PortBusy == nil || e.desired.GetNetwork() == ownNetwork {
		return nil
	}
	var busy driver.PortBusyError
	for _, port := range portNumbers(e.desired.GetPlacement()) {
		if l.PortBusy(port) {
			busy.Ports = append(busy.Ports, port)
		}
	}
	if busy.Ports == nil {
		return nil
	}
	return &busy
}
