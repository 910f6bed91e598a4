package agent

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/health"
	"github.com/ohmcell/ohm/pkg/resource"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// statusOf is a status of the attempt that a placement is about.
func statusOf(p *ohmv1.Placement, s task.State) *ohmv1.Status {
	return &ohmv1.Status{
		Slot: p.GetSlot(), Attempt: p.GetAttempt(), Txn: p.GetTxn(), Node: p.GetNode(), State: s,
	}
}

func endStatus(p *ohmv1.Placement, s task.State, cause, message string) *ohmv1.Status {
	st := statusOf(p, s)
	st.Cause, st.Message = cause, message
	return st
}

// failedStart is the end of an attempt that never ran.
func failedStart(p *ohmv1.Placement, cause, why string, at time.Time) *ohmv1.Status {
	st := endStatus(p, task.EndState(cause, 0), cause, why)
	st.Ended = stamp(at)
	return st
}

// stopped is the end of a task that was asked to end for a cause; empty: it is not desired
// any more.
func stopped(cause string) (task.State, string) {
	cause = cmp.Or(cause, task.Stop)
	return task.EndState(cause, 0), cause
}

// end is how the task ended, nil if it has not or if nobody knows its placement. stop is
// why it is to be stopped now.
func end(s *situation, m *memo, stop string) *ohmv1.Status {
	p := m.Run.GetPlacement()
	switch {
	case p == nil:
		return nil
	case s.here && task.Ended(s.seen.State):
		return seenEnd(p, s.seen, m, stop)
	case s.here && s.seen.State > task.Assigned:
		return nil
	case m.Started && !s.here && stop == task.NodeLost:
		st := endStatus(p, task.Lost, task.NodeLost, "the node has booted since")
		st.Ended = stamp(s.now)
		return st
	case m.Started && !s.here:
		st := endStatus(p, task.Failed, task.UnknownExit, "the node has no trace of it any more")
		st.Ended = stamp(s.now)
		return st
	case s.desired != nil && stop != "":
		state, cause := stopped(stop)
		st := endStatus(p, state, cause, "it was never started")
		st.Ended = stamp(s.now)
		return st
	}
	return nil
}

// seenEnd is the end that the driver saw. It counts as a stop only if the task had been
// asked to end before.
func seenEnd(p *ohmv1.Placement, o driver.Observation, m *memo, stop string) *ohmv1.Status {
	st := statusOf(p, task.EndState(o.Cause, o.ExitCode))
	describe(st, p, o)
	st.MemoryPeakBytes, st.MemoryLimitBytes = o.MemoryPeak, o.MemoryLimit
	st.Cause, st.ExitCode, st.Signal, st.Ended = o.Cause, int32(o.ExitCode), int32(o.Signal), stamp(o.Ended)
	if o.State == task.Lost {
		st.State = task.Lost
	}
	if o.Cause == task.PortBusy {
		st.BusyPorts = portNumbers(p) // one of them is
	}
	if stop == task.NodeLost && o.Cause == task.UnknownExit { // the driver does not know either: it was the boot
		st.State, st.Cause = task.Lost, task.NodeLost
		return st
	}
	asked := !m.StopAsked.IsZero() && (o.Ended.IsZero() || !o.Ended.Before(m.StopAsked))
	if m.StopAsked.IsZero() && stop != "" && o.Cause == task.Signalled {
		asked = true // by an agent whose journal was lost
	} else {
		stop = m.StopCause
	}
	if asked {
		st.State, st.Cause = stopped(stop)
		if m.StopWhy != "" {
			st.Message = m.StopWhy
		}
	}
	return st
}

// describe fills in what a driver says of any task.
func describe(st *ohmv1.Status, p *ohmv1.Placement, o driver.Observation) {
	st.Message, st.Pid, st.Started = o.Message, int64(o.Pid), stamp(o.Started)
	if o.OOM && st.Message == "" {
		st.Message = "a process of it was killed for memory"
		if limit := p.GetResources().GetMemoryBytes(); limit > 0 {
			st.Message += "; its limit is " + resource.FormatBytes(limit)
		}
	}
}

// report is what the server is to know now.
func report(s *situation, m *memo, now task.State) *ohmv1.Status {
	switch {
	case s.desired == nil:
		return nil
	case m.End != nil:
		return m.End
	case !s.alive():
		return nil
	}
	if !m.StopAsked.IsZero() {
		now = task.Stopping
	}
	st := statusOf(s.desired.GetPlacement(), now)
	describe(st, s.desired.GetPlacement(), s.seen)
	if now == task.Running && s.desired.GetHealth().GetReady() != nil {
		if m.Ready == health.Unknown {
			return nil // what an earlier agent has said stands, until the probes say something
		}
		st.Ready = m.Ready == health.Ready
		if s.health.Why != "" && st.Message == "" {
			st.Message = s.health.Why
		}
	}
	if s.devices != "" {
		st.Message = strings.Join(slices.DeleteFunc([]string{st.Message, s.devices}, func(m string) bool { return m == "" }), "; ")
	}
	return st
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
