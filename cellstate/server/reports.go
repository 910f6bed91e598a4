package server

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Statuses are committed many at a time, in requests that hold up nobody else for long, of
// which the next is on its way while the store is at work on one.
const (
	reportWrites   = 500
	reportInFlight = 3
)

// Of a task that ends within moments nobody needs to know that it ran. While more than
// busyReports a second come in, that a task starts or runs is not stored before settle has
// passed since the first such report that waits: it goes with others, or gives way to the end.
const (
	busyReports = 200
	settle      = time.Second
	gather      = 50 * time.Millisecond // then, between two requests: a request costs the store as much as some reports
)

// reports collects what all sessions report and commits it, many at a time. A newer
// report of an attempt takes the place of one that waits, so there are never more
// than there are tasks. What has been taken in is kept until the store has it.
type reports struct {
	server *Server
	wake   chan struct{}

	mu      sync.Mutex
	waiting map[attempt]*ohmv1.Status
	calm    map[attempt]*ohmv1.Status // those that may wait for a while; none of them is in waiting
	since   time.Time                 // that calm is not empty
	busy    bool                      // in the last count
	came    int                       // reports since counted
	counted time.Time
}

// attempt names one for good, and the node whose session speaks of it: what another
// node says of it never takes the place of what its own says.
type attempt struct {
	slot cellstate.Slot
	txn  string
	node cellstate.NodeName
}

func newReports(s *Server) *reports {
	return &reports{server: s, wake: make(chan struct{}, 1), waiting: map[attempt]*ohmv1.Status{}, calm: map[attempt]*ohmv1.Status{}}
}

func (r *reports) add(node cellstate.NodeName, statuses []*ohmv1.Status) {
	r.mu.Lock()
	now := time.Now()
	r.count(len(statuses), now)
	for _, s := range statuses {
		r.keep(attempt{cellstate.SlotOf(s.GetSlot()), s.GetTxn(), node}, s, true, now)
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// count finds out, about once a second, whether many reports come in. The caller holds mu.
func (r *reports) count(came int, now time.Time) {
	r.came += came
	if d := now.Sub(r.counted); d >= time.Second {
		r.busy = float64(r.came) > busyReports*d.Seconds()
		r.came, r.counted = 0, now
	}
}

// many says whether many reports came in of late.
func (r *reports) many() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy
}

// keep holds a report until it is committed; of two of one attempt the one that is
// further on, of equals the newer. The caller holds mu.
func (r *reports) keep(of attempt, this *ohmv1.Status, newer bool, now time.Time) {
	was, urgent := r.waiting[of]
	if !urgent {
		was = r.calm[of]
	}
	if was != nil {
		a, b := task.Order(was.GetState()), task.Order(this.GetState())
		if a > b || a == b && (!newer || task.Ended(a)) {
			return
		}
	}
	if r.busy && !urgent && task.Order(this.GetState()) <= task.Running && this.GetMessage() == "" {
		if len(r.calm) == 0 {
			r.since = now
		}
		r.calm[of] = this
		return
	}
	delete(r.calm, of)
	r.waiting[of] = this
}

// take are the reports to be committed now, and if there are others, when they will be.
func (r *reports) take(now time.Time) (taken map[attempt]*ohmv1.Status, later time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken = r.waiting
	r.waiting = map[attempt]*ohmv1.Status{}
	if len(r.calm) == 0 {
		return taken, later
	}
	if later = r.since.Add(settle); later.After(now) {
		return taken, later
	}
	maps.Copy(taken, r.calm)
	r.calm = map[attempt]*ohmv1.Status{}
	return taken, time.Time{}
}

func (r *reports) back(left map[attempt]*ohmv1.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for of, this := range left {
		r.keep(of, this, false, now)
	}
}

// run commits reports until ctx ends.
func (r *reports) run(ctx context.Context) error {
	settled := time.NewTimer(0)
	defer settled.Stop()
	for {
		select {
		case <-r.wake:
		case <-settled.C:
		case <-ctx.Done():
			return nil
		}
		for {
			if r.many() && pause(ctx, gather) != nil {
				return nil
			}
			taken, later := r.take(time.Now())
			if len(taken) == 0 {
				if !later.IsZero() {
					settled.Reset(time.Until(later))
				}
				break
			}
			left, err := r.commit(ctx, taken)
			r.back(left)
			if err == nil {
				continue
			}
			r.server.log.Warn("statuses wait for the store", zap.Int("statuses", len(left)), zap.Error(err))
			if pause(ctx, retryStore) != nil {
				return nil
			}
		}
	}
}

// commit judges reports on the latest snapshot and commits them. It returns those that
// must be judged again, for which it has waited until the snapshot is newer.
func (r *reports) commit(ctx context.Context, taken map[attempt]*ohmv1.Status) (left map[attempt]*ohmv1.Status, err error) {
	snapshot := r.server.cfg.Mirror.Snapshot() // there is one: sessions wait for it
	var writes []cellstate.Write
	var of []attempt
	left = map[attempt]*ohmv1.Status{}
	for a, this := range taken {
		if w, ok := reportWrite(snapshot, a, this, time.Now()); ok {
			writes, of = append(writes, w), append(of, a)
			left[a] = this
		}
	}
	var mu sync.Mutex // guards left and wait
	var wait cellstate.Revision
	var sending errgroup.Group
	sending.SetLimit(reportInFlight)
	for from := 0; from < len(writes); from += reportWrites {
		to := min(from+reportWrites, len(writes))
		sending.Go(func() error {
			ctx, cancel := r.server.bounded(ctx)
			defer cancel()
			out, err := r.server.cfg.Store.Commit(ctx, writes[from:to]...)
			if err != nil {
				return storeError(ctx, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i, at := range out.Applied {
				if a := of[from+i]; at > 0 {
					if this := left[a]; task.Ended(this.GetState()) {
						r.server.ends.count(this.GetCause())
					}
					delete(left, a)
				} else {
					wait = max(wait, out.Revision)
				}
			}
			return nil
		})
	}
	if err := sending.Wait(); err != nil {
		return left, err
	}
	if wait > 0 {
		_, err = r.server.waitSnapshot(ctx, wait)
	}
	return left, err
}

// reportWrite is the write that stores a report; ok is false where there is nothing to
// store: the attempt is not live on that node (the report is late), the state would go
// back, or it is what is stored already. An end state is a release.
func reportWrite(s *cellstate.Snapshot, of attempt, said *ohmv1.Status, now time.Time) (w cellstate.Write, ok bool) {
	j := s.Job(of.slot.JobName())
	if j == nil {
		return w, false
	}
	t := j.Task(of.slot)
	if t == nil || t.Placement == nil || t.Placement.GetTxn() != of.txn || t.Placement.GetNode() != string(of.node) {
		return w, false
	}
	status := proto.CloneOf(said)
	status.Attempt, status.Node = t.Placement.GetAttempt(), t.Placement.GetNode()
	was := max(t.Status.GetState(), task.Assigned)
	switch {
	case task.Ended(status.GetState()):
		if status.GetEnded() == nil {
			status.Ended = timestamppb.New(now)
		}
		return cellstate.Write{Records: cellstate.ReleaseRecords(t, status)}, true
	case task.Order(status.GetState()) < task.Order(was),
		t.Status == nil && status.GetState() == task.Assigned && status.GetMessage() == "", // says no more than the placement
		t.Status != nil && proto.Equal(t.Status, status):
		return w, false
	}
	return cellstate.Write{
		Guards:  []cellstate.Guard{{Key: of.slot.PlacementKey(), Revision: t.Placement.Revision}},
		Records: []cellstate.Record{{Key: of.slot.StatusKey(), Value: status, Read: t.StatusRevision}},
	}, true
}
