package schedulers

import (
	"context"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Decision is how a policy chose the nodes of one group: what the decision log keeps beside
// the claims. It is for people, and a policy may leave it out.
type Decision struct {
	Job        cellstate.JobName
	Group      string
	Nodes      int      // of the cell
	Considered int      // of them fitted and were free to be chosen, when the first of the group's tasks was decided
	InFlight   int      // and so many were left alone
	Best       []Scored // the best few of those considered, the best first
	ScoredBy   string
}

// Scored is a node with its score: the higher the better.
type Scored struct {
	Node  cellstate.NodeName
	Score float64
}

// NodeExplainer is a policy that says of one node why the tasks of a job do not go there, by
// the filters by which it decides. For a policy that does not, the rule of the commit speaks.
type NodeExplainer interface {
	// ExplainNode answers for each group of the one job of the work. It fills in what keeps the
	// group's tasks off the node, all of it in the order in which it asks, and what would
	// give way there.
	ExplainNode(ctx context.Context, in Input, node cellstate.NodeName) ([]*ohmv1.NodeGroup, error)
}
