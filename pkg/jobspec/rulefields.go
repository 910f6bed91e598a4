package jobspec

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// ruledKinds are the kinds of job whose groups may have rules between tasks.
const ruledKinds = "service, batch, ml"

func groupRuleFields() []field[ohmv1.Group] {
	type group = ohmv1.Group
	affinities := func(at place, r *reader, v ast.Node) (of []*ohmv1.Affinity) {
		for i, item := range r.list(at, v) {
			a := &ohmv1.Affinity{Required: true}
			here := at.item(i)
			here.name = at.name
			readMap(r, here, item, affinityFields(), a)
			of = append(of, a)
		}
		return of
	}
	return []field[group]{
		{name: "affinity", form: "list", preset: "none", kinds: ruledKinds, meaning: "Tasks that each task of the group is to be near to: see [rules.md](rules.md).", aka: []string{"near"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Affinity = affinities(at, r, v) }},
		{name: "antiAffinity", form: "list", preset: "none", kinds: ruledKinds, meaning: "Tasks that no task of the group is to be near to, nor they to one of the group.", aka: []string{"anti-affinity", "apart"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.AntiAffinity = affinities(at, r, v) }},
		{name: "distinct", form: "`node`, or a label or attribute", preset: "none", kinds: ruledKinds, meaning: "No two tasks of the group are on nodes with the same value of it: with `node` each is on a node of its own.", aka: []string{"distinctHosts", "distinct_hosts"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Distinct = r.name(at, v) }},
		{name: "spread", form: "map", preset: "none; a service's tasks come to as many nodes as there are", kinds: ruledKinds, meaning: "How many tasks of the group there are for each value of a label or attribute, counted over the job's present version.", aka: []string{"topologySpread", "topologySpreadConstraints"},
			read: func(r *reader, at place, v ast.Node, g *group) {
				g.Spread = &ohmv1.Spread{MaxSkew: 1, Required: true}
				readMap(r, at, v, spreadFields(), g.Spread)
			}},
	}
}

func affinityFields() []field[ohmv1.Affinity] {
	type affinity = ohmv1.Affinity
	return []field[affinity]{
		{name: "to", form: "map", preset: "the tasks of this job", meaning: "The tasks that the rule is about, all in the job's own namespace.",
			read: func(r *reader, at place, v ast.Node, a *affinity) {
				a.To = &ohmv1.Selector{}
				readMap(r, at, v, selectorFields(), a.To)
			}},
		{name: "within", form: "`node`, or a label or attribute", preset: "required", meaning: "How near is near: on nodes that have the same value of it. With a required rule the group's tasks go only to nodes that have it.", aka: []string{"scope", "topologyKey"},
			read: func(r *reader, at place, v ast.Node, a *affinity) { a.Within = r.name(at, v) }},
		requiredField(func(a *affinity) *bool { return &a.Required }),
	}
}

func selectorFields() []field[ohmv1.Selector] {
	type selector = ohmv1.Selector
	return []field[selector]{
		{name: "job", form: "name", preset: "this job", meaning: "Those of one job.",
			read: func(r *reader, at place, v ast.Node, s *selector) { s.Job = r.name(at, v) }},
		{name: "group", form: "name", preset: "all groups", meaning: "Those of one group.",
			read: func(r *reader, at place, v ast.Node, s *selector) { s.Group = r.name(at, v) }},
		{name: "labels", form: "map of text", preset: "none", meaning: "Those of all jobs with these labels; in place of `job`.",
			read: func(r *reader, at place, v ast.Node, s *selector) {
				if s.Labels = r.textMap(at, v); len(s.Labels) == 0 && !r.bad[at.path] {
					r.fault(at, "to.labels is empty; leave it out for the tasks of this job")
				}
			}},
	}
}

func spreadFields() []field[ohmv1.Spread] {
	type spread = ohmv1.Spread
	return []field[spread]{
		{name: "over", form: "`node`, or a label or attribute", preset: "required", meaning: "What has the values. With a required rule the tasks go only to nodes that have it.", aka: []string{"by", "attribute", "topologyKey"},
			read: func(r *reader, at place, v ast.Node, s *spread) { s.Over = r.name(at, v) }},
		{name: "maxSkew", form: "number, 1 and more", preset: "1", meaning: "How many more tasks there may be for one value than for the value with the fewest, of those that have a node which may be given a task; with `shares`, that number less one is how many more than its share, rounded up, there may be.",
			read: func(r *reader, at place, v ast.Node, s *spread) {
				if s.MaxSkew = r.whole(at, v); s.MaxSkew == 0 && !r.bad[at.path] {
					r.fault(at, "spread.maxSkew 0 is not at least 1")
				}
			}},
		{name: "shares", form: "map of numbers", preset: "the same for all values", meaning: "How much of the group each value gets, as weights: `{a: 2, b: 1}`. A value without one gets nothing.", aka: []string{"targets", "percent"},
			read: func(r *reader, at place, v ast.Node, s *spread) { s.Shares = r.weights(at, v) }},
		requiredField(func(s *spread) *bool { return &s.Required }),
	}
}

func requiredField[T any](of func(*T) *bool) field[T] {
	return field[T]{name: "required", form: "true, false", preset: "true", meaning: "Whether a task waits rather than be placed against the rule; else the rule only comes first in the choice of a node.", aka: []string{"hard"},
		read: func(r *reader, at place, v ast.Node, t *T) { *of(t) = r.truth(at, v) }}
}

// weights reads a map of whole numbers from 1.
func (r *reader) weights(at place, node ast.Node) map[string]int32 {
	out := map[string]int32{}
	for name, text := range r.textMap(at, node) {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 || strings.HasPrefix(text, "+") {
			r.fault(at.key(name), "the share %s of %s is not a whole number from 1", quote(text), quote(name))
			continue
		}
		out[name] = int32(n)
	}
	return out
}
