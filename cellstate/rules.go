package cellstate

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// RuleKind is what a rule between tasks says.
type RuleKind int

// The kinds of rules.
const (
	Apart    RuleKind = iota // no task of the owner where a selected one is
	Together                 // a task of the owner only where a selected one is
	Spread                   // about as many tasks of the owner in each domain
)

// NodeLabel is the key under which every node has its own name: the narrowest scope.
const NodeLabel = "node"

// Rule is one rule of a group, its owner, about tasks of the same namespace that stand in
// the same domain: on nodes with the same value of a label or attribute. Rules of several
// jobs that say the same are the same rule.
type Rule struct {
	Kind      RuleKind
	Namespace string
	Job       string            // the tasks that it selects: of this job
	Labels    map[string]string // or, where there is no job, of those with all of these labels
	Group     string            // of this group; empty: of all
	Within    string            // the label or attribute
	Required  bool
	MaxSkew   int              // of Spread
	Shares    map[string]int32 // of Spread, by domain: weights; nil: the same for all
	Gang      bool             // of Together: it is that of a gang, about all of its own tasks

	id string
}

// ID names the rule by what it says, in its namespace and, first in it, the job it selects.
func (r *Rule) ID() string { return r.id }

// Rules are those of a group. Most have none.
func Rules(spec *ohmv1.JobSpec, g *ohmv1.Group) []*Rule {
	gang := spec.GetGang()
	if len(g.GetAffinity()) == 0 && len(g.GetAntiAffinity()) == 0 && g.GetDistinct() == "" && g.GetSpread() == nil &&
		gang.GetWithin() == "" && gang.GetPreferWithin() == "" {
		return nil
	}
	var rules []*Rule
	add := func(r *Rule) {
		r.Namespace = spec.GetNamespace()
		if r.Job == "" && len(r.Labels) == 0 {
			r.Job = spec.GetName()
		}
		r.id = r.describe()
		rules = append(rules, r)
	}
	affinity := func(kind RuleKind, a *ohmv1.Affinity) {
		to := a.GetTo()
		add(&Rule{Kind: kind, Job: to.GetJob(), Labels: to.GetLabels(), Group: to.GetGroup(), Within: a.GetWithin(), Required: a.GetRequired()})
	}
	if label := gang.GetWithin(); label != "" {
		add(&Rule{Kind: Together, Within: label, Required: true, Gang: true})
	}
	if label := gang.GetPreferWithin(); label != "" {
		add(&Rule{Kind: Together, Within: label, Gang: true})
	}
	for _, a := range g.GetAffinity() {
		affinity(Together, a)
	}
	for _, a := range g.GetAntiAffinity() {
		affinity(Apart, a)
	}
	if label := g.GetDistinct(); label != "" {
		add(&Rule{Kind: Apart, Group: g.GetName(), Within: label, Required: true})
	}
	if s := g.GetSpread(); s != nil {
		add(&Rule{Kind: Spread, Group: g.GetName(), Within: s.GetOver(), Required: s.GetRequired(), MaxSkew: int(s.GetMaxSkew()), Shares: s.GetShares()})
	}
	return rules
}

func (r *Rule) describe() string {
	target := r.Job
	if target == "" {
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
			labels = append(labels, url.QueryEscape(k)+"="+url.QueryEscape(r.Labels[k]))
		}
		target = "!" + strings.Join(labels, "&") // no job's name
	}
	kind := [...]string{"apart", "together", "spread"}[r.Kind]
	if !r.Required {
		kind += "?"
	}
	return strings.Join([]string{r.Namespace, target, kind, url.QueryEscape(r.Within), r.Group}, "/")
}

// Wide says whether the rule is about more than one node at a time, so that the node's
// fence does not keep it.
func (r *Rule) Wide() bool { return r.Within != NodeLabel || r.Kind == Spread }

// Selects says whether the rule is about the tasks of a job's group.
func (r *Rule) Selects(spec *ohmv1.JobSpec, group string) bool {
	if r.Namespace != spec.GetNamespace() || r.Group != "" && r.Group != group {
		return false
	}
	if r.Job != "" {
		return r.Job == spec.GetName()
	}
	for k, v := range r.Labels {
		if has, ok := spec.GetLabels()[k]; !ok || has != v {
			return false
		}
	}
	return true
}

// selectsOwn says whether the rule is about tasks of the job that has it.
func (r *Rule) selectsOwn(spec *ohmv1.JobSpec) bool {
	return slices.ContainsFunc(spec.GetGroups(), func(g *ohmv1.Group) bool { return r.Selects(spec, g.GetName()) })
}

// fenced says whether commits that a required rule of spec concerns compare and bump its
// scope's fence. Those of a node have the node's. To be together with another job's task
// needs none: the commit compares a task that is there.
func (r *Rule) fenced(spec *ohmv1.JobSpec) bool {
	return r.Required && (r.Kind == Together && r.selectsOwn(spec) || r.Kind != Together && r.Wide())
}

// Text is the rule as people would say it.
func (r *Rule) Text() string {
	if r.Kind == Spread {
		return "spread over " + r.Within
	}
	if r.Gang {
		return "its gang within " + r.Within
	}
	to := "job " + r.Job
	if r.Job == "" {
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
			labels = append(labels, k+"="+r.Labels[k])
		}
		to = "jobs with " + strings.Join(labels, ",")
	}
	if r.Group != "" {
		to = fmt.Sprintf("group %s of %s", r.Group, to)
	}
	verb := "antiAffinity to "
	if r.Kind == Together {
		verb = "affinity to "
	}
	return verb + to + " within " + r.Within
}

// Eligible says whether a node may be given a new task of a group, room left aside: its
// agent has a session, its disk is not full, the operator allows it, the constraints hold and
// it can do what the group's tasks need. A node with the attribute hollow=true, which is
// simulated beside a real agent, takes only groups that have a constraint on it.
func Eligible(n *Node, g *ohmv1.Group) bool {
	if n.Facts == nil || n.Alive == nil || n.Intent.GetIneligible() || n.Intent.GetDrain() || n.Facts.GetDiskFull() != "" {
		return false
	}
	const hollow = "hollow"
	if n.Facts.GetAttributes()[hollow] == "true" &&
		!slices.ContainsFunc(g.GetConstraints(), func(c *ohmv1.Constraint) bool { return c.GetKey() == hollow }) {
		return false
	}
	_, ok := Matches(n, g.GetConstraints())
	return ok && Lacks(n, g) == 0
}
