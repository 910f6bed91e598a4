package cellstate

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// owner is a group that has a rule.
type owner struct {
	job   JobName
	group string
}

// ruleRow is a required rule about tasks of other jobs, which must be found from theirs.
type ruleRow struct {
	*Rule
	owners []owner // of all jobs
	fenced bool
}

// labelRow says that a job has a label.
type labelRow struct {
	namespace, key, value string
	job                   string
}

// scopeRow is what is known of a scope's fence.
type scopeRow struct {
	name  string
	fence Revision
}

// labelKey finds what has to do with one label in a namespace.
func labelKey(namespace, key, value string) string {
	return namespace + "/!" + key + "\x00" + value + "\x00"
}

func (l *labelRow) id() string { return labelKey(l.namespace, l.key, l.value) + l.job }

// target is where the jobs that a rule selects look for it: under their name, or under one
// of their labels.
func (r *Rule) target() string {
	if r.Job != "" {
		return r.Namespace + "/" + r.Job + "\x00"
	}
	k := slices.Min(slices.Collect(maps.Keys(r.Labels)))
	return labelKey(r.Namespace, k, r.Labels[k])
}

func (r *ruleRow) place() string { return r.target() + r.id }

// Barred says whether a new record of a job changes which rules hold between its tasks and
// those of other jobs, or how many of its tasks others may give up, so that requests under way,
// planned before, must not slip past it: the write of the record also puts what Barrier makes.
func Barred(was, next *ohmv1.JobSpec) bool {
	if was != nil && (!maps.Equal(was.GetLabels(), next.GetLabels()) || rebudgeted(was, next)) {
		return true
	}
	old := map[string]bool{}
	for _, r := range foreign(was) {
		old[r.id] = true
	}
	return slices.ContainsFunc(foreign(next), func(r *Rule) bool { return !old[r.id] && r.Wide() })
}

// Moves says whether a new record of a node, its facts or the operator's wishes, moves tasks
// that stand on it from one domain to another: then, too, the write puts a Barrier.
func Moves(n *Node, record proto.Message) bool {
	if n == nil || n.Count() == 0 {
		return false
	}
	switch next := record.(type) {
	case *ohmv1.Node:
		return !maps.Equal(next.GetAttributes(), n.Facts.GetAttributes())
	case *ohmv1.Intent:
		return !maps.Equal(next.GetLabels(), n.Intent.GetLabels())
	}
	return false
}

// Barrier is a record that each write of claims compares: where it is put, none that was
// planned before is applied any more, and its sender plans anew.
func Barrier(s *Snapshot, why string) Record {
	_, read := s.Meta(quotasMeta)
	return Record{Key: MetaKey(quotasMeta), Read: read, Value: &ohmv1.Meta{Value: why}}
}

// foreign are the required rules of a job that may be about tasks of others, each once for
// each group that has it.
func foreign(spec *ohmv1.JobSpec) (rules []*Rule) {
	for _, g := range spec.GetGroups() {
		for _, r := range Rules(spec, g) {
			if r.Required && r.Kind != Spread && r.Job != spec.GetName() {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// ruleChange brings the index up to date with a job's new record.
func (a *applier) ruleChange(name JobName, was, next *ohmv1.JobSpec) {
	if !maps.Equal(was.GetLabels(), next.GetLabels()) {
		for k, v := range was.GetLabels() {
			a.put("labels", &labelRow{name.Namespace, k, v, name.Name}, true)
		}
		for k, v := range next.GetLabels() {
			a.put("labels", &labelRow{name.Namespace, k, v, name.Name}, false)
		}
	}
	if was == next {
		return
	}
	a.own(name, was, false)
	a.own(name, next, true)
	if next == nil { // and with it what only its tasks could break
		rows, err := a.rest().Get("scopes", "id_prefix", name.Namespace+"/"+name.Name+"/")
		if err != nil {
			a.err = err
			return
		}
		var gone []any
		for row := rows.Next(); row != nil; row = rows.Next() {
			gone = append(gone, row)
		}
		for _, row := range gone {
			a.put("scopes", row, true)
		}
	}
}

// own makes a job's groups owners of its rules about other jobs, or no longer.
func (a *applier) own(name JobName, spec *ohmv1.JobSpec, there bool) {
	for _, g := range spec.GetGroups() {
		for _, r := range Rules(spec, g) {
			if !r.Required || r.Kind == Spread || r.Job == spec.GetName() {
				continue
			}
			row := &ruleRow{Rule: r, fenced: r.fenced(spec)}
			had, err := a.rest().First("rules", "id", row.place())
			if err != nil {
				a.err = err
				return
			}
			if had != nil {
				row.owners, row.fenced = had.(*ruleRow).owners, had.(*ruleRow).fenced || row.fenced
			}
			me := owner{name, g.GetName()}
			row.owners = slices.DeleteFunc(slices.Clone(row.owners), func(o owner) bool { return o == me })
			if there {
				row.owners = append(row.owners, me)
			}
			count := func(by int) {
				a.next.rules += by
				if r.Kind == Together {
					a.next.nears += by
				}
			}
			if had == nil {
				count(1)
			}
			if len(row.owners) == 0 {
				count(-1)
			}
			a.put("rules", row, len(row.owners) == 0)
		}
	}
}

// Ruled says whether any job has a required rule about other jobs.
func (s *Snapshot) Ruled() bool { return s.rules > 0 }

// scope is what is known of a scope's fence.
func (s *Snapshot) scope(name string) Revision {
	if row := first[scopeRow](s, "scopes", "id", name); row != nil {
		return row.fence
	}
	return 0
}

// Scopes are the fences of all scopes, by name.
func (s *Snapshot) Scopes() iter.Seq2[string, Revision] {
	return func(yield func(string, Revision) bool) {
		for row := range all[scopeRow](s, "scopes", "id_prefix", "") {
			if !yield(row.name, row.fence) {
				return
			}
		}
	}
}

// DropScopes are the ends of the fences of a job's own scopes, for the write that removes
// the job.
func DropScopes(s *Snapshot, job JobName) (drops []FenceBump) {
	for row := range all[scopeRow](s, "scopes", "id_prefix", job.Namespace+"/"+job.Name+"/") {
		drops = append(drops, FenceBump{Scope: row.name, Compared: row.fence, Drop: true})
	}
	return drops
}

// Concern is a rule that concerns the tasks of a group, and on which side they stand.
type Concern struct {
	*Rule
	Owns     bool    // the group has the rule
	Selected bool    // the rule is about the group
	Fenced   bool    // commits compare and bump a scope's fence: claims that come together see each other
	owners   []owner // all groups that have it
}

// concerns are the required rules that concern the tasks of a job's group, its own first.
func (s *Snapshot) concerns(spec *ohmv1.JobSpec, group string) (of []*Concern) {
	name := JobNameOf(spec)
	find := func(r *Rule) *Concern {
		for _, c := range of {
			if c.id == r.id {
				return c
			}
		}
		of = append(of, &Concern{Rule: r})
		return of[len(of)-1]
	}
	for _, g := range spec.GetGroups() {
		for _, r := range Rules(spec, g) {
			owns := g.GetName() == group
			selected := r.Kind != Spread && r.Selects(spec, group)
			if !r.Required || !owns && !selected {
				continue
			}
			c := find(r)
			c.Owns, c.Selected = c.Owns || owns, c.Selected || selected
			c.Fenced = c.Fenced || r.fenced(spec)
		}
	}
	for _, c := range of {
		if row := first[ruleRow](s, "rules", "id", (&ruleRow{Rule: c.Rule}).place()); row != nil {
			c.owners, c.Fenced = row.owners, c.Fenced || row.fenced
		}
		if c.Job != name.Name {
			continue
		}
		for _, g := range spec.GetGroups() { // a rule of the job about itself
			if slices.ContainsFunc(Rules(spec, g), func(r *Rule) bool { return r.id == c.id }) {
				c.owners = append(slices.Clip(c.owners), owner{name, g.GetName()})
			}
		}
	}
	if s.rules == 0 {
		return of
	}
	seek := func(target string) {
		for row := range all[ruleRow](s, "rules", "id_prefix", target) {
			if row.Selects(spec, group) {
				c := find(row.Rule)
				if c.Selected = true; c.owners == nil {
					c.Fenced, c.owners = row.fenced, row.owners
				}
			}
		}
	}
	seek(name.Namespace + "/" + name.Name + "\x00")
	for _, k := range slices.Sorted(maps.Keys(spec.GetLabels())) {
		seek(labelKey(name.Namespace, k, spec.GetLabels()[k]))
	}
	return of
}

// Concerns are the rules that a choice for the tasks of a job's group keeps to: those that
// are required of it, and those that the group itself has and prefers.
func (s *Snapshot) Concerns(spec *ohmv1.JobSpec, g *ohmv1.Group) []*Concern {
	of := s.concerns(spec, g.GetName())
	for _, r := range Rules(spec, g) {
		if !r.Required {
			of = append(of, &Concern{Rule: r, Owns: true, Selected: r.Kind != Spread && r.Selects(spec, g.GetName())})
		}
	}
	return of
}

// Tally counts what stands of the tasks that a rule is about; spec is that of the job which
// the rule concerns, and version that of its group.
func (s *Snapshot) Tally(c *Concern, spec *ohmv1.JobSpec, version int64) *Tally {
	return s.tally(c.Rule, spec, version, c.owners)
}

// KeptOff says of a node whether a required rule between tasks keeps one of a job's group off it,
// as things stand; nil where no rule concerns the group, as is so for most.
func (s *Snapshot) KeptOff(job *Job, g *ohmv1.Group) func(NodeName) bool {
	of := s.concerns(job.Record.GetSpec(), g.GetName())
	if len(of) == 0 {
		return nil
	}
	v := newValidator(s, 0)
	c := Claim{Slot: Slot{Namespace: job.Name.Namespace, Job: job.Name.Name, Group: g.GetName(), Version: job.VersionOf(g.GetName())}}
	txn := &Txn{Claims: []Claim{c}, Snapshot: s.Revision()}
	return func(node NodeName) bool {
		txn.Claims[0].Node = node
		_, lost := v.judgeRules(txn, 0)
		return lost != nil
	}
}

// KeepsRules says whether the claims of a transaction, in order, are against no required rule
// between tasks, each with those before it in place.
func KeepsRules(s *Snapshot, txn *Txn) bool {
	v := newValidator(s, 0)
	for i := range txn.Claims {
		if _, lost := v.judgeRules(txn, i); lost != nil {
			return false
		}
		v.keep(&txn.Claims[i], 1)
	}
	return true
}

// selected are the jobs that may have tasks which a rule is about.
func (s *Snapshot) selected(r *Rule) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		if r.Job != "" {
			if j := s.Job(JobName{r.Namespace, r.Job}); j != nil {
				yield(j)
			}
			return
		}
		for row := range all[labelRow](s, "labels", "id_prefix", r.target()) {
			if j := s.Job(JobName{r.Namespace, row.job}); j != nil && !yield(j) {
				return
			}
		}
	}
}

// scope is the row of a scope, to be written to.
func (a *applier) scope(name string) *scopeRow {
	fresh := &scopeRow{name: name}
	if had, err := a.rest().First("scopes", "id", name); err != nil {
		a.err = err
	} else if had != nil {
		fresh.fence = had.(*scopeRow).fence
	}
	a.put("scopes", fresh, false)
	return fresh
}

// opens says whether a placement may let others of its job be placed that could not before:
// those that must be near to it, or must not be many more than it.
func opens(p *Placement) bool {
	return slices.ContainsFunc(p.GetScopes(), func(f *ohmv1.ScopeFence) bool {
		parts := strings.SplitN(f.GetScope(), "/", 4) // namespace, job, kind, …
		return len(parts) > 2 && parts[2] != "apart" && parts[2] != budgetKind
	})
}
