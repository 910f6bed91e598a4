package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// rulePairs are a group's rules between tasks, as rows of a table.
func rulePairs(g *ohmv1.Group) [][2]string {
	spread := ""
	if s := g.Spread; s != nil {
		spread = fmt.Sprintf("over %s, max skew %d", s.Over, s.MaxSkew)
		var shares []string
		for _, value := range slices.Sorted(maps.Keys(s.Shares)) {
			shares = append(shares, fmt.Sprintf("%s=%d", value, s.Shares[value]))
		}
		if len(shares) > 0 {
			spread += ", shares " + strings.Join(shares, " ")
		}
		spread += preferred(s.Required)
	}
	return [][2]string{
		{"  affinity", affinities(g.Affinity)}, {"  anti-affinity", affinities(g.AntiAffinity)},
		{"  distinct", g.Distinct}, {"  spread", spread},
	}
}

func affinities(list []*ohmv1.Affinity) string {
	var out []string
	for _, a := range list {
		to := "this job"
		if a.GetTo().GetJob() != "" {
			to = "job " + a.GetTo().GetJob()
		}
		if len(a.GetTo().GetLabels()) > 0 {
			to = "jobs with " + mapText(a.GetTo().GetLabels())
		}
		if group := a.GetTo().GetGroup(); group != "" {
			to = "group " + group + " of " + to
		}
		out = append(out, fmt.Sprintf("to %s within %s%s", to, a.Within, preferred(a.Required)))
	}
	return strings.Join(out, "; ")
}

func preferred(required bool) string {
	if required {
		return ""
	}
	return ", preferred"
}
