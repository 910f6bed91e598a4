package jobspec

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ohmcell/ohm/pkg/names"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Limits of a group's rules between tasks: each that is required and wider than a node
// costs its commits a condition.
const (
	maxRules  = 16
	maxShares = 256
	maxWeight = 1_000_000
)

func checkRules(ps *problems, at string, spec *ohmv1.JobSpec, g *ohmv1.Group, kindKnown bool) {
	kinds := func(name string) {
		if kindKnown && !allows(ruledKinds, spec.Kind) {
			ps.add(at+"."+name, "%s", onlyFor(name, ruledKinds, spec.Kind))
		}
	}
	for _, list := range []struct {
		name string
		of   []*ohmv1.Affinity
	}{{"affinity", g.Affinity}, {"antiAffinity", g.AntiAffinity}} {
		if len(list.of) > 0 {
			kinds(list.name)
		}
		if len(list.of) > maxRules {
			ps.add(at+"."+list.name, "%s has %d rules, more than the limit of %d", list.name, len(list.of), maxRules)
		}
		for i, a := range list.of {
			checkAffinity(ps, fmt.Sprintf("%s.%s[%d]", at, list.name, i), list.name, a)
		}
	}
	if g.Distinct != "" {
		kinds("distinct")
		ps.check(at+".distinct", names.CheckKey("distinct", g.Distinct))
	}
	if g.Spread != nil {
		kinds("spread")
		checkSpread(ps, at+".spread", g.Spread)
	}
}

func checkAffinity(ps *problems, at, name string, a *ohmv1.Affinity) {
	if a.GetWithin() == "" {
		ps.add(at+".within", "within is missing; it says how near is near, e.g. within: node")
	} else {
		ps.check(at+".within", names.CheckKey("within", a.GetWithin()))
	}
	to := a.GetTo()
	if to.GetJob() != "" {
		ps.check(at+".to.job", names.Check("job name", to.GetJob()))
		if len(to.GetLabels()) > 0 {
			ps.add(at+".to", "%s.to has job and labels; it takes one of them", name)
		}
	}
	if to.GetGroup() != "" {
		ps.check(at+".to.group", names.Check("group name", to.GetGroup()))
	}
	for _, key := range slices.Sorted(maps.Keys(to.GetLabels())) {
		ps.check(at+".to.labels."+key, names.CheckKey("label", key))
		ps.check(at+".to.labels."+key, names.CheckValue("label", key, to.GetLabels()[key]))
	}
}

func checkSpread(ps *problems, at string, s *ohmv1.Spread) {
	if s.Over == "" {
		ps.add(at+".over", "spread.over is missing; it names a label or attribute of nodes, e.g. over: zone")
	} else {
		ps.check(at+".over", names.CheckKey("spread.over", s.Over))
	}
	if s.MaxSkew < 1 {
		ps.add(at+".maxSkew", "spread.maxSkew %d is not at least 1", s.MaxSkew)
	}
	if len(s.Shares) > maxShares {
		ps.add(at+".shares", "spread.shares has %d values, more than the limit of %d", len(s.Shares), maxShares)
	}
	for _, value := range slices.Sorted(maps.Keys(s.Shares)) {
		if n := s.Shares[value]; n < 1 || n > maxWeight {
			ps.add(at+".shares."+value, "the share %d of %s is not between 1 and %d", n, quote(value), maxWeight)
		}
	}
}
