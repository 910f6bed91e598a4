package reconcile

import (
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Class is what the end of an attempt means for its slot.
type Class int

// The classes.
const (
	Success   Class = iota // exited 0 by itself
	UserError              // the task's own fault: spends the retry budget of its slot
	Excused                // the cell's doing: another attempt is free, and due at once
	Troubled               // the fault of a node or of what is around it: another attempt is free, after a pause
)

// Classify says what an attempt's end means. A cause that this release does not know is a
// UserError, so that no cause leads to attempts without end.
func Classify(last *ohmv1.Status) Class {
	cause := last.GetCause()
	class, _ := task.ClassOf(cause)
	switch {
	case cause == task.Exited && last.GetExitCode() == 0:
		return Success
	case class == task.Wanted, cause == task.NodeLost: // which was long enough in coming
		return Excused
	case class == task.NodeFault, class == task.Infrastructure:
		return Troubled
	}
	return UserError
}

// troubles is how many attempts in a row, to the newest, ended Troubled. Those that are not
// kept any more count: attempts are numbered without gaps.
func troubles(ended []*cellstate.Ended) int {
	last := newest(ended)
	if last == nil || Classify(last.GetStatus()) != Troubled {
		return 0
	}
	for _, e := range slices.Backward(ended) {
		if Classify(e.GetStatus()) != Troubled {
			return last.Attempt - e.Attempt
		}
	}
	return last.Attempt
}

// endOf is when an attempt ended, as its agent saw it; without that, when it was placed.
func endOf(e *cellstate.Ended) time.Time {
	if t := e.GetStatus().GetEnded(); t != nil {
		return t.AsTime()
	}
	if t := e.GetPlacement().GetTime(); t != nil {
		return t.AsTime()
	}
	return time.Time{}
}

// ran is how long an attempt ran; 0 if it never started.
func ran(e *cellstate.Ended) time.Duration {
	if started := e.GetStatus().GetStarted(); started != nil {
		return endOf(e).Sub(started.AsTime())
	}
	return 0
}

func newest(ended []*cellstate.Ended) *cellstate.Ended {
	if len(ended) == 0 {
		return nil
	}
	return ended[len(ended)-1]
}

// untilSuccess judges a slot without a live placement whose task runs to success: once
// it has succeeded it is over, and so it is when its budget is spent, or when it was lost
// with its node and its job never replaces such a task, and when an attempt had a final end.
func (l Limits) untilSuccess(ended []*cellstate.Ended, spec *ohmv1.JobSpec, now time.Time) (phase, time.Time) {
	lost := false
	for _, e := range ended {
		if Classify(e.GetStatus()) == Success {
			return succeeded, time.Time{}
		}
		lost = lost || e.GetStatus().GetCause() == task.NodeLost
	}
	n := spent(ended, spec)
	switch {
	case n > int(spec.GetRetries()), lost && spec.GetWhenSilent().GetThen() == Never,
		slices.ContainsFunc(ended, func(e *cellstate.Ended) bool { return final(e.GetStatus(), spec) }):
		return failed, time.Time{}
	}
	if at, busy := l.replaced(ended); busy {
		return due(at, now)
	}
	if n > 0 && Spends(newest(ended).GetStatus(), spec) {
		return due(endOf(newest(ended)).Add(l.asked(spec.GetRetry()).backoff(n)), now)
	}
	if n := troubles(ended); n > 0 {
		return due(endOf(newest(ended)).Add(l.backoff(n)), now)
	}
	return ready, time.Time{}
}

// forEver judges a slot without a live placement whose task should always run: any end
// leads to a replacement. After an end of its own (exit 0 too) it waits, longer each
// time that it ends again before it has run steadily.
func (l Limits) forEver(ended []*cellstate.Ended, now time.Time) (phase, time.Time) {
	if at, busy := l.replaced(ended); busy {
		return due(at, now)
	}
	last := newest(ended)
	if last == nil || Classify(last.GetStatus()) == Excused {
		return ready, time.Time{}
	}
	return due(endOf(last).Add(l.backoff(l.inRow(ended))), now)
}

// inRow is how many of the newest attempts ended by themselves one after the other, of which
// all but the first had not run steadily.
func (l Limits) inRow(ended []*cellstate.Ended) (n int) {
	for _, e := range slices.Backward(ended) {
		if Classify(e.GetStatus()) == Excused {
			continue
		}
		n++
		if ran(e) >= l.Steady {
			break
		}
	}
	return n
}

// crashes says whether the task of a slot that shall run for ever does not get to: it ended
// again and again soon after its start, and has not run steadily since.
func (l Limits) crashes(s slot, now time.Time) bool {
	const often = 3
	if s.task == nil || s.phase == kept || s.phase == blocked {
		return false
	}
	last := newest(s.task.Ended)
	if last == nil || ran(last) >= l.Steady || l.inRow(s.task.Ended) < often {
		return false
	}
	started := s.task.Status.GetStarted()
	return s.phase != live || started == nil || now.Sub(started.AsTime()) < l.Steady
}

func due(at, now time.Time) (phase, time.Time) {
	if at.After(now) {
		return backoff, at
	}
	return ready, time.Time{}
}
