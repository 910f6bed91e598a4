package cellstate

import (
	"slices"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// ruled are the rules between tasks as a validator judges them.
type ruled struct {
	of      map[group][]*Concern // found already
	last    *Job                 // of the last claim, for which nothing is looked up:
	named   string               // its group
	its     []*Concern
	tallies map[string]*Tally // by rule
}

// group is a group of a job's version.
type group struct {
	job     JobName
	version int64
	name    string
}

// kept is what an accepted claim owes to the rules that concern it.
type kept struct {
	scopes  []string     // of which the fences are compared and bumped
	witness []*Placement // that must still be there
}

// concernsOf are the rules that concern a claim.
func (v *validator) concernsOf(c *Claim) []*Concern {
	job := v.jobOf(c.Slot)
	if job == nil || job.Record == nil {
		return nil
	}
	if v.ruled.last == job && v.ruled.named == c.Slot.Group {
		return v.ruled.its
	}
	at := group{job.Name, job.Record.GetVersion(), c.Slot.Group}
	of, known := v.ruled.of[at]
	if !known {
		of = v.snapshot.concerns(job.Record.GetSpec(), c.Slot.Group)
		if v.ruled.of == nil {
			v.ruled.of = map[group][]*Concern{}
		}
		v.ruled.of[at] = of
	}
	v.ruled.last, v.ruled.named, v.ruled.its = job, c.Slot.Group, of
	return of
}

// scopesOf are the scopes of which a claim's commit compares and bumps the fences.
func (v *validator) scopesOf(c *Claim) (scopes []string) {
	for _, r := range v.concernsOf(c) {
		if r.Fenced {
			scopes = append(scopes, r.id)
		}
	}
	return slices.Concat(scopes, v.budgetScopes(c), v.reclaimed(c), v.parallelScopes(c))
}

func (v *validator) tally(r *Concern, c *Claim) *Tally {
	t := v.ruled.tallies[r.id]
	if t == nil {
		t = v.snapshot.tally(r.Rule, v.jobOf(c.Slot).Record.GetSpec(), c.Slot.Version, r.owners)
		if v.ruled.tallies == nil {
			v.ruled.tallies = map[string]*Tally{}
		}
		v.ruled.tallies[r.id] = t
	}
	return t
}

// judgeRules judges a claim by the required rules that concern it: L7.
func (v *validator) judgeRules(txn *Txn, i int) (k kept, lost *Conflict) {
	c := &txn.Claims[i]
	for _, r := range v.concernsOf(c) {
		domain, ok := v.snapshot.domain(r.Rule, c.Node)
		if !ok && r.Owns {
			return k, &Conflict{Claim: i, Reason: ReasonRule, Dimension: r.Text(), Wanted: "a node with " + r.Within, Free: "none"}
		}
		if r.Fenced {
			k.scopes = append(k.scopes, r.id)
		}
		if !ok {
			continue
		}
		t := v.tally(r, c)
		if w := v.against(t, r, txn, c, domain); w != nil {
			w.Claim = i
			return k, w
		}
		if r.Kind == Together && r.Owns && t.witness[domain] != nil {
			k.witness = append(k.witness, t.witness[domain])
		}
	}
	return k, nil
}

// against says what is wrong with a claim under one rule.
func (v *validator) against(t *Tally, r *Concern, txn *Txn, c *Claim, domain string) *Conflict {
	broken := &Conflict{Reason: ReasonRule, Dimension: r.Text(), Wanted: r.Within + " " + domain}
	switch r.Kind {
	case Spread:
		count := int(v.jobOf(c.Slot).Group(c.Slot.Group).GetCount())
		if t.Over(r.Rule, domain, count) {
			v.each(r, domain, func(p *Placement) {
				newer := p.Revision > txn.Snapshot && p.Slot.Version == c.Slot.Version && p.GetTxn() != string(txn.ID)
				if newer && (broken.Winner == nil || p.Revision < broken.Winner.Revision) {
					broken.Winner = p
				}
			})
			return broken
		}
	case Together:
		switch {
		case !r.Owns, t.witness[domain] != nil, r.Fenced && t.claimed[domain] > 0:
		case r.Selected && len(t.witness) == 0 && none(t.claimed): // the first of all
		default:
			return broken
		}
	case Apart:
		var wrong int
		if r.Owns {
			wrong += t.Selected[domain]
		}
		if r.Selected {
			wrong += t.Owners[domain]
		}
		if wrong == 0 || len(c.Victims) > 0 && !v.standing(r, txn, c, domain) {
			return nil
		}
		v.blameRule(broken, r, txn, domain)
		return broken
	}
	return nil
}

func none(counts map[string]int) bool {
	for _, n := range counts {
		if n > 0 {
			return false
		}
	}
	return true
}

// each calls f for each placement in a domain that forbids a task on a side of the rule.
func (v *validator) each(r *Concern, domain string, f func(*Placement)) {
	here := func(p *Placement) {
		if d, ok := v.snapshot.domain(r.Rule, NodeName(p.GetNode())); ok && d == domain {
			f(p)
		}
	}
	if r.Owns {
		for j := range v.snapshot.selected(r.Rule) {
			for _, task := range j.Tasks {
				if task.Placement != nil && r.Selects(j.Record.GetSpec(), task.Slot.Group) {
					here(task.Placement)
				}
			}
		}
	}
	if r.Selected && r.Kind == Apart {
		for _, o := range r.owners {
			v.snapshot.eachOf(o, here)
		}
	}
}

// standing says whether anything forbids a claim that evicts, beside what gives way to its
// transaction: those that it evicts may run until it starts.
func (v *validator) standing(r *Concern, txn *Txn, c *Claim, domain string) bool {
	stands := false
	v.each(r, domain, func(p *Placement) {
		gives := p.GetEvictedBy() == string(txn.ID) || slices.ContainsFunc(c.Victims, func(o *ohmv1.Victim) bool {
			return SlotOf(o.GetSlot()) == p.Slot && o.GetTxn() == p.GetTxn()
		})
		stands = stands || !gives
	})
	t := v.tally(r, c)
	return stands || t.claimed[domain] > 0
}

// blameRule finds the first placement, newer than the loser's snapshot, that forbids it.
func (v *validator) blameRule(lost *Conflict, r *Concern, txn *Txn, domain string) {
	var first *Placement
	v.each(r, domain, func(p *Placement) {
		if first == nil || p.Revision < first.Revision {
			first = p
		}
	})
	if first != nil && first.Revision > txn.Snapshot && first.GetTxn() != string(txn.ID) {
		lost.Winner = first
	}
	if first != nil {
		lost.Free = "taken by " + first.Slot.Task()
	}
}

// keep counts an accepted claim, times 1, or takes it back, times -1.
func (v *validator) keep(c *Claim, times int) {
	for _, r := range v.concernsOf(c) {
		if domain, ok := v.snapshot.domain(r.Rule, c.Node); ok {
			v.tally(r, c).claim(r, domain, times)
		}
	}
}
