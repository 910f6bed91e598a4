package keeper

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// drainWrites are what a drain needs done that no agent reports: a deadline that has passed
// goes from its intent, which stops what is left; and a task that makes way before its
// exit is released as soon as it has been asked to end. Its process is the agent's to see
// off: it has the signal, and the grace. Tasks of jobs with a disruption budget are given up in
// turns. next is the first deadline to come; zero: none.
func drainWrites(s *cellstate.Snapshot, now time.Time) (writes []cellstate.Write, next time.Time) {
	turns := turns{}
	for n := range s.Nodes() {
		if !n.Intent.GetDrain() {
			continue
		}
		if deadline := n.Intent.GetDrainDeadline(); deadline != nil {
			if at := deadline.AsTime(); now.Before(at) {
				next = earliest(next, at)
			} else {
				intent := proto.CloneOf(n.Intent)
				intent.DrainDeadline = nil
				writes = append(writes, cellstate.NodeWrite(n.Name, n, cellstate.Record{
					Key: cellstate.IntentKey(n.Name), Value: intent, Read: n.IntentRevision,
				}))
			}
		}
		for _, p := range n.Unsorted() {
			j := s.Job(p.Slot.JobName())
			if j != nil && reconcile.InTurn(j, p, n) {
				turns.add(s, j, p)
			}
			if t := j.Task(p.Slot); reconcile.HandsOver(j, t, n) {
				status := lastStatus(t, task.Stopped, task.Drained, now)
				status.Message = fmt.Sprintf("it was still ending on node %s when it made way", n.Name)
				writes = append(writes, cellstate.Write{Records: cellstate.ReleaseRecords(t, status)})
			}
		}
	}
	return append(writes, turns.writes(s)...), next
}

// drain brings drains forward. It returns when there will be more to do.
func (k *Keeper) drain(ctx context.Context, lead cellstate.Guard, s *cellstate.Snapshot, now time.Time) (next time.Time, err error) {
	writes, next := drainWrites(s, now)
	for _, w := range writes {
		if intent, ok := w.Records[0].Value.(*ohmv1.Intent); ok {
			k.log.Info("the deadline of a drain has passed", zap.String("node", intent.GetNode()))
		}
	}
	_, err = k.commit(ctx, lead, writes)
	return next, err
}
