// Package system is the policy of system jobs: one task on each node that its need
// names; reconcile says which nodes these are.
package system

import (
	"context"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Policy places where it is told. What it remembers between calls is speed: it changes
// no choice.
type Policy struct{ table *place.Table }

// New is a policy that has seen nothing yet.
func New() *Policy { return &Policy{place.NewTable()} }

// Schedule proposes one incremental transaction for each job of which a task fits. A
// need that names no node gets the best one.
func (p *Policy) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	return p.table.Each(ctx, in, func(r *place.Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		return r.Incremental(w, func(q *place.Request, need reconcile.Need) (node int, ok bool) {
			if need.Node == "" {
				return r.Choose(q, nil)
			}
			return r.Only(q, need.Node)
		})
	})
}

// ExplainNode says of one node why the tasks of a job do not go there.
func (p *Policy) ExplainNode(ctx context.Context, in schedulers.Input, node cellstate.NodeName) ([]*ohmv1.NodeGroup, error) {
	return p.table.ExplainNode(ctx, in, node)
}
