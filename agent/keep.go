package agent

import (
	"context"
	"slices"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
)

// The loop's own steps, beside those of driver.Step.
const (
	callRemoveLogs driver.Call = "remove logs"
	callWeighLogs  driver.Call = "weigh logs" // before it
)

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
	r := retention{most: l.KeepLogs, bytes: l.KeepLogsBytes, before: now.Add(-l.KeepLogsFor), young: now.Add(-l.KeepLogsMin)}
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
	l.weigh(ctx, now)
	l.forgetExpired()
}

// weigh finds out what the logs of ended tasks take, once for each: nobody writes to them.
func (l *loop) weigh(ctx context.Context, now time.Time) {
	for _, e := range l.tasks {
		switch {
		case !e.loggedOnly() || e.weighed || now.Before(e.notUntil):
		case l.busy >= l.Steps:
			l.unpruned = true
			return
		default:
			l.act(ctx, e, l.StepTimeout, func(ctx context.Context) result {
				bytes, err := l.Driver.LogBytes(ctx, e.id)
				return result{entry: e, call: callWeighLogs, bytes: bytes, err: err}
			})
		}
	}
}

func (l *loop) logsWeighed(e *entry, bytes int64, err error) {
	if l.unpruned = true; err != nil {
		e.notUntil = time.Now().Add(lastRepeat)
		l.warnStep(e, callWeighLogs, err)
		return
	}
	e.bytes, e.weighed = bytes, true
}

// loggedOnly says of a task that nothing but its logs is left, and nobody is at these.
func (e *entry) loggedOnly() bool {
	return !e.memo.Kept.IsZero() && e.memo.Expired.IsZero() && e.desired == nil && !e.here && !e.blind && !e.busy
}

// retention says which logs of ended tasks are to go.
type retention struct {
	most   int       // so many are kept,
	bytes  int64     // which take no more than this, but for the newest, which may;
	before time.Time // of those that ended since;
	one    bool      // and the oldest goes in any case,
	young  time.Time // but none that ended since
}

// outlived are the tasks of which only logs are left, and those are to go, newest first. Logs
// that somebody reads count, and stay.
func outlived(tasks map[string]*entry, r retention) []*entry {
	n, bytes, old := 0, int64(0), r.one
	for _, e := range tasks {
		if e.loggedOnly() {
			n++
			bytes += e.bytes
			old = old || e.memo.Kept.Before(r.before)
		}
	}
	if n <= r.most && bytes <= r.bytes && !old {
		return nil
	}
	var kept []*entry
	for _, e := range tasks {
		if e.loggedOnly() {
			kept = append(kept, e)
		}
	}
	slices.SortFunc(kept, func(a, b *entry) int { return b.memo.Kept.Compare(a.memo.Kept) })
	first := len(kept)
	bytes = 0
	for i, e := range kept {
		bytes += e.bytes
		if i >= r.most || i > 0 && bytes > r.bytes || e.memo.Kept.Before(r.before) {
			first = i
			break
		}
	}
	if last := len(kept) - 1; r.one && first == len(kept) && last >= 0 && kept[last].memo.Kept.Before(r.young) {
		first = last
	}
	return slices.DeleteFunc(kept[first:], func(e *entry) bool { return e.readers > 0 })
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
