package agent

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

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
