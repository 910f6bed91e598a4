package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/journal"
	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

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
