package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver"
)

// look brings what is known of the machine up to date: the tasks that were hinted at, or
// now and then all of them. A task with a step under way is left to its step.
func (l *loop) look(ctx context.Context) {
	hints := l.takeHints()
	now := time.Now()
	l.lookUntil = now.Add(l.LookTimeout)
	if !now.Before(l.nextList) {
		l.list(ctx)
		return
	}
	for id, e := range l.blind {
		if !hints[id] {
			l.observe(ctx, e)
		}
	}
	for id := range hints {
		l.observe(ctx, l.entry(id))
	}
}

// list observes everything. What the driver could not list is looked at alone, so that
// one broken task hides no other.
func (l *loop) list(ctx context.Context) {
	l.nextList = time.Now().Add(jitter(l.Resync, 0.8))
	seen, err := ask(ctx, l, "", l.Driver.List)
	listed := map[string]bool{}
	for _, o := range seen {
		listed[o.ID] = true
		if e := l.entry(o.ID); !e.busy {
			l.saw(e, o, true, nil)
		}
	}
	if err != nil && ctx.Err() == nil {
		l.Log.Warn("not every task can be observed", zap.Error(err))
	}
	for id, e := range l.tasks {
		l.touch(e)
		switch {
		case listed[id] || e.busy:
		case err != nil:
			l.observe(ctx, e)
		default:
			l.saw(e, e.seen, false, nil)
		}
	}
	if err == nil && !l.adopted {
		l.adoptLogs(ctx)
	}
}

// adoptLogs finds the logs of tasks that neither the machine nor the journal knows: they
// ran here before the journal was lost. They are removed like any others, in time.
func (l *loop) adoptLogs(ctx context.Context) {
	kept, err := ask(ctx, l, "logs", l.Driver.ListLogs)
	if err != nil {
		if ctx.Err() == nil {
			l.Log.Warn("the logs on this machine cannot be listed", zap.Error(err))
		}
		return
	}
	l.adopted = true
	for id, written := range kept {
		if l.tasks[id] != nil {
			continue
		}
		e := l.entry(id)
		l.saw(e, e.seen, false, nil)
		m := e.memo
		m.Started, m.Kept = true, written
		l.remember(e, m)
	}
}

func (l *loop) observe(ctx context.Context, e *entry) {
	if e.busy {
		e.again = true // what the step sees may be older than the hint
		return
	}
	type look struct {
		driver.Observation
		here bool
	}
	seen, err := ask(ctx, l, e.id, func(ctx context.Context) (s look, err error) {
		s.Observation, s.here, err = l.Driver.Observe(ctx, e.id)
		return s, err
	})
	l.saw(e, seen.Observation, seen.here, err)
	if err != nil && ctx.Err() == nil {
		l.Log.Warn("a task cannot be observed", zap.String("task", e.id), zap.Error(err))
	}
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
