// Package keeper holds the housekeeping loops of the control plane. One server of a
// cell at a time, the leader, runs them: it marks jobs done, gives up what stood on
// nodes that are lost, brings drains forward, deals out quotas, notes what namespaces have held
// of late, and removes what is kept long enough.
//
// Every write is guarded by the leadership key's revision, so that a leader that has
// been succeeded without noticing changes nothing any more. What a loop does is decided
// by a pure function of a snapshot and the time.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Store is what the keeper needs of the cell's store.
type Store interface {
	cellstate.Leaser
	cellstate.Compactor
	Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error)
}

// Config of a keeper. Store, Mirror and Server must be given.
type Config struct {
	Store  Store
	Carer  cellstate.Carer // of a store that is ours to defragment; nil: it is not
	Mirror *mirror.Mirror  // somebody else runs it
	Server string          // name of this server, unique in the cell
	Log    *zap.Logger
	Limits Limits
}

// Limits are the keeper's times and numbers; a zero one takes its default.
type Limits struct {
	Store time.Duration // how long the store may take to answer; 5 s
	Lease time.Duration // life of the leadership without renewal; 10 s

	// What stands on a node is given up when no server has had its session for LostAfter,
	// 40 s, unless its job says otherwise; what is to be kept, after KeepFor, 24 h. For Grace
	// after this keeper has become the leader nothing is given up; 40 s.
	LostAfter, KeepFor, Grace time.Duration
	// A task that waits on such a node for others to give way, and has not begun, is given up
	// after HeirFor at the latest, 15 s, to be placed elsewhere.
	HeirFor time.Duration
	// More than BrakeShare of the nodes silent at once, a third, and at least BrakeNodes, 3,
	// are more likely trouble of the control plane's than of the nodes': nothing is given up
	// then. A node of which nothing is about to be given up counts for BrakeWindow; 10 min.
	BrakeShare  float64
	BrakeNodes  int
	BrakeWindow time.Duration

	// A job is removed when it has been done for DoneAfter, 24 h, and sooner where there
	// are more than DoneJobs that are done; 10,000.
	DoneAfter time.Duration
	DoneJobs  int
	Attempts  int // the newest of the ended ones that a slot of a job that is not done keeps, beside its first; 20, more than it takes for the backoff to grow to its most
	// What is told of runs that are over is kept for RunsFor, 7 days, of one job at most
	// RunsOfJob, 1,000, and of all at most Runs, 20,000.
	RunsFor         time.Duration
	RunsOfJob, Runs int
	squeezing       bool          // the store is about to be full
	Sweep           time.Duration // between two looks at what may be removed; 1 min

	// Of what a namespace has held of late half is forgotten in HalfLife, 10 min.
	HalfLife time.Duration

	// The store's past is kept for History, 10 min, and only for HistoryLeast, 1 min, while
	// the store takes more than HistoryBytes, 1 GiB, or more than half of its quota. Compact
	// is the time between two compactions, 10 s: many small ones hurt nobody.
	History, HistoryLeast, Compact time.Duration
	HistoryBytes                   int64
	// A store of ours whose file is mostly free is made to give that back, at most once in
	// Defragment, 1 h, and sooner, once in HistoryLeast, when the file comes near the quota;
	// not for less than DefragmentBytes, 256 MiB, or a tenth of the quota.
	Defragment      time.Duration
	DefragmentBytes int64
}

// DoneJobs is how many jobs that are done are kept, if nobody says otherwise.
const DoneJobs = 10_000

func (l Limits) withDefaults() Limits {
	span := func(d *time.Duration, preset time.Duration) {
		if *d <= 0 {
			*d = preset
		}
	}
	number := func(n *int, preset int) {
		if *n <= 0 {
			*n = preset
		}
	}
	span(&l.Store, 5*time.Second)
	span(&l.Lease, 10*time.Second)
	span(&l.LostAfter, 40*time.Second)
	span(&l.KeepFor, 24*time.Hour)
	span(&l.HeirFor, 15*time.Second)
	span(&l.Grace, 40*time.Second)
	span(&l.BrakeWindow, 10*time.Minute)
	span(&l.DoneAfter, 24*time.Hour)
	span(&l.Sweep, time.Minute)
	span(&l.HalfLife, 10*time.Minute)
	span(&l.History, 10*time.Minute)
	span(&l.HistoryLeast, time.Minute)
	span(&l.Compact, 10*time.Second)
	span(&l.Defragment, time.Hour)
	if l.HistoryBytes <= 0 {
		l.HistoryBytes = 1 << 30
	}
	if l.DefragmentBytes <= 0 {
		l.DefragmentBytes = 256 << 20
	}
	if l.BrakeShare <= 0 {
		l.BrakeShare = 1.0 / 3
	}
	number(&l.BrakeNodes, 3)
	number(&l.DoneJobs, DoneJobs)
	number(&l.Attempts, reconcile.NewestAttempts)
	span(&l.RunsFor, 7*24*time.Hour)
	number(&l.RunsOfJob, 1000)
	number(&l.Runs, 20_000)
	return l
}

// Keeper keeps house in one cell while it leads.
type Keeper struct {
	cfg     Config
	log     *zap.Logger
	leads   atomic.Bool
	braking atomic.Bool

	size    atomic.Pointer[cellstate.Size] // of the store, as of the last look; nil: none
	pressed atomic.Int32                   // looks in a row at which it was about to be full
}

// New returns a keeper; Run makes it work.
func New(cfg Config) *Keeper {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Keeper{cfg: cfg, log: cfg.Log}
}

// Leads says whether this keeper is the leader now, as far as it knows.
func (k *Keeper) Leads() bool { return k.leads.Load() }

// Braking says whether so many nodes are silent at once that nothing is given up.
func (k *Keeper) Braking() bool { return k.braking.Load() }

// retry is the pause before a store that did not answer is asked again.
const retry = 250 * time.Millisecond

// Run campaigns and, while it leads, keeps house, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := k.term(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("leadership ended, campaigning again", zap.Error(err))
			pause(ctx, retry)
		}
	}
	return nil
}

// errDeposed says that the leadership key is not this leader's any more.
var errDeposed = errors.New("another keeper leads")

// commit commits writes, each guarded by the leadership, and waits until the mirror
// shows what became of them. It returns which applied.
func (k *Keeper) commit(ctx context.Context, lead cellstate.Guard, writes []cellstate.Write) (applied []bool, err error) {
	for i := range writes {
		writes[i].Guards = append(writes[i].Guards, lead)
	}
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	var newest cellstate.Revision
	for done := 0; done < len(writes); {
		n := min(writesAtOnce, len(writes)-done)
		out, err := k.cfg.Store.Commit(ctx, writes[done:done+n]...)
		if err != nil {
			return applied, err
		}
		for _, at := range out.Applied {
			applied = append(applied, at > 0)
		}
		newest = out.Revision
		done += n
	}
	if newest > 0 {
		_, err = k.cfg.Mirror.WaitSnapshot(ctx, newest)
	}
	return applied, err
}

// writesAtOnce bounds the writes of one request.
const writesAtOnce = 64

func (k *Keeper) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	silent := fmt.Errorf("%w: the store has not answered within %v", cellstate.ErrUnreachable, k.cfg.Limits.Store)
	return context.WithTimeoutCause(ctx, k.cfg.Limits.Store, silent)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
