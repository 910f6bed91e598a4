package schedulers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// rotor puts each task on the next node without a look at it: what is left to measure is
// what stands around a policy.
type rotor struct{ next int }

func (r *rotor) Schedule(_ context.Context, in schedulers.Input) (out schedulers.Proposal, err error) {
	var nodes []cellstate.NodeName
	for n := range in.Snapshot.Nodes() {
		nodes = append(nodes, n.Name)
	}
	for _, w := range in.Work {
		txn := &cellstate.Txn{Mode: cellstate.Incremental}
		for _, n := range w.Needs {
			r.next++
			txn.Claims = append(txn.Claims, celltest.Claim(in.Snapshot, n.Slot, nodes[r.next%len(nodes)]))
		}
		out.Txns = append(out.Txns, txn)
	}
	return out, nil
}

// BenchmarkRunner measures placements/s of one-task jobs on 1,000 nodes, through
// reconcile, queue, commit and mirror, over the store in memory.
func BenchmarkRunner(b *testing.B) {
	const jobs = 4000
	for b.Loop() {
		b.StopTimer()
		cell := schedtest.New(b)
		for i := range 1000 {
			cell.Put(cellstate.Record{Key: cellstate.NodeKey(cellstate.NodeName(fmt.Sprintf("n%04d", i))),
				Value: celltest.Node{Name: fmt.Sprintf("n%04d", i), CPU: 64_000}.Proto()})
		}
		for i := range jobs {
			spec := celltest.Job{Name: fmt.Sprintf("j%05d", i), CPU: 100}.Proto()
			cell.Put(cellstate.Record{Key: cellstate.JobKey(cellstate.JobNameOf(spec)), Value: &ohmv1.Job{Spec: spec, Version: 1}})
		}
		b.StartTimer()
		run := cell.Run("batch", "a", &rotor{})
		for tick := time.Tick(time.Millisecond); run.Stats().Committed < jobs; {
			<-tick
		}
		b.StopTimer()
		run.Stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(jobs*b.N)/b.Elapsed().Seconds(), "placements/s")
}
