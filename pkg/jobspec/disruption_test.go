package jobspec

import (
	"testing"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestDisruption(t *testing.T) {
	for text, want := range map[string]*ohmv1.Disruption{"1": {MaxUnavailable: 1}, "25%": {MaxUnavailablePercent: 25}, `"100%"`: {MaxUnavailablePercent: 100}} {
		got := accepted(t, with(t, "kind: batch", "kind: service\ndisruption: {maxUnavailable: "+text+"}")).GetDisruption()
		if got.GetMaxUnavailable() != want.MaxUnavailable || got.GetMaxUnavailablePercent() != want.MaxUnavailablePercent {
			t.Errorf("%s is read as %v", text, got)
		}
	}
}

func TestDisruptionRefused(t *testing.T) {
	for fields, want := range map[string]string{
		"batch\ndisruption: {maxUnavailable: 0}":    "3:30: disruption.maxUnavailable 0 is not at least 1: a node with such a task could never be drained",
		"batch\ndisruption: {maxUnavailable: -1}":   "3:30: disruption.maxUnavailable -1 is not at least 1",
		"batch\ndisruption: {maxUnavailable: 0%}":   `3:30: disruption.maxUnavailable "0%" is not a share between 1% and 100%`,
		"batch\ndisruption: {maxUnavailable: 101%}": `3:30: disruption.maxUnavailable "101%" is not a share between 1% and 100%`,
		"batch\ndisruption: {maxUnavailable: half}": `3:30: disruption.maxUnavailable "half" is not a whole number; write digits, e.g. maxUnavailable: 3`,
		"batch\ndisruption: {}":                     "3:13: disruption.maxUnavailable is missing",
		"ml\ndisruption: {maxUnavailable: 1}":       "3:1: disruption is only for service and batch jobs, and this is a ml job",
	} {
		refused(t, with(t, "kind: batch", "kind: "+fields), "job.yaml:"+want)
	}
	for _, bad := range []*ohmv1.Disruption{{}, {MaxUnavailable: 1, MaxUnavailablePercent: 1}, {MaxUnavailablePercent: 101}, {MaxUnavailable: -2}} {
		spec := accepted(t, good)
		spec.Disruption = bad
		if got := Validate(spec); len(got) != 1 || got[0].Field != "disruption.maxUnavailable" {
			t.Errorf("%v: %v", bad, got)
		}
	}
}
