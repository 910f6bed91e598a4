// Package ml is the policy of training jobs: the tasks of a job are a gang, which gets
// all its nodes in one atomic transaction or waits whole.
package ml

import (
	"context"
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place"
)

// Reasons of a gang that no single node is to blame for.
const (
	ReasonGang  = "Gang"  // the node would take the task, but not all of the gang has room
	ReasonLimit = "Limit" // the gang is larger, or needs more nodes, than one transaction of this store may
)

// Policy places gangs. What it remembers between calls is speed: it changes no choice.
type Policy struct{ table *place.Table }

// New is a policy that has seen nothing yet.
func New() *Policy { return &Policy{place.NewTable()} }

// Schedule proposes one atomic transaction for each gang that fits.
func (p *Policy) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	return p.table.Each(ctx, in, func(r *place.Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		g := newGang(r, w, in.Limits)
		if g.most > 0 && g.least > g.most {
			return nil, g.limited(nil, w.Needs, fmt.Sprintf(
				"a gang of %d tasks needs one transaction; the store takes at most %d claims in one", g.least, g.most))
		}
		return g.placeWithin()
	})
}

// ExplainNode says of one node why the tasks of a job do not go there.
func (p *Policy) ExplainNode(ctx context.Context, in schedulers.Input, node cellstate.NodeName) ([]*ohmv1.NodeGroup, error) {
	return p.table.ExplainNode(ctx, in, node)
}
