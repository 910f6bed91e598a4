package agent

import (
	"context"
	"slices"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
)

// callRemoveLogs is the loop's own step, beside those of driver.Step.
const callRemoveLogs driver.Call = "remove logs"

// pruneEvery is the time between two looks for logs to be removed: nobody waits for it.
const pruneEvery = time.Second

// keep deals with a task that is neither desired nor on the machine: if it has run, its
// logs stay for a while, and so does the memory of its end; else it is forgotten at once
// and keep says false.
func (l *loop) keep(e *entry, now time.Time) bool {
	if !e.memo.Started && e.memo.End == nil {
		l.forget(e)
		return false
	}
	if m := e.memo; m.Kept.IsZero() {
		m.Kept = now
		l.remember(e, m)
		l.unpruned = true
	}
	return true
}

func (l *loop) forget(e *entry) {
	e.close()
	l.drop(e)
	l.occupy(e, nil)
	delete(l.tasks, e.id)
	delete(l.blind, e.id)
	if l.book != nil {
		l.book.Delete(e.id)
	}
}

// prune removes logs that have been kept long enough.
func (l *loop) prune(ctx context.Context, now time.Time) {
	for _, e := range outlived(l.tasks, l.KeepLogs, now.Add(-l.KeepLogsFor)) {
		if l.busy >= l.Steps {
			return
		}
		if now.Before(e.notUntil) {
			continue
		}
		l.act(ctx, e, l.StepTimeout, func(ctx context.Context) result {
			return result{entry: e, call: callRemoveLogs, err: l.Driver.RemoveLogs(ctx, e.id)}
		})
	}
}

// outlived are the tasks of which only logs are left, beyond the newest most, and those
// that ended before the time given.
func outlived(tasks map[string]*entry, most int, before time.Time) []*entry {
	left := func(e *entry) bool {
		return !e.memo.Kept.IsZero() && e.desired == nil && !e.here && !e.blind && !e.busy
	}
	n, old := 0, false
	for _, e := range tasks {
		if left(e) {
			n++
			old = old || e.memo.Kept.Before(before)
		}
	}
	if n <= most && !old {
		return nil
	}
	var kept []*entry
	for _, e := range tasks {
		if left(e) {
			kept = append(kept, e)
		}
	}
	slices.SortFunc(kept, func(a, b *entry) int { return b.memo.Kept.Compare(a.memo.Kept) })
	for i, e := range kept {
		if i >= most || e.memo.Kept.Before(before) {
			return kept[i:]
		}
	}
	return nil
}

func (l *loop) logsRemoved(e *entry, err error) {
	switch {
	case err != nil:
		e.notUntil = time.Now().Add(lastRepeat)
		l.warnStep(e, callRemoveLogs, err)
	case e.desired == nil:
		l.forget(e)
	}
}
