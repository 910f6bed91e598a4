package audit

import (
	"iter"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// rules checks that a new placement keeps to the required rules between tasks: its group's,
// and those of others about it (L7). Rules and labels are those before the revision; what
// stands is what the revision leaves.
func (r *revision) rules(p *cellstate.Placement) {
	j := r.before.Job(p.Slot.JobName())
	if j == nil || j.Record == nil {
		return // said already
	}
	group := j.Group(p.Slot.Group)
	for _, rule := range cellstate.Rules(j.Record.GetSpec(), group) {
		if !rule.Required {
			continue
		}
		domain, ok := domainOf(r.before, rule, p)
		if !ok {
			r.violated(L7, p.Slot.PlacementKey(), "%s: node %s has no %s", rule.Text(), p.GetNode(), rule.Within)
			continue
		}
		switch rule.Kind {
		case cellstate.Apart:
			r.apart(p, rule, domain, rule.Job, rule.Selects)
		case cellstate.Together:
			r.together(p, rule, domain)
		case cellstate.Spread:
			r.spread(p, rule, group, domain)
		}
	}
	of := func(yield func(*cellstate.Job) bool) { yield(j) }
	if r.before.Ruled() { // else no job has rules about others
		of = r.before.JobsIn(j.Name.Namespace)
	}
	for other := range of {
		for _, g := range other.Record.GetSpec().GetGroups() {
			if other.Name == j.Name && g == group {
				continue // its own, of which the one side is the other
			}
			for _, rule := range cellstate.Rules(other.Record.GetSpec(), g) {
				if domain, ok := domainOf(r.before, rule, p); ok && rule.Required && rule.Kind == cellstate.Apart && rule.Selects(j.Record.GetSpec(), p.Slot.Group) {
					r.apart(p, rule, domain, other.Name.Name, func(spec *ohmv1.JobSpec, group string) bool {
						return cellstate.JobNameOf(spec) == other.Name && group == g.GetName()
					})
				}
			}
		}
	}
}

func domainOf(s *cellstate.Snapshot, rule *cellstate.Rule, p *cellstate.Placement) (string, bool) {
	if n := s.Node(cellstate.NodeName(p.GetNode())); n != nil {
		return n.Label(rule.Within)
	}
	return "", false
}

// others are the placements beside p of its namespace in a state: of one job, or with no
// name of all.
func (r *revision) others(s *cellstate.Snapshot, p *cellstate.Placement, job string) iter.Seq2[*cellstate.Placement, *ohmv1.JobSpec] {
	return func(yield func(*cellstate.Placement, *ohmv1.JobSpec) bool) {
		jobs := s.JobsIn(p.Slot.Namespace)
		if job != "" {
			jobs = func(yield func(*cellstate.Job) bool) {
				if j := s.Job(cellstate.JobName{Namespace: p.Slot.Namespace, Name: job}); j != nil {
					yield(j)
				}
			}
		}
		for j := range jobs {
			was := r.before.Job(j.Name)
			if was == nil || was.Record == nil {
				continue
			}
			for _, t := range j.Tasks {
				if t.Placement != nil && t.Slot != p.Slot && !yield(t.Placement, was.Record.GetSpec()) {
					return
				}
			}
		}
	}
}

// apart finds a task of the other side in the domain, those aside that give way to p's
// transaction.
func (r *revision) apart(p *cellstate.Placement, rule *cellstate.Rule, domain, job string, side func(*ohmv1.JobSpec, string) bool) {
	for o, spec := range r.others(r.after, p, job) {
		// Of two that come together the second is the violation.
		second := o.Revision < p.Revision || o.Slot.Compare(p.Slot) < 0
		if d, ok := domainOf(r.before, rule, o); ok && d == domain && second && o.GetEvictedBy() != p.GetTxn() && side(spec, o.Slot.Group) {
			r.violated(L7, p.Slot.PlacementKey(), "%s: %s is on node %s, too, in %s %s", rule.Text(), o.Slot, o.GetNode(), rule.Within, domain)
			return
		}
	}
}

// together wants a selected task in the domain, before or after the revision, or none at all.
func (r *revision) together(p *cellstate.Placement, rule *cellstate.Rule, domain string) {
	elsewhere := false
	for _, s := range []*cellstate.Snapshot{r.before, r.after} {
		for o, spec := range r.others(s, p, rule.Job) {
			if !rule.Selects(spec, o.Slot.Group) {
				continue
			}
			if d, ok := domainOf(r.before, rule, o); ok && d == domain {
				return
			}
			// The first of all may be anywhere; of those that come together, the first that has
			// the rule, wherever those come that it is about and have it not.
			elsewhere = elsewhere || s == r.before || o.Slot.Compare(p.Slot) < 0 && has(spec, o.Slot.Group, rule)
		}
	}
	if elsewhere || !rule.Selects(r.before.Job(p.Slot.JobName()).Record.GetSpec(), p.Slot.Group) {
		r.violated(L7, p.Slot.PlacementKey(), "%s: there is none in %s %s", rule.Text(), rule.Within, domain)
	}
}

// has says whether a group has a rule.
func has(spec *ohmv1.JobSpec, group string, rule *cellstate.Rule) bool {
	return slices.ContainsFunc(spec.GetGroups(), func(g *ohmv1.Group) bool {
		return g.GetName() == group && slices.ContainsFunc(cellstate.Rules(spec, g), func(o *cellstate.Rule) bool { return o.ID() == rule.ID() })
	})
}

// spread counts the version's tasks. What has ended, or come to be a domain, since the claim
// was decided on is taken as it was then: no commit can see it.
func (r *revision) spread(p *cellstate.Placement, rule *cellstate.Rule, group *ohmv1.Group, domain string) {
	t := &cellstate.Tally{Selected: map[string]int{}, Domains: map[string]bool{}}
	seen := cellstate.Revision(p.GetSnapshotRevision())
	count := func(o *cellstate.Placement, times int) {
		if d, ok := domainOf(r.before, rule, o); ok {
			t.Selected[d] += times
		}
	}
	for _, task := range r.after.Job(p.Slot.JobName()).TasksOf(p.Slot.Group, p.Slot.Version) {
		if task.Placement != nil {
			count(task.Placement, 1)
			continue
		}
		for _, e := range task.Ended {
			o := cellstate.NewPlacement(task.Slot, e.GetPlacement(), cellstate.Revision(e.GetPlacementRevision()))
			if d, ok := domainOf(r.before, rule, o); ok && e.Revision > seen && d != domain {
				count(o, 1)
			}
		}
	}
	count(p, -1)
	// Of those that come together each but the last of its domain has the others on top.
	last := !slices.ContainsFunc(r.commits, func(o *cellstate.Placement) bool {
		return o.Slot.JobName() == p.Slot.JobName() && o.Slot.Group == p.Slot.Group && o.Slot.Compare(p.Slot) > 0
	})
	for n := range r.before.Nodes() {
		if d, ok := n.Label(rule.Within); ok && max(n.FactsRevision, n.IntentRevision, n.AliveRevision) <= seen && cellstate.Eligible(n, group) {
			t.Domains[d] = true
		}
	}
	if last && t.Over(rule, domain, int(group.GetCount())) {
		r.violated(L7, p.Slot.PlacementKey(), "%s: %d tasks in %s %s, of %v", rule.Text(), t.Selected[domain]+1, rule.Within, domain, t.Selected)
	}
}
