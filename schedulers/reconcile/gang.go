package reconcile

import (
	"fmt"
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
)

// Gang is what the needs of a gang have to find together.
type Gang struct {
	// Stage is where the gang is on its way.
	Stage Stage
	// Least is how many of the needs find nodes in one transaction, if any do, and of each
	// of Groups how many at least. 0: each is welcome alone.
	Least  int
	Groups map[string]int
	// Have members stand or have done their part, of All.
	Have, All int
	// Note says for people what the gang waits for, beyond room for all of its tasks.
	Note string
}

// Stage is where a gang is on its way.
type Stage int

// The stages.
const (
	Starting  Stage = iota // none of it stands
	Repairing              // it is broken: it has fewer members than it must have
	Growing                // it has as many as it must have, and not all
)

// members says how many members stand or have done their part, in all and by group.
func (d *judged) members() (have int, by map[string]int) {
	by = map[string]int{}
	for i := range d.slots {
		if s := &d.slots[i]; s.phase == live || s.phase == succeeded {
			by[s.Group]++
			have++
		}
	}
	return have, by
}

// minimum is how many members the gang must have.
func (d *judged) minimum() int {
	if least := int(d.spec.GetGang().GetMin()); least > 0 {
		return min(least, len(d.slots))
	}
	return len(d.slots)
}

// shortOf is how many members the gang lacks of what it must have, in all and by group.
func (d *judged) shortOf(have int, by map[string]int) (short int, groups map[string]int) {
	for _, g := range d.spec.GetGroups() {
		lacks := int(min(g.GetMin(), g.GetCount())) - by[g.GetName()]
		if lacks <= 0 {
			continue
		}
		if groups == nil {
			groups = map[string]int{}
		}
		groups[g.GetName()] = lacks
		short += lacks
	}
	return max(short, d.minimum()-have), groups
}

// gang finds out where a gang stands, and what of the time that it is given has passed.
func (d *judged) gang() {
	if d.spec.GetKind() != kindML || len(d.slots) == 0 {
		return
	}
	have, by := d.members()
	g := &Gang{Have: have, All: len(d.slots)}
	d.ofGang = g
	g.Least, g.Groups = d.shortOf(have, by)
	policy := d.spec.GetGang()
	switch {
	case d.count(live) > 0 && g.Least > 0:
		g.Stage = Repairing
		d.release()
		g.Note = fmt.Sprintf("the gang is broken: %d of its %d tasks are there, and it needs %d more", have, g.All, g.Least)
		if !d.deadline.IsZero() {
			g.Note += "; if it is not whole by " + d.deadline.UTC().Format(time.RFC3339) + ", it is released and starts anew"
		}
	case d.count(live) > 0:
		g.Stage = Growing
		g.Note = fmt.Sprintf("the gang runs with %d of its %d tasks; others join where no gang waits for the room", have, g.All)
	case policy.GetTimeout().AsDuration() <= 0:
	default:
		d.deadline = d.gangSince().Add(policy.GetTimeout().AsDuration())
		passed := !d.deadline.After(d.now)
		switch policy.GetOnTimeout() {
		case "fail":
			d.timedOut = passed && !d.attempted()
			if d.attempted() {
				d.deadline = time.Time{}
			}
		case "startWithMin":
		default:
			d.deadline, passed = time.Time{}, false
		}
		if policy.GetOnTimeout() != "startWithMin" || !passed {
			g.Least, g.Groups = len(d.slots)-have, nil // all or none
		}
		if passed {
			d.deadline = time.Time{}
		}
		switch at := d.deadline.UTC().Format(time.RFC3339); {
		case d.deadline.IsZero():
		case policy.GetOnTimeout() == "fail":
			g.Note = "if there is no room for all of its tasks by " + at + ", the job fails"
		default:
			g.Note = "if there is no room for all of its tasks by " + at + ", it starts with as many as fit"
		}
	}
}

// attempted says whether any slot of the gang has ever had a node.
func (d *judged) attempted() bool {
	return slices.ContainsFunc(d.slots, func(s slot) bool { return s.task.Attempts() > 0 })
}

// gangSince is when a gang of which nothing stands began to wait: when it was submitted, or
// the last of its members ended.
func (d *judged) gangSince() time.Time {
	since := d.job.Record.GetSubmitTime().AsTime()
	for _, s := range d.slots {
		if e := newest(ended(s.task)); e != nil && endOf(e).After(since) {
			since = endOf(e)
		}
	}
	return since
}

// release finds out whether the members that are left of a broken gang are to be given up:
// when the time for its repair has passed, or some have been told already.
func (d *judged) release() {
	for _, s := range d.slots {
		d.releasing = d.releasing || s.phase == live && s.task.Placement.GetReleased()
	}
	broken := d.spec.GetGang().GetWhenBroken()
	if d.releasing || broken.GetThen() != "release" {
		return
	}
	d.deadline = d.brokenSince().Add(broken.GetAfter().AsDuration())
	if !d.deadline.After(d.now) {
		d.releasing, d.deadline = true, time.Time{}
	}
}

// brokenSince is when the gang came to have fewer members than it must have.
func (d *judged) brokenSince() (since time.Time) {
	lost := func(spare int, of func(*slot) bool) {
		var ends []time.Time // of those that are missing
		for i := range d.slots {
			if s := &d.slots[i]; s.phase != live && s.phase != succeeded && of(s) {
				at := time.Time{}
				if e := newest(ended(s.task)); e != nil {
					at = endOf(e)
				}
				ends = append(ends, at)
			}
		}
		slices.SortFunc(ends, time.Time.Compare)
		if len(ends) > spare {
			since = earlier(since, ends[spare])
		}
	}
	lost(len(d.slots)-d.minimum(), func(*slot) bool { return true })
	for _, g := range d.spec.GetGroups() {
		lost(int(g.GetCount()-min(g.GetMin(), g.GetCount())), func(s *slot) bool { return s.Group == g.GetName() })
	}
	return since
}

// Release says of a gang whether all that is left of it is to be stopped, so that it starts
// anew as a whole, and if not yet, when; zero: never, unless something changes.
func (l Limits) Release(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) (release bool, at time.Time) {
	if j.Record.GetSpec().GetKind() != kindML {
		return false, time.Time{}
	}
	d := l.judge(s, j, now)
	if d.ofGang == nil || d.ofGang.Stage != Repairing || d.over() != "" {
		return false, time.Time{}
	}
	return d.releasing, d.deadline
}

// spare says of a slot that a gang which has all that it must have can do without: it has
// never failed by its own fault.
func (s *slot) spare() bool {
	last := newest(ended(s.task))
	return (s.phase == ready || s.phase == backoff) && (last == nil || Classify(last.GetStatus()) != UserError)
}

// enough says whether the gang has done its work, though not all slots have: those that
// started have succeeded, and they are as many as it must have.
func (d *judged) enough() bool {
	g := d.ofGang
	if g == nil || d.count(succeeded) == 0 || d.count(live) > 0 {
		return false
	}
	if short, _ := d.shortOf(d.members()); short > 0 {
		return false
	}
	return !slices.ContainsFunc(d.slots, func(s slot) bool { return s.phase != succeeded && !s.spare() })
}

// gangNeeds cuts the needs of a gang to those that it has now. While some of it is being
// stopped to start anew, it has none.
func (d *judged) gangNeeds(needs []Need) []Need {
	g := d.ofGang
	if g == nil {
		return needs
	}
	if d.releasing {
		return nil
	}
	if g.Stage == Growing && d.count(succeeded) > 0 { // the work is nearly done: nobody is to join any more
		needs = slices.DeleteFunc(needs, func(n Need) bool {
			at := slices.IndexFunc(d.slots, func(s slot) bool { return s.Slot == n.Slot })
			return d.slots[at].spare()
		})
	}
	of := map[string]int{}
	for i := range needs {
		needs[i].Gang = g
		of[needs[i].Slot.Group]++
	}
	g.Least = min(g.Least, len(needs))
	for name, n := range g.Groups {
		g.Groups[name] = min(n, of[name])
	}
	return needs
}
