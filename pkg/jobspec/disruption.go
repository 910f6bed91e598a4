package jobspec

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// disruptedKinds are the kinds of job that can bound how many of their tasks others give up: of
// a gang the rest stops with the first, and a system job's tasks belong to their nodes.
const disruptedKinds = "service, batch"

func disruptionFields() []field[ohmv1.Disruption] {
	type disruption = ohmv1.Disruption
	return []field[disruption]{
		{name: "maxUnavailable", form: "number, 1 and more, or share of the count, such as `25%`", preset: "required",
			meaning: "How many tasks of each group may be down at a time; a share is rounded up. Evictions and drains take a task that is up only while no more are down with it. Down is also what has failed and not come back, and a service's task that is not ready; not what a batch job has not begun or has done.", aka: []string{"max", "max_unavailable", "maxParallel"},
			read: func(r *reader, at place, v ast.Node, d *disruption) {
				if d.MaxUnavailable, d.MaxUnavailablePercent = r.amount(at, v); d.MaxUnavailable+d.MaxUnavailablePercent == 0 && !r.bad[at.path] {
					r.fault(at, "%s 0 is not at least 1: a node with such a task could never be drained", at.name)
				}
			}},
	}
}

// amount reads a whole number, or a share of all as P%.
func (r *reader) amount(at place, node ast.Node) (count, percent int32) {
	s, ok := r.text(at, node)
	if !ok {
		return 0, 0
	}
	digits, is := strings.CutSuffix(s, "%")
	if !is {
		return r.whole(at, node), 0
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 1 || n > 100 || digits != strconv.FormatInt(n, 10) {
		r.fault(at, "%s %s is not a share between 1%% and 100%%", at.name, quote(s))
		return 0, 0
	}
	return 0, int32(n)
}

func checkDisruption(ps *problems, spec *ohmv1.JobSpec, kindKnown bool) {
	d := spec.Disruption
	if d == nil {
		return
	}
	if kindKnown && !strings.Contains(disruptedKinds, spec.Kind) {
		ps.add("disruption", "%s", onlyFor("disruption", disruptedKinds, spec.Kind))
		return
	}
	const field = "disruption.maxUnavailable"
	switch n, percent := d.GetMaxUnavailable(), d.GetMaxUnavailablePercent(); {
	case n == 0 && percent == 0:
		ps.add(field, "%s is missing", field)
	case n != 0 && percent != 0:
		ps.add(field, "%s is both a number and a share", field)
	case n < 0:
		ps.add(field, "%s %d is not at least 1", field, n)
	case percent < 0 || percent > 100:
		ps.add(field, "%s %d%% is not a share between 1%% and 100%%", field, percent)
	}
}
