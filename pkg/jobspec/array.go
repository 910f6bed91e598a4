package jobspec

import ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"

// checkArray checks what a batch job says of its tasks as many of one kind.
func checkArray(ps *problems, spec *ohmv1.JobSpec, kindKnown bool) {
	for _, of := range []struct {
		name string
		n    int32
	}{{"maxParallel", spec.MaxParallel}, {"allowedFailures", spec.AllowedFailures}} {
		switch {
		case of.n == 0:
		case kindKnown && spec.Kind != "batch":
			ps.add(of.name, "%s", onlyFor(of.name, "batch", spec.Kind))
		case of.n < 0:
			ps.add(of.name, "%s %d is negative", of.name, of.n)
		}
	}
}
