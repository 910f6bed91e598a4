// Package rebalance plans moves of running tasks to better nodes: of a service, so that its
// tasks are spread again after nodes have come; of the whole cell, so that nodes are emptied
// and GPUs can be used that nobody could use where they are. A plan is a pure function of a
// snapshot. It applies nothing: what it says it has tried on snapshots that it has made up, with
// the code that places tasks and judges commits, one move on top of the other.
package rebalance

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Move takes one task from a node to another: the attempt ends, and the next one starts there.
type Move struct {
	Placement *cellstate.Placement // as it stands
	To        cellstate.NodeName
	Job       *cellstate.Job
}

// Measure is what a plan is to better.
type Measure struct {
	StrandedGPU int64 // thousandths that are free and that nobody could use; of the cell
	Empty       int   // nodes without a task, those of system jobs left out; of the cell
	// Most and Fewest are the tasks of a job on a node, over the nodes that it may be on.
	Most, Fewest int
}

// Plan are moves in the order in which each is valid, and what they change.
type Plan struct {
	Moves         []Move
	Before, After Measure
}

// Movable says whether a plan may move a placement: it is up, and its end costs no more than the
// moment in which its next attempt starts. Work is lost with a task of a batch job: only where
// its disruption budget says that it may be taken. What may start only once, a gang's members
// and a system job's tasks stay.
func Movable(s *cellstate.Snapshot, p *cellstate.Placement) bool {
	j := s.Job(p.Slot.JobName())
	if j == nil || !j.Live() || !j.Current(p.Slot) || p.GetEvictedBy() != "" || p.GetDrained() {
		return false
	}
	spec, g, t := j.Record.GetSpec(), j.Group(p.Slot.Group), j.Task(p.Slot)
	n := s.Node(cellstate.NodeName(p.GetNode()))
	if g == nil || p.Slot.Index >= int(g.GetCount()) || n == nil || n.Alive == nil || n.Intent.GetDrain() ||
		t.Status.GetState() != task.Running || g.GetHealth().GetReady() != nil && !t.Status.GetReady() {
		return false
	}
	return spec.GetKind() == "service" || spec.GetKind() == "batch" && spec.GetDisruption() != nil && !spec.GetStartOnce()
}

// trial is a snapshot on which some moves are made already.
type trial struct {
	table    *place.Table
	snapshot *cellstate.Snapshot
	moves    []Move
}

func newTrial(s *cellstate.Snapshot) *trial { return &trial{table: place.NewTable(), snapshot: s} }

// clone is a trial that goes on from here without changing t.
func (t *trial) clone() *trial {
	c := *t
	c.moves = slices.Clip(t.moves)
	return &c
}

// move makes the next attempt of a running task stand on the node that its job's policy
// chooses, those barred left out; not ok if there is none, or it would be the same node.
func (t *trial) move(ctx context.Context, p *cellstate.Placement, barred map[cellstate.NodeName]bool) (ok bool, err error) {
	before := t.snapshot
	was := before.Job(p.Slot.JobName())
	row := was.Task(p.Slot)
	ended := &ohmv1.Status{Slot: p.GetSlot(), Attempt: p.GetAttempt(), Txn: p.GetTxn(), Node: p.GetNode(), State: task.Stopped, Cause: task.Drained}
	free, err := before.With(cellstate.ReleaseRecords(row, ended)...)
	if err != nil {
		return false, err
	}
	job := free.Job(was.Name)
	need := reconcile.Need{Slot: p.Slot, Attempt: job.Task(p.Slot).Attempts() + 1, Group: job.Group(p.Slot.Group)}
	in := schedulers.Input{Snapshot: free, Work: []schedulers.Work{{Job: job, Needs: []reconcile.Need{need}}}, InFlight: barred}
	proposal, err := t.table.Each(ctx, in, func(r *place.Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		var load *place.Load
		if job.Record.GetSpec().GetKind() == "service" {
			load = r.Spread(w)
		}
		return r.Incremental(w, func(q *place.Request, _ reconcile.Need) (int, bool) { return r.Choose(q, load) })
	})
	if err != nil || len(proposal.Txns) == 0 {
		return false, err
	}
	txn := proposal.Txns[0]
	txn.ID = cellstate.TxnID(fmt.Sprintf("move-%d", len(t.moves)+1))
	txn.Scheduler, txn.Instance, txn.Snapshot = p.GetScheduler(), p.GetInstance(), free.Revision()
	to := txn.Claims[0].Node
	if string(to) == p.GetNode() {
		return false, nil
	}
	plan := cellstate.MakePlan(free, p.GetTime().AsTime(), 1, []*cellstate.Txn{txn}, func(cellstate.ClaimRef) bool { return false })
	if len(plan.Writes) != 1 {
		return false, nil // Validate has the last word
	}
	next, err := free.With(plan.Writes[0].Records...)
	if err != nil {
		return false, err
	}
	placed := next.Job(was.Name).Task(p.Slot).Placement
	running := &ohmv1.Status{Slot: placed.GetSlot(), Attempt: placed.GetAttempt(), Txn: placed.GetTxn(), Node: placed.GetNode(), State: task.Running, Ready: true}
	if next, err = next.With(cellstate.Record{Key: p.Slot.StatusKey(), Value: running}); err != nil {
		return false, err
	}
	t.snapshot = next
	t.moves = append(t.moves, Move{Placement: p, To: to, Job: was})
	return true, nil
}

// moved says whether a task has moved already: no plan moves one twice.
func (t *trial) moved(p *cellstate.Placement) bool {
	return slices.ContainsFunc(t.moves, func(m Move) bool { return m.Placement.Slot == p.Slot })
}

// movable are the placements of a node that may move, and were not moved: what has run for the
// shortest time first.
func (t *trial) movable(n *cellstate.Node) (of []*cellstate.Placement) {
	for _, p := range n.Unsorted() {
		if !t.moved(p) && Movable(t.snapshot, p) {
			of = append(of, p)
		}
	}
	slices.SortFunc(of, func(a, b *cellstate.Placement) int {
		return cmp.Or(b.GetTime().AsTime().Compare(a.GetTime().AsTime()), a.Slot.Compare(b.Slot))
	})
	return of
}
