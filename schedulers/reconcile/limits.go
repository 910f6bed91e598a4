package reconcile

import "time"

// Limits are the times that reconcile goes by.
type Limits struct {
	BackoffFirst time.Duration // before the attempt after the first failure; doubles with each
	BackoffMost  time.Duration // it grows no further than this
	// Steady is how long a task that should run for ever must have run for its end not to
	// count as one more in a row.
	Steady time.Duration
	// Unanswered is how long a job may wait without a word of its scheduler before its
	// status names the scheduler.
	Unanswered time.Duration
	// PortBusy is how long a port of a node that somebody else had is not tried again.
	PortBusy time.Duration
}

// Defaults are the limits that every part of a cell goes by unless a test shortens them.
func Defaults() Limits {
	return Limits{
		BackoffFirst: time.Second,
		BackoffMost:  time.Minute,
		Steady:       time.Minute,
		Unanswered:   30 * time.Second,
		PortBusy:     time.Minute,
	}
}

// backoff is the wait before the attempt that follows the n-th failure.
func (l Limits) backoff(n int) time.Duration {
	wait := l.BackoffFirst
	for ; n > 1 && wait < l.BackoffMost; n-- {
		wait *= 2
	}
	return min(wait, l.BackoffMost)
}
