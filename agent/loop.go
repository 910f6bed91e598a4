package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/journal"
	"github.com/ohmcell/ohm/cellstate"
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

// loop is the one place that knows the tasks. Only run's goroutine touches it.
type loop struct {
	*Agent
	agenda
	book     *journal.Journal // nil: none
	tasks    map[string]*entry
	blind    map[string]*entry // of them, those that could not be observed
	living   int               // of them, those that are alive
	standing *cellstate.Node   // what occupies the node, as of the last admission
	stood    int               // names what stands there

	facts     *ohmv1.Node // by which the tasks were judged last
	told      bool        // what is desired is known (A1)
	nextList  time.Time
	nextPrune time.Time // not before that is looked for logs to be removed
	unpruned  bool      // there may be some since the last time
	adopted   bool      // the logs on the machine have been compared with what is known
	results   chan result
	instant   bool        // the driver is: steps are done on the spot,
	done      []result    // and these have been in this round
	busy      int         // steps under way
	pushes    int         // of logs, under way
	pushed    chan *entry // whose logs it was; nil: no known task's
	execs     int         // programs in tasks, under way
	executed  chan struct{}
	samples   bool // the driver can say what tasks use
	expired   int  // about so many tasks of which nothing but the end of their logs is known

	lookUntil  time.Time                  // when the present look at the machine must be over
	unanswered map[string]<-chan struct{} // questions that the driver has not answered in time; closed when it has
	asking     sync.WaitGroup

	probes   chan struct{} // holds one for each probe under way
	watching sync.WaitGroup
}

func newLoop(a *Agent, book *journal.Journal) *loop {
	l := &loop{
		Agent: a, book: book, tasks: map[string]*entry{}, blind: map[string]*entry{},
		results: make(chan result), instant: isInstant(a.Driver), pushed: make(chan *entry), executed: make(chan struct{}), unanswered: map[string]<-chan struct{}{},
		probes: make(chan struct{}, probes),
	}
	l.samples = slices.Contains(a.Driver.Capabilities(), driver.CanStats)
	if book == nil {
		return l
	}
	for id, data := range book.All() {
		m, err := decodeMemo(data)
		if err != nil {
			a.Log.Warn("a journal entry is left out", zap.String("task", id), zap.Error(err))
			continue
		}
		l.entry(id).memo = m
		if !m.Expired.IsZero() {
			l.expired++
		}
	}
	return l
}

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

// run looks and acts until ctx ends, and then waits for what is under way.
func (l *loop) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.bell:
		case m := <-l.inbox:
			l.message(ctx, m)
		case r := <-l.results:
			l.result(r)
		case e := <-l.pushed:
			l.read(e)
		case <-l.executed:
			l.execs--
			continue
		}
		for more := true; more; { // what has come meanwhile is one round's work
			select {
			case m := <-l.inbox:
				l.message(ctx, m)
			case r := <-l.results:
				l.result(r)
			default:
				more = false
			}
		}
		if ctx.Err() == nil {
			timer.Reset(time.Until(l.rounds(ctx)))
		}
	}
	for l.busy+l.pushes+l.execs > 0 {
		select {
		case r := <-l.results:
			l.result(r)
		case e := <-l.pushed:
			l.read(e)
		case <-l.executed:
			l.execs--
		}
	}
	l.asking.Wait()
	l.watching.Wait()
	return nil // Run flushes the journal
}

// rounds makes a round, and another one for what was done on the spot.
func (l *loop) rounds(ctx context.Context) (next time.Time) {
	next = l.round(ctx)
	for len(l.done) > 0 {
		done := l.done
		l.done = nil
		for _, r := range done {
			l.result(r)
		}
		if ctx.Err() == nil {
			next = l.round(ctx)
		}
	}
	return next
}

func isInstant(d driver.Driver) bool {
	_, ok := d.(driver.Instant)
	return ok
}

// message takes over what the server says.
func (l *loop) message(ctx context.Context, m *ohmv1.ServerMessage) {
	switch {
	case m.GetComplete() != nil:
		c := m.GetComplete()
		if last := l.acted.Load(); c.GetRevision() < last {
			l.Log.Warn("the server's state is older than what was acted on",
				zap.Int64("revision", c.GetRevision()), zap.Int64("acted", last))
		}
		for _, e := range l.tasks {
			e.desired, e.reported = nil, nil
			l.touch(e)
		}
		l.outbox.clear()
		l.desire(c.GetAssignments())
		l.told = true
		l.acted.Store(c.GetRevision())
	case m.GetIncremental() != nil:
		i := m.GetIncremental()
		for _, id := range i.GetRemoved() {
			if e := l.tasks[id]; e != nil {
				e.desired, e.reported = nil, nil
				l.touch(e)
			}
		}
		l.desire(i.GetAssignments())
		l.acted.Store(i.GetRevision())
	case m.GetLogs() != nil:
		l.pushLogs(ctx, m.GetLogs())
	case m.GetExec() != nil:
		l.runExec(ctx, m.GetExec())
	case m.GetUsage() != nil:
		l.reportUsage(ctx, m.GetUsage())
	}
}

func (l *loop) desire(assignments []*ohmv1.Assignment) {
	for _, a := range assignments {
		e := l.entry(a.GetId())
		e.desired, e.memo.Run = a, essence(a)
		l.touch(e)
	}
}

// round looks at what may have changed, decides on the tasks of which something has, and
// acts. It returns when to do so again if nothing happens before.
func (l *loop) round(ctx context.Context) (next time.Time) {
	l.look(ctx)
	l.judgeDevices()
	if l.told {
		l.decide(ctx, time.Now())
	}
	l.running.Store(int64(l.living))
	next = earlier(l.nextList, l.next())
	if l.unpruned {
		next = earlier(next, l.nextPrune)
	}
	return next
}

func (l *loop) decide(ctx context.Context, now time.Time) {
	var todo []*entry
	var calls map[*entry]decision
	for _, e := range l.take(now) {
		switch {
		case l.tasks[e.id] != e:
			continue // it was forgotten
		case e.busy:
			l.wake(e, l.underWay(ctx, e, now))
			continue
		case e.blind:
			continue // until it is seen
		}
		l.probe(ctx, e)
		d := decide(l.situation(e, now))
		l.remember(e, d.memo)
		if e.memo.End != nil || d.gone {
			e.close()
		}
		if d.gone && !l.keep(e, now) {
			continue
		}
		l.report(e, d.status, now)
		wake := d.wake
		switch {
		case d.call == driver.NoCall:
			e.lastCall, e.repeats = "", 0
			if task.Ended(d.status.GetState()) {
				wake = earlier(e.reportedAt.Add(l.Repeat), wake)
			}
			l.wake(e, wake)
		case d.call == e.lastCall && now.Before(e.notUntil):
			l.wake(e, earlier(e.notUntil, wake))
		default:
			if calls == nil {
				calls = map[*entry]decision{}
			}
			todo = append(todo, e)
			calls[e] = d
			e.unsent = e.unsent || d.call == driver.CallTerminate // until it is
		}
	}
	admitted := l.admitted(todo, calls, now)
	l.flush() // A5, and a stop is remembered before it is asked for
	for _, e := range admitted {
		if l.free(now) <= 0 {
			break // a step that ends begins another round
		}
		l.step(ctx, e, calls[e])
	}
	for _, e := range todo {
		if e.busy {
			l.wake(e, l.underWay(ctx, e, now))
		} else {
			l.touch(e) // it has to wait, and is decided on anew
		}
	}
	if !now.Before(l.nextPrune) {
		l.nextPrune, l.unpruned = now.Add(pruneEvery), false
		l.prune(ctx, now)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

func (l *loop) situation(e *entry, now time.Time) situation {
	s := situation{desired: e.desired, seen: e.seen, here: e.here, memo: e.memo, unsent: e.unsent, health: e.healthy(), now: now}
	s.disk = l.usage.tooMuch(e.id)
	s.devices, s.worst = deviceNews(l.facts, e.desired.GetPlacement())
	return s
}

// judgeDevices has the tasks looked at that have devices, where these are other than before.
func (l *loop) judgeDevices() {
	facts := l.Agent.facts.Load()
	if facts == l.facts {
		return
	}
	l.facts, l.standing = facts, row(facts, nil)
	for _, e := range l.tasks {
		e.stands = stands{} // on the new row, until the next admission
		if len(e.desired.GetPlacement().GetGpus()) > 0 {
			l.touch(e)
		}
	}
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

// saw takes over what was observed of a task, or that it could not be.
func (l *loop) saw(e *entry, o driver.Observation, here bool, err error) {
	if e.blind = err != nil; e.blind {
		l.blind[e.id] = e
		return
	}
	delete(l.blind, e.id)
	if e.alive() {
		l.living--
	}
	if e.seen, e.here = o, here; e.alive() {
		l.living++
	}
	if l.samples {
		l.usage.setAlive(e.id, e.alive(), e.memo.Run.GetPlacement().GetResources().GetDiskBytes())
	}
	l.touch(e)
}

// report tells the server how a task stands, if that is news.
func (l *loop) report(e *entry, s *ohmv1.Status, now time.Time) {
	if s == nil {
		return
	}
	if old := e.reported; old != nil {
		again := task.Ended(s.GetState()) && now.Sub(e.reportedAt) >= l.Repeat
		if task.Order(s.GetState()) < task.Order(old.GetState()) || proto.Equal(old, s) && !again {
			return // states only move forward
		}
	}
	e.reported, e.reportedAt = s, now
	l.outbox.put(e.id, s)
}

// remember puts a changed memo into the journal; flush makes it durable.
func (l *loop) remember(e *entry, m memo) {
	if m == e.memo {
		return
	}
	e.memo = m
	if l.book == nil {
		return
	}
	data, err := m.encode()
	if err != nil {
		l.Log.Error("a task cannot be written down", zap.String("task", e.id), zap.Error(err))
		return
	}
	l.book.Put(e.id, data)
}

func (l *loop) flush() {
	if l.book != nil {
		_ = l.book.Flush() // it says so itself, and goes on
	}
}
