package agent

import (
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// entry is all that the loop knows of one task.
type entry struct {
	id      string
	desired *ohmv1.Assignment // nil: not desired
	seen    driver.Observation
	here    bool // the machine knows it
	blind   bool // it could not be observed: seen and here are old
	memo    memo
	waits   time.Time // since when it waits for a device; zero: it does not

	touched bool      // it stands on the agenda
	due     time.Time // if it has a place: when its time comes
	place   int       // among the agenda's wakes, from 1; 0: it has no time
	stands  stands    // in the admission

	busy      bool // a step is under way; nothing else is done meanwhile
	again     bool // look at it again after the step
	unsent    bool // the signal that asks it to end could not be sent
	abandoned bool // its start is not wanted any more, and was killed

	begun    time.Time   // the step under way
	startBy  time.Time   // until when its start may be tried; zero: it was not
	lastCall driver.Call // of the last step
	repeats  int         // how often in a row
	notUntil time.Time

	reported   *ohmv1.Status // in this session
	reportedAt time.Time

	watched *watched // by probes; nil: it is not

	readers int   // of its logs, now
	bytes   int64 // that its logs take,
	weighed bool  // if this is known

	over   chan struct{} // closed when no more will be logged
	closed bool
}

func (e *entry) close() {
	if !e.closed {
		e.closed = true
		close(e.over)
	}
}

// occupies says whether the task may have processes on the node, or soon.
func (e *entry) occupies() bool {
	return e.alive() || e.busy && e.lastCall == driver.CallStart || e.blind && e.memo.Started
}

func (e *entry) alive() bool {
	return e.here && e.seen.State > task.Assigned && !task.Ended(e.seen.State)
}

// entry is that of a task, a new one where nothing was known of it.
func (l *loop) entry(id string) *entry {
	e := l.tasks[id]
	if e == nil {
		e = &entry{id: id, over: make(chan struct{}), blind: !l.nextList.IsZero()}
		l.tasks[id] = e
		if e.blind {
			l.blind[id] = e
		}
		l.touch(e)
	}
	return e
}
