package jobspec

import (
	"testing"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What a gang needs follows from what its groups need, unless it says.
func TestGangMinimum(t *testing.T) {
	for _, c := range []struct {
		gang, head, workers int32 // as written; -1: not at all
		want                [3]int32
	}{
		{0, -1, -1, [3]int32{5, -1, -1}},
		{2, -1, -1, [3]int32{2, -1, -1}},
		{0, -1, 2, [3]int32{3, 1, 2}},
		{0, 0, 2, [3]int32{2, 0, 2}},
		{4, -1, 2, [3]int32{4, -1, 2}},
	} {
		written := func(n int32) *int32 {
			if n < 0 {
				return nil
			}
			return proto.Int32(n)
		}
		spec := sound()
		spec.Gang = &ohmv1.Gang{Min: c.gang}
		spec.Groups = append(spec.Groups, proto.CloneOf(spec.Groups[0]))
		spec.Groups[0].Name, spec.Groups[0].Count, spec.Groups[0].Min = "head", 1, written(c.head)
		spec.Groups[1].Name, spec.Groups[1].Count, spec.Groups[1].Min = "worker", 4, written(c.workers)
		Defaults(spec)
		got := [3]int32{spec.Gang.Min, -1, -1}
		for i, g := range spec.Groups {
			if g.Min != nil {
				got[1+i] = *g.Min
			}
		}
		if problems := Validate(spec); got != c.want || len(problems) > 0 {
			t.Errorf("gang.min %d, min %d and %d: got %v, want %v; %v", c.gang, c.head, c.workers, got, c.want, problems)
		}
	}
	spec := sound()
	spec.Gang, spec.Groups[0].Min = &ohmv1.Gang{Min: 1}, proto.Int32(2)
	if p := Validate(spec); len(p) != 1 || p[0].Message != "gang.min 1 is less than the 2 tasks that the groups need by their min" {
		t.Errorf("a minimum below that of the groups: %v", p)
	}
}
