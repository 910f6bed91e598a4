package audit

import (
	"maps"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
)

// budgets checks that evictions and drains leave no more tasks of a group down than its
// disruption budget allows: L8. Jobs and tasks are those before the revision. Of what is down
// already only that counts which was given up: a task that goes down by itself may do so when
// the commit cannot see it.
func (r *revision) budgets() {
	given := map[string][]*cellstate.Placement{} // that were up, by scope
	of := map[string]cellstate.Budget{}
	for _, p := range slices.Concat(r.marks, r.drains) {
		old := live(r.before, p.Slot)
		if !r.before.Bound(old) || !r.before.Up(old) {
			continue
		}
		b, _ := r.before.Budget(r.before.Job(p.Slot.JobName()), p.Slot.Group)
		of[b.Scope()] = b
		given[b.Scope()] = append(given[b.Scope()], p)
	}
	for _, scope := range slices.Sorted(maps.Keys(given)) {
		b, down := of[scope], len(given[scope])
		j := r.before.Job(b.Job)
		for _, t := range j.TasksOf(b.Group, j.VersionOf(b.Group)) {
			if t.Slot.Index < int(j.Group(b.Group).GetCount()) && givenUp(t) {
				down++
			}
		}
		if down > b.Most {
			r.violated(L8, given[scope][0].Slot.PlacementKey(), "of %s %d tasks are given up, of at most %d", b.Text(), down, b.Most)
		}
	}
}

// givenUp says whether a task was given up and has not run again since.
func givenUp(t *cellstate.Task) bool {
	if p := t.Placement; p != nil {
		if p.GetEvictedBy() != "" || p.GetDrained() {
			return true
		}
		if t.Status.GetState() >= task.Running {
			return false
		}
	}
	if len(t.Ended) == 0 {
		return false
	}
	cause := t.Ended[len(t.Ended)-1].GetStatus().GetCause()
	return cause == task.Preempted || cause == task.Drained
}
