package agent

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/device"
	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/health"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// How a task is stopped of which no stop policy is known.
const (
	defaultSignal = syscall.SIGTERM
	defaultGrace  = 5 * time.Second
)

// situation is all that is known of one task.
type situation struct {
	desired *ohmv1.Assignment // nil: the cell does not want it here (any more)
	seen    driver.Observation
	here    bool // the machine knows it; seen is valid
	memo    memo
	unsent  bool               // the signal that asks it to end could not be sent
	devices string             // what is wrong with its devices, for people
	worst   ohmv1.DeviceHealth // of them
	health  health.Verdict
	disk    string // how much more of it the task has taken than it may, for people
	now     time.Time
}

// decision is what follows from a situation.
type decision struct {
	memo   memo          // to be remembered before anything else
	status *ohmv1.Status // how the task stands, for the server; nil: nothing to say

	from, want task.State  // for driver.Step,
	call       driver.Call // which will make this call

	gone bool      // not desired, not on the machine: only logs may be left
	wake time.Time // decide again then, whatever happens; zero: no need
}

// alive says whether processes of the task may exist.
func (s *situation) alive() bool {
	return s.here && s.seen.State > task.Assigned && !task.Ended(s.seen.State)
}

// decide is the agent's judgement on one task.
func decide(s situation) decision {
	d := decision{memo: s.memo}
	m := &d.memo
	if s.here && s.seen.State > task.Assigned {
		m.Started = true
	}
	if s.health.Ready != health.Unknown {
		m.Ready = s.health.Ready
	}
	cause, limit := stopCause(&s)
	if m.End == nil {
		m.End = end(&s, m, cause)
		if m.End.GetCause() == task.DeviceLost && m.End.GetMessage() == "" {
			m.End.Message = s.devices
		}
	}

	// An end that stands is for good: a task that is seen alive after it must go.
	wish := driver.Wish{
		Wanted:    s.desired != nil && cause == "" && m.End == nil,
		StopAsked: m.StopAsked, Grace: grace(m.Run), Forget: s.desired == nil,
	}
	asked := !m.StopAsked.IsZero()
	d.from = driver.Now(s.seen, s.here, asked && !s.unsent)
	d.want = wish.State(d.from, s.now)
	if wish.Forget && d.from <= task.Assigned {
		d.want = task.Unknown // there is nobody to be asked
	}
	if s.alive() {
		if d.want != task.Running && !asked {
			m.StopAsked, m.StopCause = s.now, cause
			switch cause {
			case task.Unhealthy:
				m.StopWhy = s.health.Why
			case task.DiskExceeded:
				m.StopWhy = s.disk
			}
			wish.StopAsked = s.now
		}
		d.wake = limit
		if over := wish.Deadline(); over.After(s.now) {
			d.wake = over
		}
	}
	if next, err := driver.Next(d.from, d.want); err == nil { // a state that is none is left alone
		d.call = next.Call
	}
	d.gone = s.desired == nil && !s.here
	d.status = report(&s, m, d.from)
	return d
}

// stopCause is why a task is to be stopped, empty if it is not; limit is when its time
// will be over.
func stopCause(s *situation) (cause string, limit time.Time) {
	if c := s.desired.GetStopCause(); c != "" {
		return c, time.Time{}
	}
	if s.worst == device.Lost && s.alive() {
		return task.DeviceLost, time.Time{}
	}
	if s.health.Dead && s.alive() {
		return task.Unhealthy, time.Time{}
	}
	if s.disk != "" && s.alive() {
		return task.DiskExceeded, time.Time{}
	}
	most := s.desired.GetMaxRuntime().AsDuration()
	if most <= 0 || !s.alive() || s.seen.Started.IsZero() {
		return "", time.Time{}
	}
	limit = s.seen.Started.Add(most)
	if !s.now.Before(limit) {
		return task.TimedOut, time.Time{}
	}
	return "", limit
}

func grace(run *ohmv1.Assignment) time.Duration {
	if run.GetStop().GetGrace() == nil {
		return defaultGrace
	}
	return run.GetStop().GetGrace().AsDuration()
}

func stopSignal(run *ohmv1.Assignment) syscall.Signal {
	if s := unix.SignalNum(run.GetStop().GetSignal()); s > 0 {
		return s
	}
	return defaultSignal
}
