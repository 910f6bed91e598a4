package cellstate

import (
	"slices"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// drops are the tasks of the job at work of which nothing is stored any more. They are taken
// out of its row together: tasks go as they come, a whole job's in one batch.
type drops struct {
	n    int
	gone []uint64 // a bit for each of the job's tasks
}

func (d *drops) has(i int) bool { return d.n > 0 && d.gone[i/64]>>(i%64)&1 == 1 }

func (d *drops) add(i, of int) {
	if d.n == 0 {
		if words := (of + 63) / 64; cap(d.gone) < words {
			d.gone = make([]uint64, words)
		} else {
			d.gone = d.gone[:words]
			clear(d.gone)
		}
	}
	d.gone[i/64] |= 1 << (i % 64)
	d.n++
}

// settle takes out of the job at work what was dropped.
func (a *applier) settle() {
	d, j := &a.drops, a.last
	switch {
	case d.n == 0:
		return
	case d.n == len(j.Tasks):
		j.Tasks = nil
	default:
		kept := j.Tasks[:0]
		for i, t := range j.Tasks {
			if !d.has(i) {
				kept = append(kept, t)
			}
		}
		clear(j.Tasks[len(kept):])
		j.Tasks = kept
	}
	d.n = 0
}

// task is where a slot's row stands in the row of its job, or would: found is false.
func (a *applier) task(slot Slot) (j *Job, i int, found bool) {
	j = a.job(slot.JobName())
	i, found = j.find(slot)
	return j, i, found && !a.drops.has(i)
}

// ownTask is the row of a slot, ready to be written to.
func (a *applier) ownTask(slot Slot) *Task {
	a.settleFor(slot)
	j, i, found := a.task(slot)
	switch {
	case !found:
		a.insert(j, i, &Task{Slot: slot, stamp: a.stamp})
	case j.Tasks[i].stamp != a.stamp:
		copied := *j.Tasks[i]
		copied.stamp = a.stamp
		j.Tasks[i] = &copied
	}
	return j.Tasks[i]
}

// settleFor makes sure that places among the tasks of a slot's job are those to come.
func (a *applier) settleFor(slot Slot) {
	a.job(slot.JobName())
	a.settle()
}

func (a *applier) insert(j *Job, i int, t *Task) {
	if j.Tasks == nil {
		j.Tasks = make([]*Task, 0, j.mostLikely())
	}
	j.Tasks = slices.Insert(j.Tasks, i, t)
}

// mostLikely is how many tasks a job will have that has none yet: not more than it says.
func (j *Job) mostLikely() int {
	n := 0
	for _, g := range j.Record.GetSpec().GetGroups() {
		n += int(min(max(0, g.GetCount()), 128))
	}
	return min(max(1, n), 128)
}

// placement takes in what has become of a slot's placement.
func (a *applier) placement(slot Slot, c *Change) {
	j, i, found := a.task(slot)
	var old, put *Placement
	if found {
		old = j.Tasks[i].Placement
	}
	var row *Task // of the slot, where it has none yet
	switch {
	case c.placed != nil:
		put, row = &c.placed.placement, &c.placed.task
	case !c.Deleted:
		if m := value[*ohmv1.Placement](c); m != nil {
			put = NewPlacement(slot, m, c.Revision)
		}
	}
	if old != nil {
		a.displace(old)
		a.next.roomRevision = max(a.next.roomRevision, c.Revision)
		if a.next.quotas > 0 {
			a.account(old, -1, c.Revision)
		}
	}
	switch {
	case put == nil && !found:
	case put == nil && j.Tasks[i].Status == nil && len(j.Tasks[i].Ended) == 0:
		a.drops.add(i, len(j.Tasks))
	case put != nil && !found && row != nil:
		if a.drops.n > 0 {
			a.settle()
			i, _ = j.find(slot)
		}
		a.insert(j, i, row)
	default:
		a.ownTask(slot).Placement = put
	}
	if put != nil {
		a.place(put)
		if a.next.nears > 0 || opens(put) {
			a.next.roomRevision = max(a.next.roomRevision, c.Revision)
		}
		if a.next.quotas > 0 {
			a.account(put, 1, c.Revision)
		}
	}
}

// report takes in what has become of a slot's status or of an ended attempt.
func (a *applier) report(kind Kind, slot Slot, attempt int, c *Change) {
	t := a.ownTask(slot)
	rev := c.Revision
	if c.Deleted {
		rev = 0
		if n := len(a.loose); n == 0 || a.loose[n-1] != a.last {
			a.loose = append(a.loose, a.last)
		}
	}
	if kind == KindStatus {
		t.Status, t.StatusRevision = value[*ohmv1.Status](c), rev
		return
	}
	t.Ended = slices.DeleteFunc(slices.Clone(t.Ended), func(e *Ended) bool { return e.Attempt == attempt })
	if e := value[*ohmv1.Ended](c); e != nil {
		t.Ended = append(t.Ended, &Ended{Ended: e, Attempt: attempt, Revision: rev})
		slices.SortFunc(t.Ended, func(x, y *Ended) int { return x.Attempt - y.Attempt })
	}
}

// place puts p on its node.
func (a *applier) place(p *Placement) {
	n := a.nodeOf(p)
	n.placed = n.placed.with(p, false)
	n.count++
	n.charge(p, 1)
}

// displace takes p off its node.
func (a *applier) displace(p *Placement) {
	n := a.nodeOf(p)
	n.placed = n.placed.with(p, true)
	n.count--
	n.charge(p, -1)
}
