package robustness

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/robustness/history"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// follower reads every revision of the store, past all relays, audits it, and keeps what
// happened for the judgement of the histories.
type follower struct {
	store *etcdstore.Store
	truth *history.Truth

	mu         sync.Mutex
	reached    cellstate.Revision
	latest     *cellstate.Snapshot
	claims     int // seen
	tally      tally
	violations []history.Violation
	audited    audited
	cancel     context.CancelFunc
	done       chan error
	ended      error // a gap, or something else that the audit cannot go on after
}

// audited sums up what the audits saw, restores included.
type audited struct{ Revisions, Transactions, Placements int64 }

// begin loads the store and follows it until end.
func (f *follower) begin(ctx context.Context) error {
	var oldest *cellstate.Snapshot
	err := until(ctx, "the audit begins", func(ctx context.Context) (err error) {
		oldest, err = f.store.Load(ctx)
		return err
	})
	if err != nil {
		return err
	}
	f.truth.Begin(oldest)
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached, f.latest, f.cancel, f.done = oldest.Revision(), oldest, cancel, make(chan error, 1)
	f.ended = nil
	go func() {
		err := f.follow(ctx, oldest)
		f.mu.Lock()
		f.ended = err
		f.mu.Unlock()
		f.done <- err
	}()
	return nil
}

func (f *follower) follow(ctx context.Context, oldest *cellstate.Snapshot) error {
	auditor := audit.New(oldest)
	defer func() { f.report(auditor.Report()) }()
	return auditor.Follow(ctx, f.store, func(b cellstate.Batch) {
		f.truth.See(b)
		f.mu.Lock()
		defer f.mu.Unlock()
		before := f.latest
		f.reached, f.latest = max(f.reached, b.Revision), auditor.State()
		f.tally.see(before, f.latest, b)
		for _, c := range b.Changes {
			if _, ok := c.Record().(*ohmv1.Placement); ok {
				f.claims++
			}
		}
	})
}

func (f *follower) report(r *ohmv1.AuditResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.audited.Revisions += r.GetRevisions()
	f.audited.Transactions += r.GetTransactions()
	f.audited.Placements += r.GetPlacements()
	for _, v := range r.GetViolations() {
		f.violations = append(f.violations, history.Violation{Law: v.GetLaw(), Detail: fmt.Sprintf("audit, revision %d, %s: %s", v.GetRevision(), v.GetKey(), v.GetDetail())})
	}
}

func (f *follower) at() cellstate.Revision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reached
}

// placed counts the placements that were seen.
func (f *follower) placed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims
}

// state is the cell as the audit knows it.
func (f *follower) state() *cellstate.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest
}

// end stops following. An error is a gap.
func (f *follower) end() error {
	f.mu.Lock()
	cancel, done := f.cancel, f.done
	f.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	err := <-done
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancel = nil
	return err
}

// err is why the audit has ended by itself, or the first violation that it has found.
func (f *follower) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == nil && len(f.violations) > 0 {
		return errors.New(f.violations[0].String())
	}
	return f.ended
}

// reach waits until a revision was audited.
func (f *follower) reach(ctx context.Context, at cellstate.Revision) error {
	return until(ctx, fmt.Sprintf("the audit of revision %d", at), func(context.Context) error {
		if now := f.at(); now < at {
			return fmt.Errorf("it is at %d", now)
		}
		return nil
	})
}
