package keeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// liveness decides which placements on silent nodes are given up, from what this leader
// itself has seen: for how long it has found a node without a session. Trouble in the
// control plane never counts against a node, so a new leader begins from nothing and waits
// for a grace time.
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

// brake says why nothing is given up.
type brake struct{ unseen, nodes int }

func (b brake) String() string {
	return fmt.Sprintf("%d of %d nodes are silent at once, which is more likely trouble of the control plane or the network: nothing is given up until some are back, or an operator says that they are lost (ohm node lost)", b.unseen, b.nodes)
}

// loss is what is given up of one node.
type loss struct {
	node       *cellstate.Node
	placements []*cellstate.Placement
}

func newLiveness(l Limits, now time.Time) *liveness {
	return &liveness{limits: l, since: now, unseen: map[cellstate.NodeName]absence{}}
}

func (l *liveness) wake() time.Time { return l.next }

// settled says whether this leader has been one for long enough to judge.
func (l *liveness) settled(now time.Time) bool { return !now.Before(l.since.Add(l.limits.Grace)) }

// judge looks at all nodes. It returns what is given up of those that are silent: each
// placement when its job's patience is over, and at once what the operator has called lost.
// While a large part of the nodes is silent at once nothing else is given up, and held says
// so as soon as something is overdue; what is not back when the others are gets its time anew.
func (l *liveness) judge(s *cellstate.Snapshot, now time.Time) (lost []loss, held *brake) {
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
		if n.Intent.GetLost() { // it is known what is the matter with it
			if n.Count() > 0 {
				lost = append(lost, loss{n, n.Placements()})
			}
			continue
		}
		if n.Count() > 0 {
			gone = append(gone, n)
		}
		if l.counts(s, n, away, now) {
			total++
			counted++
		}
	}
	l.unseen, l.looked, l.next = unseen, true, time.Time{}
	tooMany := counted >= l.limits.BrakeNodes && float64(counted) > float64(total)*l.limits.BrakeShare
	if tooMany || l.tooMany { // until now: nobody has looked in between
		l.braked = now
	}
	l.tooMany = tooMany
	for _, n := range gone {
		var over []*cellstate.Placement
		for _, p := range n.Placements() {
			due := later(unseen[n.Name].since.Add(l.patience(s, p)), l.since.Add(l.limits.Grace))
			overdue := !now.Before(due)
			if !l.braked.IsZero() {
				due = later(due, l.braked.Add(l.limits.LostAfter))
			}
			switch {
			case tooMany && overdue:
				held = &brake{counted, total}
			case !now.Before(due):
				over = append(over, p)
				continue
			}
			l.next = earliest(l.next, due)
		}
		if len(over) > 0 {
			lost = append(lost, loss{n, over})
		}
	}
	return lost, held
}

// counts says whether a silent node speaks for trouble that is not its own: it went lately,
// or something on it would be given up about now.
func (l *liveness) counts(s *cellstate.Snapshot, n *cellstate.Node, away absence, now time.Time) bool {
	if now.Sub(away.since) < l.limits.BrakeWindow && (away.seen || n.Count() > 0) {
		return true
	}
	for _, p := range n.Unsorted() {
		if away.since.Add(l.patience(s, p)).Before(now.Add(l.limits.BrakeWindow)) {
			return true
		}
	}
	return false
}

func (l *liveness) patience(s *cellstate.Snapshot, p *cellstate.Placement) time.Duration {
	j := s.Job(p.Slot.JobName())
	patience := reconcile.Patience(j, l.limits.LostAfter, l.limits.KeepFor)
	if len(p.GetVictims()) > 0 && patience > l.limits.HeirFor && j.Record.GetSpec().GetWhenSilent().GetThen() != reconcile.Never && awaits(s, p) {
		return l.limits.HeirFor
	}
	return patience
}

// awaits says whether a task that evicts others has not begun and one of them still stands: it
// has only the promise of a node that nothing is heard of, and would rather have another.
func awaits(s *cellstate.Snapshot, p *cellstate.Placement) bool {
	if s.Job(p.Slot.JobName()).Task(p.Slot).Status.GetState() > task.Assigned {
		return false
	}
	return slices.ContainsFunc(p.GetVictims(), func(v *ohmv1.Victim) bool {
		slot := cellstate.SlotOf(v.GetSlot())
		t := s.Job(slot.JobName()).Task(slot)
		return t != nil && t.Placement.GetTxn() == v.GetTxn()
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lostWrites give placements of a silent node up, each only if no server has a session of
// the node even then.
func lostWrites(s *cellstate.Snapshot, of loss, now time.Time) []cellstate.Write {
	var writes []cellstate.Write
	for _, p := range of.placements {
		t := s.Job(p.Slot.JobName()).Task(p.Slot)
		status := lastStatus(t, task.Lost, task.NodeLost, now)
		status.Message = fmt.Sprintf("node %s was not seen any more", of.node.Name)
		writes = append(writes, cellstate.Write{
			Guards:  []cellstate.Guard{{Key: cellstate.AliveKey(of.node.Name)}},
			Records: cellstate.ReleaseRecords(t, status),
		})
	}
	return writes
}

// lastStatus is how a live attempt ends that its agent has not seen the end of.
func lastStatus(t *cellstate.Task, state task.State, cause string, now time.Time) *ohmv1.Status {
	status, p := &ohmv1.Status{}, t.Placement
	if t.Status != nil {
		status = proto.CloneOf(t.Status)
	}
	status.Slot, status.Attempt, status.Txn, status.Node = p.GetSlot(), p.GetAttempt(), p.GetTxn(), p.GetNode()
	status.State, status.Cause, status.Ended = state, cause, timestamppb.New(now)
	return status
}

// lose gives up what is due on silent nodes.
func (k *Keeper) lose(ctx context.Context, lead cellstate.Guard, l *liveness, s *cellstate.Snapshot, now time.Time) error {
	lost, held := l.judge(s, now)
	if was := k.braking.Swap(held != nil); held != nil && !was {
		k.log.Error("nothing is given up: too many nodes are silent at once", zap.Int("silent", held.unseen), zap.Int("nodes", held.nodes))
	} else if held == nil && was {
		k.log.Info("the nodes are back, or few enough are silent")
	}
	if held != nil || l.settled(now) {
		if err := k.alarm(ctx, lead, s, held, now); err != nil {
			return err
		}
	}
	for _, of := range lost {
		k.log.Warn("a node is lost, its tasks are given up", zap.String("node", string(of.node.Name)), zap.Int("tasks", len(of.placements)))
		if _, err := k.commit(ctx, lead, lostWrites(s, of, now)); err != nil {
			return err
		}
	}
	return nil
}

// alarm has the brake's record there while it holds, for every server to show.
func (k *Keeper) alarm(ctx context.Context, lead cellstate.Guard, s *cellstate.Snapshot, held *brake, now time.Time) error {
	there, read := s.Meta(reconcile.BrakeMeta)
	if (there != nil) == (held != nil) {
		return nil
	}
	record := cellstate.Record{Key: cellstate.MetaKey(reconcile.BrakeMeta), Read: read}
	if held != nil {
		record.Value = &ohmv1.Meta{Value: held.String(), Time: timestamppb.New(now)}
	}
	_, err := k.commit(ctx, lead, []cellstate.Write{{Records: []cellstate.Record{record}}})
	return err
}
