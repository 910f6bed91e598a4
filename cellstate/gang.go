package cellstate

import (
	"fmt"
	"slices"

	"github.com/ohmcell/ohm/pkg/task"
)

// GangLacks says in words what a gang would lack of its minimum, in all or of one group, if of
// it stood these slots only, beside what has done its part; empty: nothing. Which tasks come
// beyond its minimum, and when, is for its scheduler to say.
func (j *Job) GangLacks(slots []Slot) string {
	spec := j.Record.GetSpec()
	have, by := len(slots), map[string]int{}
	for _, s := range slots {
		by[s.Group]++
	}
	for _, t := range j.Tasks {
		if done := len(t.Ended); done > 0 && j.Current(t.Slot) && !slices.Contains(slots, t.Slot) && t.Ended[done-1].GetStatus().GetState() == task.Succeeded {
			have++
			by[t.Slot.Group]++
		}
	}
	all := 0
	for _, g := range spec.GetGroups() {
		all += int(g.GetCount())
		if least := int(min(g.GetMin(), g.GetCount())); by[g.GetName()] < least {
			return fmt.Sprintf("%d of at least %d tasks of group %s", by[g.GetName()], least, g.GetName())
		}
	}
	least := all
	if spec.GetGang().GetMin() > 0 {
		least = min(all, int(spec.GetGang().GetMin()))
	}
	if have < least {
		return fmt.Sprintf("%d of at least %d tasks", have, least)
	}
	return ""
}

// judgeGang judges the accepted claims of an atomic transaction together: a gang of which nothing
// stands starts with its minimum or not at all, whoever places it.
func (v *validator) judgeGang(txn *Txn, fit []accepted) *Conflict {
	jobs := map[JobName][]Slot{} // nearly always one
	for _, a := range fit {
		s := txn.Claims[a.claim].Slot
		jobs[s.JobName()] = append(jobs[s.JobName()], s)
	}
	for name, slots := range jobs {
		j := v.snapshot.Job(name)
		if j.Record.GetSpec().GetGang() == nil || slices.ContainsFunc(j.Tasks, func(t *Task) bool { return t.Placement != nil && j.Current(t.Slot) }) {
			continue
		}
		if lacks := j.GangLacks(slots); lacks != "" {
			at := slices.IndexFunc(txn.Claims, func(c Claim) bool { return c.Slot == slots[0] })
			return &Conflict{Claim: at, Reason: ReasonGang, Dimension: "gang", Wanted: "its minimum together", Free: lacks, Revision: v.snapshot.Revision()}
		}
	}
	return nil
}
