package server

import (
	"cmp"
	"context"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/names"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// nodes is the Nodes service.
type nodes struct {
	ohmv1.UnimplementedNodesServer
	*Server
}

// The states of a node. They are for people: whether a task may go there is decided
// from what is stored.
const (
	nodeReady      = "Ready"
	nodeDraining   = "Draining" // gives up its tasks, and still has some
	nodeDrained    = "Drained"
	nodeIneligible = "Ineligible"
	nodeDiskFull   = "DiskFull" // takes no new task until there is room again
	nodeSilent     = "Silent"   // no server has its session; its tasks may go on
	nodeLost       = "Lost"     // likewise, and nothing stands on it any more
)

func nodeState(n *cellstate.Node) string {
	switch {
	case n.Alive == nil && n.Count() > 0:
		return nodeSilent
	case n.Alive == nil:
		return nodeLost
	case n.Intent.GetDrain() && n.Count() > 0:
		return nodeDraining
	case n.Intent.GetDrain():
		return nodeDrained
	case n.Intent.GetIneligible():
		return nodeIneligible
	case n.Facts.GetDiskFull() != "":
		return nodeDiskFull
	}
	return nodeReady
}

func (n *nodes) List(ctx context.Context, _ *ohmv1.ListNodesRequest) (*ohmv1.ListNodesResponse, error) {
	snapshot, err := n.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	resp := &ohmv1.ListNodesResponse{}
	if brake, _ := snapshot.Meta(reconcile.BrakeMeta); brake != nil {
		resp.Alarm = brake.GetValue()
	}
	for row := range snapshot.Nodes() {
		resp.Nodes = append(resp.Nodes, nodeView(row))
	}
	return resp, nil
}

func (n *nodes) Get(ctx context.Context, req *ohmv1.GetNodeRequest) (*ohmv1.NodeView, error) {
	snapshot, err := n.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return oneNode(snapshot, req.GetNode())
}

func oneNode(s *cellstate.Snapshot, name string) (*ohmv1.NodeView, error) {
	row := s.Node(cellstate.NodeName(name))
	if row == nil {
		return nil, refuse(cellstate.ErrNotFound, "node %s not found", name)
	}
	return nodeView(row), nil
}

// SetIntent changes the operator's wishes for a node: what the request names, and
// nothing else.
func (n *nodes) SetIntent(ctx context.Context, req *ohmv1.SetIntentRequest) (*ohmv1.NodeView, error) {
	for key, value := range req.GetLabels() {
		if err := cmp.Or(names.CheckKey("label", key), names.CheckValue("label", key, value)); err != nil {
			return nil, refuse(errInvalid, "%v", err)
		}
	}
	if err := checkDrain(req.GetDrain(), req.GetDrainWithin()); err != nil {
		return nil, err
	}
	snapshot, err := n.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
		row := at.Node(cellstate.NodeName(req.GetNode()))
		if row == nil {
			return w, refuse(cellstate.ErrNotFound, "node %s not found", req.GetNode())
		}
		if req.GetLost() && row.Alive != nil {
			return w, refuse(errPrecondition, "node %s is not silent: server %s has its session", row.Name, row.Alive.GetServer())
		}
		next := changedIntent(row.Intent, req, time.Now())
		if proto.Equal(next, row.Intent) {
			w.Guards = []cellstate.Guard{{Key: cellstate.IntentKey(row.Name), Revision: row.IntentRevision}}
			return w, nil
		}
		w = cellstate.NodeWrite(row.Name, row, cellstate.Record{Key: cellstate.IntentKey(row.Name), Value: next, Read: row.IntentRevision})
		if cellstate.Moves(row, next) {
			w.Records = append(w.Records, cellstate.Barrier(at, "labels of node "+req.GetNode()))
		}
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	return oneNode(snapshot, req.GetNode())
}

func changedIntent(was *ohmv1.Intent, req *ohmv1.SetIntentRequest, now time.Time) *ohmv1.Intent {
	next := &ohmv1.Intent{}
	if was != nil {
		next = proto.CloneOf(was)
	}
	next.Node = req.GetNode()
	if req.Drain != nil { // the last word counts: a drain without a deadline ends one with it
		next.Drain, next.DrainDeadline = req.GetDrain(), nil
		if within := req.GetDrainWithin(); within != nil {
			next.DrainDeadline = timestamppb.New(now.Add(within.AsDuration()))
		}
	}
	if req.Lost != nil {
		next.Lost = req.GetLost()
	}
	if req.Ineligible != nil {
		next.Ineligible = req.GetIneligible()
	}
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	for _, key := range req.GetRemoveLabels() {
		delete(next.Labels, key)
	}
	maps.Copy(next.Labels, req.GetLabels())
	return next
}

func nodeView(n *cellstate.Node) *ohmv1.NodeView {
	used := n.Used()
	v := &ohmv1.NodeView{
		Node: string(n.Name), State: nodeState(n), Capacity: n.Facts.GetCapacity(),
		Used:  &ohmv1.Resources{CpuMilli: used.CPUMilli, MemoryBytes: used.MemoryBytes, DiskBytes: used.DiskBytes},
		Tasks: int32(n.Count()), Labels: n.Intent.GetLabels(), Attributes: n.Facts.GetAttributes(),
		Driver: n.Facts.GetDriver(), Capabilities: n.Facts.GetCapabilities(), AgentVersion: n.Facts.GetAgentVersion(),
		DynamicPorts: n.Facts.GetDynamicPorts(), ReservedPorts: n.Facts.GetReservedPorts(), Ports: int32(len(used.Ports)),
		Server: n.Alive.GetServer(), Since: n.Alive.GetSince(), OverCommitted: overCommitted(n),
		DeviceError: n.Facts.GetDeviceError(), DrainDeadline: n.Intent.GetDrainDeadline(),
		DiskFull: n.Facts.GetDiskFull(),
	}
	for _, d := range n.Facts.GetGpus() {
		v.Gpus = append(v.Gpus, &ohmv1.GPUView{
			Id: d.GetId(), Model: d.GetModel(), UsedMilli: used.GPUs[d.GetId()], Health: cellstate.HealthName(d.GetHealth()), Why: d.GetWhy(), MemoryBytes: d.GetMemoryBytes(),
		})
	}
	v.Holds = holdViews(n.Holds, func(*cellstate.Hold) bool { return true })
	return v
}

// overCommitted says whether a node has shrunk below what stands on it.
func overCommitted(n *cellstate.Node) bool {
	used, have := n.Used(), n.Facts.GetCapacity()
	if used.CPUMilli > have.GetCpuMilli() || used.MemoryBytes > have.GetMemoryBytes() || used.DiskBytes > have.GetDiskBytes() {
		return true
	}
	known := map[string]bool{}
	for _, d := range n.Facts.GetGpus() {
		known[d.GetId()] = true
	}
	for id, milli := range used.GPUs {
		if !known[id] || milli > 1000 {
			return true
		}
	}
	return false
}
