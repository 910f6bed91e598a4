package reconcile

import (
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What may spend a retry besides user errors (RetryPolicy.spend).
const (
	NodeLoss   = "nodeLoss"
	Drain      = "drain"
	Preemption = "preemption"
)

// Spends says whether the end of an attempt spends a retry of its slot. Retention must not
// remove such an end, nor a Success, of a job that is not done: the budget is counted from
// what is stored. (There are at most retries + 1 of them for a slot.)
func Spends(last *ohmv1.Status, spec *ohmv1.JobSpec) bool {
	spend := spec.GetRetry().GetSpend()
	switch last.GetCause() {
	case task.NodeLost:
		return slices.Contains(spend, NodeLoss)
	case task.Drained:
		return slices.Contains(spend, Drain)
	case task.Preempted:
		return slices.Contains(spend, Preemption)
	}
	return Classify(last) == UserError
}

// final says whether the end of an attempt is the last of its slot, whatever retries are
// left. Since nothing starts after it, it is the newest one, which retention keeps.
func final(last *ohmv1.Status, spec *ohmv1.JobSpec) bool {
	if spec.GetStartOnce() && !neverStarted(last) {
		return true
	}
	if last.GetCause() != task.Exited || Classify(last) != UserError {
		return false
	}
	only, code := spec.GetRetry().GetOnly(), last.GetExitCode()
	return slices.Contains(spec.GetRetry().GetFatal(), code) || len(only) > 0 && !slices.Contains(only, code)
}

// neverStarted says whether it is certain of an attempt that nothing of it ever ran: its
// node said no before. Of one that was lost or stopped it is not certain, even if nobody
// heard of a start.
func neverStarted(last *ohmv1.Status) bool {
	cause := last.GetCause()
	return (cause == task.PortBusy || cause == task.Refused) && last.GetStarted() == nil
}

// spent counts the retries that a slot has spent, and the last error beyond them.
func spent(ended []*cellstate.Ended, spec *ohmv1.JobSpec) (n int) {
	for _, e := range ended {
		if Spends(e.GetStatus(), spec) {
			n++
		}
	}
	return n
}

// asked are the limits with the waits that a job asks for after an end that spent a retry.
func (l Limits) asked(retry *ohmv1.RetryPolicy) Limits {
	if retry.GetFirst() != nil {
		l.BackoffFirst = retry.GetFirst().AsDuration()
		l.BackoffMost = max(l.BackoffMost, l.BackoffFirst)
	}
	if retry.GetMost() != nil {
		l.BackoffMost = retry.GetMost().AsDuration()
	}
	return l
}
