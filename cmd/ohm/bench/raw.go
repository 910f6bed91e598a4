package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// The shape of the raw yardstick.
const (
	rawNodes    = 64 // writes of a request, a node each
	rawInFlight = 6
)

// raw measures nested commits of etcd: for each of 64 nodes {compare its fence; put it
// and k placements}, several requests in flight, one watcher.
func (c Config) raw(ctx context.Context, at site) (perSecond float64, err error) {
	store, err := at.open(ctx, "raw")
	if err != nil {
		return 0, err
	}
	defer store.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for _, err := range store.Changes(ctx, 0) {
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
	var put atomic.Int64
	for sender := range rawInFlight {
		g.Go(func() error { return c.rawSender(ctx, store, sender, &put) })
	}
	_ = sleep(ctx, min(time.Second, c.RawDuration/2)) // cut short: the figure is of what there was
	before, begin := put.Load(), time.Now()
	_ = sleep(ctx, c.RawDuration)
	perSecond = round(float64(put.Load()-before)/time.Since(begin).Seconds(), 0)
	cancel()
	return perSecond, g.Wait()
}

// rawSender commits for nodes that nobody else writes, one request after the other.
func (c Config) rawSender(ctx context.Context, store cellstate.Store, sender int, put *atomic.Int64) error {
	fences := make([]cellstate.Revision, rawNodes*4)
	for n := 0; ctx.Err() == nil; n++ {
		writes := make([]cellstate.Write, rawNodes)
		for i := range writes {
			node := (n*rawNodes + i) % len(fences)
			name := fmt.Sprintf("node-%d-%05d", sender, node)
			writes[i].Fences = []cellstate.FenceBump{{Node: cellstate.NodeName(name), Compared: fences[node]}}
			for k := range c.MaxPerNode {
				slot := cellstate.Slot{Namespace: "default", Job: fmt.Sprintf("raw-%d-%d", sender, n), Group: "main", Index: i*c.MaxPerNode + k, Version: 1}
				writes[i].Records = append(writes[i].Records, cellstate.Record{Key: slot.PlacementKey(), Value: placement(slot, name), Read: cellstate.ReadGuarded})
			}
		}
		out, err := store.Commit(ctx, writes...)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for i, at := range out.Applied {
			if at == 0 {
				return fmt.Errorf("a raw write was refused")
			}
			fences[(n*rawNodes+i)%len(fences)] = at
		}
		put.Add(int64(rawNodes * c.MaxPerNode))
	}
	return nil
}

// placement is a record like those of the whole road.
func placement(slot cellstate.Slot, node string) *ohmv1.Placement {
	return &ohmv1.Placement{
		Slot: slot.Proto(), Attempt: 1, Node: node, Resources: taskResources(),
		Precedence: 100, Scheduler: schedulerName, Instance: "bench-0", Txn: "01KB0000000000000000000000", Mode: cellstate.Incremental,
		TxnClaims: 100, SnapshotRevision: 1_000_000, JobRevision: 1_000_000, Time: timestamppb.Now(),
		Fence: &ohmv1.Fence{Compared: 1_000_000, Records: 1},
	}
}

func taskResources() *ohmv1.Resources { return &ohmv1.Resources{CpuMilli: 1000, MemoryBytes: 1 << 30} }
