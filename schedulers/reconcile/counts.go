package reconcile

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// counts says where the slots of each group stand. Each slot of the present version is
// counted once, as the task of an older version while that stays in its place; tasks that are
// being stopped because their version, index or group is not wanted any more come on top, as
// stopping. What is in a crash loop is counted as that besides.
func (d *judged) counts(over string) []*ohmv1.GroupCounts {
	var all []*ohmv1.GroupCounts
	of := map[string]*ohmv1.GroupCounts{}
	group := func(name string) *ohmv1.GroupCounts {
		if of[name] == nil {
			of[name] = &ohmv1.GroupCounts{Name: name}
			all = append(all, of[name])
		}
		return of[name]
	}
	for _, g := range d.spec.GetGroups() {
		group(g.GetName())
	}
	if !known(d.spec) { // what is there, as nobody knows what should be
		for _, g := range d.spec.GetGroups() {
			group(g.GetName()).Count = g.GetCount()
		}
		for _, t := range d.job.Tasks {
			if t.Placement != nil {
				d.countLive(group(t.Slot.Group), t)
			}
		}
		return all
	}
	others := d.live // tasks that run without being wanted
	for _, s := range d.slots {
		c := group(s.Group)
		c.Count++
		if over == "" && !jobspec.RunsToEnd(d.spec) && d.limits.crashes(s, d.now) {
			c.Crashing++
		}
		switch s.phase {
		case succeeded:
			c.Succeeded++
		case failed:
			c.Failed++
		case live:
			others--
			d.countLive(c, s.task)
		case kept:
			others--
			c.Outdated++
			d.countLive(c, s.older)
		default:
			if over != "" {
				c.Stopped++
			} else {
				c.Waiting++
			}
		}
	}
	if others == 0 {
		return all
	}
	counted := map[cellstate.Slot]bool{}
	for _, s := range d.slots {
		counted[s.Slot] = true
		if s.phase == kept {
			counted[s.older.Slot] = true
		}
	}
	for _, t := range d.job.Tasks {
		switch {
		case t.Placement == nil || counted[t.Slot]:
		case stays(d.job, t.Slot):
			group(t.Slot.Group).Outdated++
		default:
			group(t.Slot.Group).Stopping++
		}
	}
	return all
}

func (d *judged) countLive(c *ohmv1.GroupCounts, t *cellstate.Task) {
	state := task.Order(t.Status.GetState())
	node := d.snapshot.Node(cellstate.NodeName(t.Placement.GetNode()))
	switch {
	case state >= task.Stopping || StopCause(d.job, t.Placement, node) != "":
		c.Stopping++
	case state == task.Running:
		c.Running++
		if checked(d.job, t) && !t.Status.GetReady() {
			c.Unready++
		}
	default:
		c.Starting++
	}
}

// checked says whether the task has a readiness check.
func checked(j *cellstate.Job, t *cellstate.Task) bool {
	return j.Current(t.Slot) && j.Group(t.Slot.Group).GetHealth().GetReady() != nil
}

// state is the job's, as people see it. It runs once a task of it runs or has done its
// part; a job that is over but has live tasks is stopping.
func (d *judged) state(over string) string {
	switch {
	case over != "" && d.live > 0:
		return Stopping
	case over != "":
		return over
	case d.live == 0 && !known(d.spec):
		return Pending
	case len(d.slots) == 0: // of a service with count 0: all that is wanted is there
		return Running
	}
	if d.count(succeeded) > 0 {
		return Running
	}
	for _, s := range d.slots {
		if s.phase == live && runs(s.task) || s.phase == kept && runs(s.older) {
			return Running
		}
	}
	return Pending
}

func runs(t *cellstate.Task) bool { return task.Order(t.Status.GetState()) == task.Running }
