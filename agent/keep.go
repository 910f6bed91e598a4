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

// prune removes logs that have been kept long enough; while the disk is full, one after the
// other of those that may go.
func (l *loop) prune(ctx context.Context, now time.Time) {
	r := retention{most: l.KeepLogs, before: now.Add(-l.KeepLogsFor), young: now.Add(-l.KeepLogsMin)}
	if r.one = l.diskFull(); r.one {
		l.unpruned = true // and look again soon
	}
	for _, e := range outlived(l.tasks, r) {
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
	l.forgetExpired()
}

// retention says which logs of ended tasks are to go.
type retention struct {
	most   int       // so many are kept,
	before time.Time // of those that ended since;
	one    bool      // and the oldest goes in any case,
	young  time.Time // but none that ended since
}

// outlived are the tasks of which only logs are left, and those are to go, newest first.
func outlived(tasks map[string]*entry, r retention) []*entry {
	left := func(e *entry) bool {
		return !e.memo.Kept.IsZero() && e.memo.Expired.IsZero() && e.desired == nil && !e.here && !e.blind && !e.busy
	}
	n, old := 0, r.one
	for _, e := range tasks {
		if left(e) {
			n++
			old = old || e.memo.Kept.Before(r.before)
		}
	}
	if n <= r.most && !old {
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
		if i >= r.most || e.memo.Kept.Before(r.before) {
			return kept[i:]
		}
	}
	if last := len(kept) - 1; r.one && last >= 0 && kept[last].memo.Kept.Before(r.young) {
		return kept[last:]
	}
	return nil
}

// forgetExpired forgets the oldest of those tasks of which only is known when their logs
// were removed, beyond the newest.
func (l *loop) forgetExpired() {
	if l.expired <= l.KeepExpired {
		return
	}
	var expired []*entry
	for _, e := range l.tasks {
		if !e.memo.Expired.IsZero() {
			expired = append(expired, e)
		}
	}
	slices.SortFunc(expired, func(a, b *entry) int { return b.memo.Expired.Compare(a.memo.Expired) })
	l.expired = min(len(expired), l.KeepExpired)
	for _, e := range expired[l.expired:] {
		if e.desired == nil && !e.busy {
			l.forget(e)
		}
	}
}

func (l *loop) logsRemoved(e *entry, err error) {
	switch {
	case err != nil:
		e.notUntil = time.Now().Add(lastRepeat)
		l.warnStep(e, callRemoveLogs, err)
	case e.desired == nil:
		l.remember(e, memo{Started: true, Kept: e.memo.Kept, Expired: time.Now()})
		l.expired++
		l.lookAtDisk()
	}
}
