package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// facts are a node of the cell.
func facts(i int) *ohmv1.Node {
	return &ohmv1.Node{Name: nodeName(i), Capacity: &ohmv1.Resources{CpuMilli: cpuPerNode * 1000, MemoryBytes: 1 << 40, DiskBytes: 1 << 40}}
}

// nodes puts nodes that no session stands for into the store, alive.
func (c Config) nodes(ctx context.Context, store cellstate.Store, from int) error {
	var writes []cellstate.Write
	for i := from; i < c.Nodes; i++ {
		name := cellstate.NodeName(nodeName(i))
		w := cellstate.NodeWrite(name, nil, cellstate.Record{Key: cellstate.NodeKey(name), Value: facts(i)})
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: string(name), Server: "bench"}})
		writes = append(writes, w)
	}
	return commitAll(ctx, store, writes)
}

// preload puts jobs into the store of which every task is placed, evenly over the nodes.
// Nobody follows the store yet: so no fence need be bumped.
func (c Config) preload(ctx context.Context, store cellstate.Store, w *world) error {
	spec, now := c.spec(), time.Now()
	var writes []cellstate.Write
	for placed := 0; placed < c.Live; placed += c.TasksPerJob {
		s := c.spec()
		s.Name, s.Groups = fmt.Sprintf("pre-%08d", len(w.full)), spec.GetGroups()
		name := cellstate.JobNameOf(s)
		one := put(s, now)
		for i := range c.TasksPerJob {
			slot := cellstate.Slot{Namespace: name.Namespace, Job: name.Name, Group: "main", Index: i, Version: 1}
			p := placement(slot, nodeName((placed+i)%c.Nodes))
			p.Instance, p.Txn, p.Fence = "preload", fmt.Sprintf("01KB%022d", len(w.full)), nil
			one.Records = append(one.Records, cellstate.Record{Key: slot.PlacementKey(), Value: p})
		}
		w.full = append(w.full, name)
		w.live += c.TasksPerJob
		writes = append(writes, one)
	}
	return commitAll(ctx, store, writes)
}

// A request of a preload, and how many are under way at once.
const (
	preloadRecords  = 2000
	preloadInFlight = 4
)

// commitAll commits writes that cannot be refused.
func commitAll(ctx context.Context, store cellstate.Store, writes []cellstate.Write) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(preloadInFlight)
	each := 1
	if len(writes) > 0 {
		each = max(1, preloadRecords/len(writes[0].Records))
	}
	for part := range slices.Chunk(writes, each) {
		g.Go(func() error {
			out, err := store.Commit(ctx, part...)
			if err == nil && slices.Contains(out.Applied, 0) {
				err = fmt.Errorf("a write was refused: the cell is not empty")
			}
			return err
		})
	}
	return g.Wait()
}
