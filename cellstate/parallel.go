package cellstate

import "fmt"

// How many tasks of a job may be live at a time is judged on the snapshot of each commit, in
// which commits for the job come one after the other: each compares and bumps the fence of a
// scope of the job. A task counts from its placement to its release, whatever its version. A
// limit that is lowered ends nothing.

// MaxParallel is how many tasks of the job may be live at a time; 0: any number.
func (j *Job) MaxParallel() int { return int(j.Record.GetSpec().GetMaxParallel()) }

// Placements are how many tasks of the job, of all versions, are live.
func (j *Job) Placements() (n int) {
	for _, t := range j.Tasks {
		if t.Placement != nil {
			n++
		}
	}
	return n
}

// parallelScopes are the scopes of a claim's job, if that limits how many of its tasks are live;
// in the form of Rule.ID.
func (v *validator) parallelScopes(c *Claim) []string {
	if v.snapshot == nil {
		return nil
	}
	if j := v.jobOf(c.Slot); j == nil || j.MaxParallel() == 0 {
		return nil
	}
	return []string{c.Slot.Namespace + "/" + c.Slot.Job + "/parallel/"}
}

// judgeParallel judges a claim by how many tasks of its job are live, with those that were
// accepted before: L9.
func (v *validator) judgeParallel(txn *Txn, i int) *Conflict {
	c := &txn.Claims[i]
	j := v.jobOf(c.Slot)
	most := j.MaxParallel()
	if most == 0 || j.Placements()+v.parallel[j.Name] < most {
		return nil
	}
	lost := &Conflict{Claim: i, Reason: ReasonParallel, Wanted: "one more task", Free: fmt.Sprintf("%d run, of at most %d", j.Placements()+v.parallel[j.Name], most)}
	for _, t := range j.Tasks { // who came first since the loser's snapshot
		if p := t.Placement; p != nil && p.Revision > txn.Snapshot && p.GetTxn() != string(txn.ID) && (lost.Winner == nil || p.Revision < lost.Winner.Revision) {
			lost.Winner = p
		}
	}
	return lost
}

// crowd counts an accepted claim for its job, times 1, or takes it back, times -1.
func (v *validator) crowd(c *Claim, times int) {
	if len(v.parallelScopes(c)) > 0 {
		if v.parallel == nil {
			v.parallel = map[JobName]int{}
		}
		v.parallel[c.Slot.JobName()] += times
	}
}
