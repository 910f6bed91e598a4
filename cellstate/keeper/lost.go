package keeper

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// liveness decides which nodes are lost, from what this leader itself has seen: for how
// long it has found a node without a session. Trouble in the control plane never counts
// against a node, so a new leader begins from nothing and waits for a grace time.
type liveness struct {
	limits Limits
	since  time.Time // of this leadership
	looked bool      // at the cell at least once
	// tooMany says that too many were unseen at the last look, braked until when they
	// were: those that are still unseen then get LostAfter from there.
	tooMany bool
	braked  time.Time
	unseen  map[cellstate.NodeName]absence
	next    time.Time // when there may be more to say; zero: never
}

// absence is the time for which a node has been without a session.
type absence struct {
	since time.Time
	// seen says that the node went under this leader. One that was absent from the start
	// and has nothing on it may have gone long ago, and does not count for the brake.
	seen bool
}

// brake says why nothing is declared lost.
type brake struct{ unseen, nodes int }

func newLiveness(l Limits, now time.Time) *liveness {
	return &liveness{limits: l, since: now, unseen: map[cellstate.NodeName]absence{}}
}

func (l *liveness) wake() time.Time { return l.next }

// judge looks at all nodes. It returns those that are lost and still have placements.
// While a large part of the nodes is unseen at once none is, and held says so as soon as
// one of them is overdue; those that are not back when the others are get their time anew.
func (l *liveness) judge(s *cellstate.Snapshot, now time.Time) (lost []*cellstate.Node, held *brake) {
	unseen := map[cellstate.NodeName]absence{}
	counted, total := 0, 0
	var gone []*cellstate.Node // with placements
	for n := range s.Nodes() {
		if n.Alive != nil {
			total++
			continue
		}
		away, known := l.unseen[n.Name]
		if !known {
			away = absence{since: now, seen: l.looked}
		}
		unseen[n.Name] = away
		if n.Count() > 0 {
			gone = append(gone, n)
		}
		if n.Count() > 0 || away.seen && now.Sub(away.since) < l.limits.BrakeWindow {
			total++
			counted++
		}
	}
	l.unseen, l.looked, l.next = unseen, true, time.Time{}
	tooMany := counted >= l.limits.BrakeNodes && counted*100 > total*l.limits.BrakePercent
	if tooMany || l.tooMany { // until now: nobody has looked in between
		l.braked = now
	}
	l.tooMany = tooMany
	for _, n := range gone {
		due := later(unseen[n.Name].since.Add(l.limits.LostAfter), l.since.Add(l.limits.Grace))
		overdue := !now.Before(due)
		if !l.braked.IsZero() {
			due = later(due, l.braked.Add(l.limits.LostAfter))
		}
		switch {
		case tooMany && overdue:
			held = &brake{counted, total}
		case !now.Before(due):
			lost = append(lost, n)
			continue
		}
		l.next = earliest(l.next, due)
	}
	return lost, held
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lostWrites release everything that stood on a lost node, each only if no server has a
// session of the node even then.
func lostWrites(s *cellstate.Snapshot, n *cellstate.Node, now time.Time) []cellstate.Write {
	var writes []cellstate.Write
	for _, p := range n.Placements() {
		t := s.Job(p.Slot.JobName()).Task(p.Slot)
		status := &ohmv1.Status{}
		if t.Status != nil {
			status = proto.CloneOf(t.Status)
		}
		status.Slot, status.Attempt, status.Txn, status.Node = p.GetSlot(), p.GetAttempt(), p.GetTxn(), p.GetNode()
		status.State, status.Cause, status.Ended = task.Lost, task.NodeLost, timestamppb.New(now)
		status.Message = fmt.Sprintf("node %s was not seen any more", n.Name)
		writes = append(writes, cellstate.Write{
			Guards:  []cellstate.Guard{{Key: cellstate.AliveKey(n.Name)}},
			Records: cellstate.ReleaseRecords(t, status),
		})
	}
	return writes
}

// lose releases what stands on lost nodes.
func (k *Keeper) lose(ctx context.Context, lead cellstate.Guard, l *liveness, s *cellstate.Snapshot, now time.Time) error {
	lost, held := l.judge(s, now)
	if was := k.braking.Swap(held != nil); held != nil && !was {
		k.log.Error("too many nodes are unseen at once: nothing is declared lost until they are back or fewer",
			zap.Int("unseen", held.unseen), zap.Int("nodes", held.nodes))
	} else if held == nil && was {
		k.log.Info("the nodes are back, or few enough are unseen")
	}
	for _, n := range lost {
		k.log.Warn("node lost, its tasks are released", zap.String("node", string(n.Name)), zap.Int("tasks", n.Count()))
		if _, err := k.commit(ctx, lead, lostWrites(s, n, now)); err != nil {
			return err
		}
	}
	return nil
}
