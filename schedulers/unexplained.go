package schedulers

import (
	"fmt"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// ReasonUnexplained counts the nodes for which a policy gave no reason, or none that can be
// true. It is the Runner's word, not a policy's.
const ReasonUnexplained = "Unexplained"

// addUp gives each of the cell's nodes one reason, whatever the policy says: what its counts
// leave over stands in the answer as unexplained. Counts below nothing, or of more nodes than
// there are, are not believed at all. The policy's list is not written to.
func addUp(reasons []*ohmv1.Reason, nodes int) []*ohmv1.Reason {
	sum, absurd := int64(0), false
	for _, r := range reasons {
		sum += int64(r.GetNodes())
		absurd = absurd || r.GetNodes() < 0
	}
	rest := &ohmv1.Reason{Reason: ReasonUnexplained, Nodes: int32(nodes), Detail: "the scheduler gave no reason"}
	switch {
	case absurd:
		rest.Detail = "the scheduler counted less than no node under a reason"
		return []*ohmv1.Reason{rest}
	case sum > int64(nodes):
		rest.Detail = fmt.Sprintf("the scheduler's reasons were of %d nodes", sum)
		return []*ohmv1.Reason{rest}
	case sum == int64(nodes):
		return reasons
	}
	rest.Nodes -= int32(sum)
	return append(reasons[:len(reasons):len(reasons)], rest)
}
