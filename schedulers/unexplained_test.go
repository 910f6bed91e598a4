package schedulers

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Whatever a policy says, each node has one reason.
func TestReasonsAddUp(t *testing.T) {
	for _, c := range []struct {
		counts []int32
		want   string
	}{
		{[]int32{2, 3}, "r:2 r:3"},
		{[]int32{2, 1}, "r:2 r:1 Unexplained:2"},
		{nil, "Unexplained:5"},
		{[]int32{4, 2}, "Unexplained:5"},
		{[]int32{7, -2}, "Unexplained:5"},
		{[]int32{1<<31 - 1, 1<<31 - 1}, "Unexplained:5"},
	} {
		reasons := make([]*ohmv1.Reason, 0, 8) // with room behind it that is the policy's
		for _, n := range c.counts {
			reasons = append(reasons, &ohmv1.Reason{Reason: "r", Nodes: n})
		}
		got := ""
		for _, r := range addUp(reasons, 5) {
			if got != "" {
				got += " "
			}
			got += fmt.Sprintf("%s:%d", r.GetReason(), r.GetNodes())
		}
		if got != c.want {
			t.Errorf("%v: %s; want %s", c.counts, got, c.want)
		}
		if behind := reasons[:cap(reasons)][len(reasons)]; behind != nil {
			t.Errorf("%v: %v was written into the policy's list", c.counts, behind)
		}
	}
	if got := addUp(nil, 0); len(got) != 0 {
		t.Errorf("a cell without nodes: %v", got)
	}
}

// It adds up whatever a policy counts; and counts that can be true are left as they are.
func TestAnyReasonsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(0, 9).Draw(t, "nodes")
		var reasons []*ohmv1.Reason
		sum, sound := int64(0), true
		for _, n := range rapid.SliceOfN(rapid.OneOf(rapid.Int32Range(-2, 9), rapid.Int32()), 0, 4).Draw(t, "counts") {
			reasons = append(reasons, &ohmv1.Reason{Reason: "r", Nodes: n})
			sum, sound = sum+int64(n), sound && n >= 0
		}
		told := int64(0)
		out := addUp(reasons, nodes)
		for _, r := range out {
			if r.GetNodes() < 0 {
				t.Fatalf("%v of %d nodes: %v", reasons, nodes, out)
			}
			told += int64(r.GetNodes())
		}
		kept := len(out) >= len(reasons) && slices.Equal(out[:len(reasons)], reasons)
		if told != int64(nodes) || kept != (sound && sum <= int64(nodes)) && len(reasons) > 0 {
			t.Fatalf("%v of %d nodes: %v", reasons, nodes, out)
		}
	})
}
