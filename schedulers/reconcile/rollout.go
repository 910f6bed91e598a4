package reconcile

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// The states of a rollout.
const (
	RolloutRunning = "Running"
	RolloutPaused  = "Paused" // by somebody; nothing of it begins
	RolloutFailed  = "Failed" // it did not come forward in time; nothing of it begins
	RolloutDone    = "Done"   // every task is of the newest version, and well
)

// What becomes of an update that has failed (UpdatePolicy.on_failure).
const (
	OnFailurePause  = "pause"
	OnFailureRevert = "revert"
)

// rolling says whether tasks of older versions may still be wanted.
func rolling(j *cellstate.Job) bool {
	return j.Live() && j.Rollout != nil && j.Rollout.GetState() != RolloutDone
}

// stays says of a task of an older version whether it is still wanted in the place of a new
// one: until the rollout, of which the keeper decides the steps, has retired it. One that has
// not started, and of which nobody knows how to any more, is not.
func stays(j *cellstate.Job, s cellstate.Slot) bool {
	g := j.Group(s.Group)
	if !rolling(j) || g == nil || s.Index >= int(g.GetCount()) || retired(j.Rollout, s) {
		return false
	}
	t := j.Task(s)
	return j.AsOf(s) != nil || t != nil && t.Status.GetState() >= task.Running
}

func retired(r *ohmv1.Rollout, s cellstate.Slot) bool {
	return slices.ContainsFunc(r.GetRetired(), func(o *ohmv1.Slot) bool { return cellstate.SlotOf(o) == s })
}

// follows says whether the task at an index may come to the new version now.
func follows(j *cellstate.Job, index int) bool {
	r, canary := j.Rollout, int(j.Record.GetSpec().GetUpdate().GetCanary())
	return r.GetState() == RolloutRunning && (canary == 0 || index < canary || r.GetPromoted() || r.GetReverts())
}

// amount is how many of count tasks an amount means.
func amount(a *ohmv1.Amount, count int, up bool) int {
	n := count * int(a.GetPercent())
	if up {
		n += 99
	}
	return int(a.GetNumber()) + n/100
}

// bounds are how many of a group's tasks may be missing for an update, and how many there may
// be beyond count. One of the two lets it come forward.
func bounds(u *ohmv1.UpdatePolicy, count int) (missing, surge int) {
	missing, surge = amount(u.GetMaxUnavailable(), count, false), amount(u.GetSurge(), count, true)
	if missing+surge == 0 {
		missing = 1
	}
	return missing, surge
}

// surge makes ready, of a group's slots whose older tasks stay, those that may start beside
// them now.
func (d *judged) surge(slots []slot) {
	if !rolling(d.job) {
		return
	}
	_, most := bounds(d.spec.GetUpdate(), len(slots))
	for _, s := range slots {
		if s.phase == live && s.older != nil {
			most--
		}
	}
	for i := range slots {
		if s := &slots[i]; s.phase == kept && most > 0 && follows(d.job, s.Index) {
			s.phase = ready
			most--
		}
	}
}

// position is one place of a group while tasks come to a new version.
type position struct {
	slot cellstate.Slot
	is   *cellstate.Task   // the new one, live; nil: none
	was  []*cellstate.Task // those of older versions, live
}

func positions(j *cellstate.Job, g *ohmv1.Group) []position {
	all := make([]position, g.GetCount())
	for i := range all {
		all[i].slot = slotOf(j, g, i)
	}
	for _, t := range j.Tasks {
		switch at := t.Slot.Index; {
		case t.Slot.Group != g.GetName(), t.Placement == nil, at >= len(all):
		case j.Current(t.Slot):
			all[at].is = t
		default:
			all[at].was = append(all[at].was, t)
		}
	}
	return all
}

// up says whether a live task runs, is ready where that is checked, and nobody takes it away.
func up(j *cellstate.Job, t *cellstate.Task) bool {
	return t != nil && t.Placement.GetEvictedBy() == "" && !retired(j.Rollout, t.Slot) &&
		t.Status.GetState() == task.Running && (!checked(j, t) || t.Status.GetReady())
}

// step is one look at a rollout.
type step struct {
	job    *cellstate.Job
	update *ohmv1.UpdatePolicy
	now    time.Time
	next   *ohmv1.Rollout
	wake   time.Time

	come    int    // new tasks that count
	missing string // one that does not, and why; empty: none
	older   bool   // tasks of older versions are live
}

// Advance brings a rollout forward: which tasks of older versions are to end now, whether it
// is done, and whether it has failed. next is nil if nothing changes; wake is when that may
// be otherwise though nothing happens, zero for never.
//
// No more tasks of a group are missing for it than the job says, as far as the snapshot shows:
// what counts as there is an older task that runs, or a new one that has been well for as long
// as the job says. Places are taken in the order of their index.
func Advance(j *cellstate.Job, now time.Time) (next *ohmv1.Rollout, wake time.Time) {
	if !rolling(j) {
		return nil, time.Time{}
	}
	s := look(j, now)
	s.judge()
	if proto.Equal(s.next, j.Rollout) {
		return nil, s.wake
	}
	return s.next, s.wake
}

// Lacks says of a rollout which of the tasks that may have come to the new version by now has
// not, and why: empty if all have.
func Lacks(j *cellstate.Job, now time.Time) string { return look(j, now).missing }

func look(j *cellstate.Job, now time.Time) *step {
	s := &step{job: j, update: j.Record.GetSpec().GetUpdate(), now: now, next: proto.CloneOf(j.Rollout)}
	s.next.Retired = nil
	for _, t := range j.Tasks {
		if t.Placement == nil || j.Current(t.Slot) {
			continue
		}
		s.older = true
		if retired(j.Rollout, t.Slot) {
			s.next.Retired = append(s.next.Retired, t.Slot.Proto())
		}
	}
	for _, g := range j.Record.GetSpec().GetGroups() {
		s.group(positions(j, g))
	}
	return s
}

// counts says whether a new task counts, and looks again when it may.
func (s *step) counts(p position) bool {
	if !up(s.job, p.is) {
		return false
	}
	at := p.is.Status.GetStarted().AsTime().Add(s.update.GetSteady().AsDuration())
	if at.After(s.now) {
		s.wake = earlier(s.wake, at)
		return false
	}
	return true
}

func (s *step) group(places []position) {
	free, _ := bounds(s.update, len(places))
	come := make([]bool, len(places))
	older := func(t *cellstate.Task) bool { return up(s.job, t) }
	for i, p := range places {
		switch come[i] = s.counts(p); {
		case come[i]:
			s.come++
		case !slices.ContainsFunc(p.was, older):
			free--
		}
		if !come[i] && s.missing == "" && follows(s.job, i) {
			s.missing = s.why(p)
		}
	}
	for i, p := range places {
		if !follows(s.job, i) {
			continue
		}
		loses := !come[i] && slices.ContainsFunc(p.was, older)
		if loses && free <= 0 {
			continue
		}
		if loses {
			free--
		}
		for _, t := range p.was {
			if !retired(s.job.Rollout, t.Slot) {
				s.next.Retired = append(s.next.Retired, t.Slot.Proto())
			}
		}
	}
}

// why says of a place what its new task lacks.
func (s *step) why(p position) string {
	name := fmt.Sprintf("%s/%d", p.slot.Group, p.slot.Index)
	row := s.job.Task(p.slot)
	switch {
	case p.is != nil && p.is.Status.GetState() == task.Running && checked(s.job, p.is) && !p.is.Status.GetReady():
		return name + " is not ready"
	case p.is != nil && p.is.Status.GetMessage() != "":
		return name + ": " + p.is.Status.GetMessage()
	case p.is != nil && p.is.Status.GetState() != task.Running:
		return name + " has not started"
	case p.is != nil:
		return name + " has only just started"
	case row != nil && newest(row.Ended) != nil:
		return fmt.Sprintf("%s ended (%s) in attempt %d", name, task.CauseText(newest(row.Ended).GetStatus()), row.Attempts())
	case len(p.was) > 0:
		return name + " is still of an older version"
	}
	return name + " has no node"
}

func (s *step) judge() {
	r := s.next
	wanted := 0
	for _, g := range s.job.Record.GetSpec().GetGroups() {
		wanted += int(g.GetCount())
	}
	if s.come > int(r.GetCome()) {
		r.Come, r.Progress = int32(s.come), timestamppb.New(s.now)
	}
	switch {
	case s.come == wanted && !s.older:
		if r.State = RolloutDone; !r.GetReverts() {
			r.Message = ""
		}
	case r.GetState() != RolloutRunning, s.missing == "": // it waits for somebody
	default:
		limit := r.GetProgress().AsTime().Add(s.update.GetProgressDeadline().AsDuration())
		if limit.After(s.now) {
			s.wake = earlier(s.wake, limit)
			return
		}
		r.State = RolloutFailed
		r.Message = fmt.Sprintf("no task has come to version %d for %s: %s", s.job.Record.GetVersion(), s.update.GetProgressDeadline().AsDuration(), s.missing)
	}
}
