package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What becomes of a task by a change of its job.
const (
	EffectStay    = "stay"    // it goes on, in the same process
	EffectStart   = "start"   // there is none yet
	EffectUpdate  = "update"  // it goes on until its turn comes; a new one takes its place
	EffectRestart = "restart" // it is stopped at once, and a new one follows its exit
	EffectStop    = "stop"    // it is stopped, and none follows
	EffectOver    = "over"    // it has ended, and stays so
)

// Effects says what becomes of the tasks of a job by a change of its record. was is the row as
// it stands, nil or empty where there is none; j is the row as it would be, in the snapshot
// as it would be: so it is the rules by which tasks are started and stopped that speak.
func Effects(was *cellstate.Job, s *cellstate.Snapshot, j *cellstate.Job, now time.Time) []*ohmv1.GroupEffect {
	e := &effects{was: was, j: j, of: map[effect][]int{}}
	d := Defaults().judge(s, j, now)
	seen := map[cellstate.Slot]bool{}
	for _, at := range d.slots {
		seen[at.Slot] = true
		if at.older != nil {
			seen[at.older.Slot] = true
		}
		switch {
		case at.phase == live && StopCause(j, at.task.Placement, s.Node(cellstate.NodeName(at.task.Placement.GetNode()))) == "":
			e.add(at.Slot, EffectStay, "")
		case at.phase == live:
			e.add(at.Slot, EffectRestart, "it is to leave its node")
		case at.phase == kept, at.older != nil && rolling(j) && stays(j, at.older.Slot):
			e.add(at.Slot, EffectUpdate, e.changed(at.Slot, at.older))
		case at.older != nil:
			e.add(at.Slot, EffectRestart, e.changed(at.Slot, at.older))
		case at.phase == succeeded, at.phase == failed:
			e.add(at.Slot, EffectOver, "")
		default:
			e.add(at.Slot, EffectStart, e.isNew(at.Slot))
		}
	}
	for _, t := range j.Tasks {
		if t.Placement != nil && !seen[t.Slot] {
			e.add(t.Slot, EffectStop, e.ends(t.Slot))
		}
	}
	return e.all()
}

type effect struct{ group, action, why string }

type effects struct {
	was, j *cellstate.Job
	order  []effect
	of     map[effect][]int
}

func (e *effects) add(s cellstate.Slot, action, why string) {
	key := effect{s.Group, action, why}
	if e.of[key] == nil {
		e.order = append(e.order, key)
	}
	e.of[key] = append(e.of[key], s.Index)
}

func (e *effects) all() (all []*ohmv1.GroupEffect) {
	for _, key := range e.order {
		indexes := e.of[key]
		slices.Sort(indexes)
		all = append(all, &ohmv1.GroupEffect{
			Group: key.group, Action: key.action, Why: key.why, Tasks: int32(len(indexes)), Indexes: ranges(indexes),
		})
	}
	return all
}

// spec is that of the record as it stands; nil where nothing of the job is live.
func (e *effects) spec() *ohmv1.JobSpec {
	if e.was == nil || !e.was.Live() {
		return nil
	}
	return e.was.Record.GetSpec()
}

// changed is why a task does not stay what it is.
func (e *effects) changed(s cellstate.Slot, older *cellstate.Task) string {
	spec, why := e.spec(), ""
	if spec != nil && groupOf(spec, s.Group) != nil {
		why = strings.Join(Reaches(spec, e.j.Record.GetSpec(), s.Group), ", ")
	}
	switch {
	case why != "":
		return "changed: " + why
	case older.Status.GetState() < task.Running && spec != nil:
		return "it has not started yet"
	}
	return fmt.Sprintf("it is still of version %d", older.Slot.Version)
}

// isNew is why there is no such task yet.
func (e *effects) isNew(s cellstate.Slot) string {
	spec := e.spec()
	is, was := e.j.Group(s.Group), groupOf(spec, s.Group)
	switch {
	case spec == nil && e.was != nil && e.was.Record != nil:
		return "a new run"
	case spec == nil:
		return "the job is new"
	case was == nil:
		return "the group is new"
	case is.GetCount() > was.GetCount() && s.Index >= int(was.GetCount()):
		return fmt.Sprintf("count from %d to %d", was.GetCount(), is.GetCount())
	}
	return "it is due already"
}

// ends is why nothing takes a task's place.
func (e *effects) ends(s cellstate.Slot) string {
	is, was := e.j.Group(s.Group), groupOf(e.spec(), s.Group)
	switch {
	case is == nil:
		return "the group is gone"
	case was != nil && is.GetCount() < was.GetCount() && s.Index >= int(is.GetCount()):
		return fmt.Sprintf("count from %d to %d", was.GetCount(), is.GetCount())
	}
	return "it is not wanted on its node"
}

// ranges writes ascending numbers for people: "0-9, 12".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := fmt.Sprint(numbers[i])
		if last > i {
			part += fmt.Sprintf("-%d", numbers[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ", ")
}

// Settled is a snapshot in which those tasks of a job have ended that are to end, those of older
// versions included: it shows what the ones that follow will find.
func Settled(s *cellstate.Snapshot, j *cellstate.Job) (*cellstate.Snapshot, error) {
	var records []cellstate.Record
	for _, t := range j.Tasks {
		g := j.Group(t.Slot.Group)
		system := j.Record.GetSpec().GetKind() == kindSystem
		if t.Placement == nil || j.Current(t.Slot) && g != nil && (system || t.Slot.Index < int(g.GetCount())) {
			continue
		}
		p := t.Placement
		records = append(records, cellstate.ReleaseRecords(t, &ohmv1.Status{
			Slot: p.GetSlot(), Attempt: p.GetAttempt(), Txn: p.GetTxn(), Node: p.GetNode(), State: task.Stopped, Cause: task.Stop,
		})...)
	}
	if len(records) == 0 {
		return s, nil
	}
	return s.With(records...)
}
