package agent

import (
	"slices"
	"strings"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// admitted takes out the starts that have to wait (A3) and sorts the rest, ends first.
func (l *loop) admitted(todo []*entry, calls map[*entry]decision, now time.Time) []*entry {
	isStart := func(e *entry) bool { return calls[e].call == driver.CallStart }
	slices.SortFunc(todo, func(a, b *entry) int {
		if isStart(a) != isStart(b) {
			if isStart(b) {
				return -1
			}
			return 1
		}
		at := func(e *entry) time.Time { return e.memo.Run.GetPlacement().GetTime().AsTime() }
		if c := at(a).Compare(at(b)); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	first := slices.IndexFunc(todo, isStart)
	if first < 0 {
		return todo
	}
	admitted, starts := todo[:first:first], todo[first:]
	unsized := ""
	for _, e := range l.tasks {
		if !e.occupies() {
			l.occupy(e, nil)
			continue
		}
		if e.memo.Run == nil {
			unsized = e.id
			continue
		}
		l.occupy(e, e.memo.Run.GetPlacement())
	}
	// No more are judged at once than could be started now.
	steps := l.free(now)
	for free := steps - len(admitted); free > 0 && len(starts) > 0; free = steps - len(admitted) {
		var batch []*entry
		var fresh []*ohmv1.Placement
		batch, starts = starts[:min(free, len(starts))], starts[min(free, len(starts)):]
		for _, e := range batch {
			fresh = append(fresh, e.desired.GetPlacement())
		}
		verdicts := admit(l.standing, fresh)
		for i, e := range batch {
			v := verdicts[i]
			if v.ok && unsized != "" {
				v = verdict{why: "waits until " + unsized + ", which nobody knows the size of, has ended on the node"}
			}
			if v.ok {
				admitted = append(admitted, e)
				l.occupy(e, fresh[i])
			} else {
				l.refuse(e, v, now)
			}
		}
	}
	return admitted
}

// refuse says why a task does not start, and whether it ever will.
func (l *loop) refuse(e *entry, v verdict, now time.Time) {
	if v.device && e.waits.IsZero() {
		e.waits = now
	}
	if v.device && now.Sub(e.waits) >= l.DeviceWait {
		v.never = true
	}
	if !v.never {
		st := statusOf(e.desired.GetPlacement(), task.Assigned)
		st.Message = v.why
		l.report(e, st, now)
		return
	}
	m := e.memo
	cause := task.Refused
	if v.device {
		cause = task.DeviceLost
	}
	m.End = failedStart(e.desired.GetPlacement(), cause, v.why, now)
	l.remember(e, m)
	e.close()
	l.report(e, m.End, now)
}

// stands is a task as the admission counts it.
type stands struct {
	of *ohmv1.Placement // nil: it does not
	as *cellstate.Placement
}

// occupy has the admission count the task with this placement; nil: not at all.
func (l *loop) occupy(e *entry, p *ohmv1.Placement) {
	if e.stands.of == p {
		return
	}
	if e.stands.of != nil {
		l.standing.Stand(e.stands.as, false)
	}
	e.stands = stands{of: p}
	if p != nil {
		l.stood++
		e.stands.as = standing(l.facts, l.stood, p)
		l.standing.Stand(e.stands.as, true)
	}
}
