// Package health judges how a task is from the answers of probes. What the answers amount
// to is a pure state, State; Watch is the thin loop that probes one task and hands every
// change of the verdict on.
//
// Readiness and liveness are apart. A task is ready from its first good answer on, and not
// ready any more after so many bad ones in a row; that ends nothing. It is dead after so
// many bad answers of its liveness in a row, of which those of the start period do not
// count; that is for good.
//
// What an earlier process has found out about a task holds until there are as many answers
// to the contrary as ever: a new agent takes no task for unready.
package health

import "time"

// Rules of one check.
type Rules struct {
	StartPeriod time.Duration // from the task's start
	Interval    time.Duration // between two probes
	Timeout     time.Duration // of one probe
	Failures    int           // in a row, at least 1
}

// Readiness of a task.
type Readiness string

// The readinesses. Unknown is that of a task that was found running by somebody who does
// not know how it was.
const (
	Unknown  Readiness = ""
	NotReady Readiness = "no"
	Ready    Readiness = "yes"
)

// State is what is known of a task. The zero State knows nothing.
type State struct {
	Ready Readiness
	Dead  bool
	Why   string // it is not ready, or dead: the last bad answer that made it so

	unready, unlive int // bad answers in a row
}

// Readied is the state after an answer to the readiness check; bad is nil for a good one.
func (s State) Readied(r Rules, bad error) State {
	if bad == nil {
		s.unready, s.Ready = 0, Ready
		if !s.Dead {
			s.Why = ""
		}
		return s
	}
	if s.unready++; s.unready >= r.Failures && s.Ready != NotReady {
		s.Ready, s.Why = NotReady, "not ready: "+bad.Error()
	}
	return s
}

// Lived is the state after an answer to the liveness check of a task of that age.
func (s State) Lived(r Rules, age time.Duration, bad error) State {
	switch {
	case s.Dead:
	case bad == nil:
		s.unlive = 0
	case age < r.StartPeriod:
	default:
		if s.unlive++; s.unlive >= r.Failures {
			s.Dead, s.Why = true, "not live: "+bad.Error()
		}
	}
	return s
}

// Verdict is the part of a state that is news.
func (s State) Verdict() Verdict { return Verdict{s.Ready, s.Dead, s.Why} }

// Verdict on a task.
type Verdict struct {
	Ready Readiness
	Dead  bool
	Why   string
}
