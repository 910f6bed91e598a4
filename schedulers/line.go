package schedulers

import (
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// mostAhead is how many of those ahead of a job are named.
const mostAhead = 10

// Why a job is ahead of another one, in QueuedJob.code.
const (
	AheadPrecedence = "HigherPrecedence"
	AheadTurn       = "Turn"
	AheadAge        = "Older"
)

// InLine is where a job stands among those that wait for room, by the order that every Runner
// goes by, and when it may get it; nil if it waits for none. It is a function of the snapshot:
// what schedulers have in flight, and how instances of one share its jobs, it does not know.
func InLine(s *cellstate.Snapshot, name cellstate.JobName, now time.Time) *ohmv1.QueueView {
	self := lined(s, s.Job(name), now)
	if self == nil {
		return nil
	}
	view := &ohmv1.QueueView{}
	var before []*entry
	var wants cellstate.Amounts
	scheduler := self.job.Record.GetSpec().GetScheduler()
	for _, e := range lineUp(s, now) {
		switch {
		case e.name == name:
			view.Position = int32(len(before)) + 1
		case view.Position == 0 && (e.precedence > self.precedence || e.job.Of(scheduler)):
			before = append(before, e)
			wants = wants.Plus(cost(e.needs...))
			view.TasksAhead += int32(len(e.needs))
			if len(view.Ahead) < mostAhead {
				view.Ahead = append(view.Ahead, queued(s, e, self))
			}
		case e.precedence <= self.precedence && e.job.Of(scheduler):
		default:
			continue
		}
		view.Of++
	}
	view.WantsAhead = wants.Proto()
	view.Estimate = estimate(s, before, self, now)
	return view
}

// lined is the entry of a job that waits for room; nil if it does not, or never gets any.
func lined(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) *entry {
	if j == nil || j.Record.GetSpec().GetKind() == "system" {
		return nil
	}
	all, _ := reconcile.Defaults().Needs(s, j, now)
	needs := make([]reconcile.Need, 0, len(all))
	for _, n := range all {
		if !elsewhere(j, n.Slot.Group) {
			needs = append(needs, n)
		}
	}
	if len(needs) == 0 || gang(j) && len(needs) < len(all) {
		return nil
	}
	spec := j.Record.GetSpec()
	return &entry{name: j.Name, job: j, needs: needs, version: j.Revision, precedence: spec.GetPrecedence(), submitted: j.Record.GetSubmitTime().AsTime().UnixNano()}
}

// elsewhere says whether a group waits for something else than room, by its scheduler's last
// word on it.
func elsewhere(j *cellstate.Job, group string) bool {
	if j.Waiting.GetJobVersion() != j.Record.GetVersion() {
		return false
	}
	return slices.ContainsFunc(j.Waiting.GetGroups(), func(w *ohmv1.GroupWaiting) bool {
		return w.GetGroup() == group && (w.GetNever() != "" || len(w.GetReasons()) > 0 && w.GetReasons()[0].GetReason() == string(cellstate.ReasonQuota))
	})
}

// lineUp is all that wait for room, in the order of a queue.
func lineUp(s *cellstate.Snapshot, now time.Time) (line []*entry) {
	lanes := map[string][]*entry{}
	for j := range s.Jobs() {
		if e := lined(s, j, now); e != nil {
			line = append(line, e)
			lanes[j.Name.Namespace] = append(lanes[j.Name.Namespace], e)
		}
	}
	fair := s.Fair()
	if fair == nil {
		slices.SortFunc(line, byUrgency)
		return line
	}
	line = line[:0]
	var open []*lane
	for name, entries := range lanes {
		slices.SortFunc(entries, byUrgency)
		open = append(open, &lane{namespace: name, head: entries[0], turn: fair.Turn(name, cellstate.Amounts{}), next: func() (*entry, bool) {
			if entries = entries[1:]; len(entries) == 0 {
				return nil, false
			}
			return entries[0], true
		}})
	}
	holds := map[string]cellstate.Amounts{}
	for len(open) > 0 {
		l := slices.MinFunc(open, byTurn)
		line = append(line, l.head)
		holds[l.namespace] = holds[l.namespace].Plus(cost(l.head.needs...))
		l.turn = fair.Turn(l.namespace, holds[l.namespace])
		open = l.advance(open)
	}
	return line
}

// queued is a job ahead of another one.
func queued(s *cellstate.Snapshot, e, than *entry) *ohmv1.QueuedJob {
	out := &ohmv1.QueuedJob{
		Namespace: e.name.Namespace, Job: e.name.Name, Scheduler: e.job.Record.GetSpec().GetScheduler(), Precedence: e.precedence,
		Tasks: int32(len(e.needs)), Wants: cost(e.needs...).Proto(), Code: AheadAge,
	}
	switch {
	case e.precedence > than.precedence:
		out.Code = AheadPrecedence
	case s.Fair() != nil && e.name.Namespace != than.name.Namespace:
		out.Code = AheadTurn
	}
	return out
}
