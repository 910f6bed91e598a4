package schedtest

import (
	"context"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/schedulers"
)

// Stubborn claims always the same node, whatever stands on it.
type Stubborn struct{ Node cellstate.NodeName }

// Schedule proposes one incremental transaction for each job.
func (p Stubborn) Schedule(_ context.Context, in schedulers.Input) (out schedulers.Proposal, err error) {
	for _, w := range in.Work {
		txn := &cellstate.Txn{Mode: cellstate.Incremental}
		for _, n := range w.Needs {
			txn.Claims = append(txn.Claims, celltest.Claim(in.Snapshot, n.Slot, p.Node))
		}
		out.Txns = append(out.Txns, txn)
	}
	return out, nil
}
