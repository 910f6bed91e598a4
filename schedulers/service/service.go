// Package service is the policy of services: the tasks of one job stand on as many
// different nodes as there are, so that a node's end takes few of them; between jobs it
// packs like batch.
package service

import (
	"context"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Policy spreads within a job. What it remembers between calls is speed: it changes no
// choice.
type Policy struct{ table *place.Table }

// New is a policy that has seen nothing yet.
func New() *Policy { return &Policy{place.NewTable()} }

// Schedule proposes one incremental transaction for each job of which a task fits. A
// task goes to a node with the fewest tasks of its job, of all groups and versions;
// that comes before the home share and the score.
func (p *Policy) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	return p.table.Each(ctx, in, func(r *place.Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		load := r.Spread(w)
		return r.Incremental(w, func(q *place.Request, _ reconcile.Need) (node int, ok bool) {
			return r.Choose(q, load)
		})
	})
}

// ExplainNode says of one node why the tasks of a job do not go there.
func (p *Policy) ExplainNode(ctx context.Context, in schedulers.Input, node cellstate.NodeName) ([]*ohmv1.NodeGroup, error) {
	return p.table.ExplainNode(ctx, in, node)
}
