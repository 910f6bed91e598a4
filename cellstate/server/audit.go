package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const (
	auditTries   = 3                      // history may be compacted while it is read
	auditLoad    = 6                      // times the store's limit for its oldest state
	auditNudging = 100 * time.Millisecond // asks how far the store is: its last revisions may show nothing
)

// Audit replays the store's history and reports every promise that was broken.
func (s *insight) Audit(ctx context.Context, _ *ohmv1.AuditRequest) (*ohmv1.AuditResponse, error) {
	for try := 1; ; try++ {
		report, err := s.replay(ctx)
		if try == auditTries || !errors.Is(err, cellstate.ErrCompacted) {
			return report, err
		}
	}
}

// replay audits from the oldest state to the revision that is the present one now. It
// may take as long as it likes, but the store may not pause longer than its limit.
func (s *insight) replay(ctx context.Context) (*ohmv1.AuditResponse, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := s.cfg.Limits.Store
	silence := time.AfterFunc(auditLoad*limit, func() {
		cancel(fmt.Errorf("%w: the store does not tell its history", cellstate.ErrUnreachable))
	})
	defer silence.Stop()
	oldest, present, err := s.cfg.Store.History(ctx)
	if err != nil {
		return nil, storeError(ctx, err)
	}
	silence.Stop()
	auditor := audit.New(oldest)
	if oldest.Revision() >= present {
		return auditor.Report(), nil
	}
	group, nudged := errgroup.WithContext(ctx)
	group.Go(func() error {
		for pause(nudged, auditNudging) == nil {
			_ = s.cfg.Store.Progress(nudged)
		}
		return nil
	})
	defer func() { _ = group.Wait() }() // after cancel
	defer cancel(nil)
	silence.Reset(limit)
	for batch, err := range s.cfg.Store.Changes(ctx, oldest.Revision()) {
		if err != nil {
			return nil, storeError(ctx, err)
		}
		silence.Stop() // the work on a batch is ours
		if err := auditor.Observe(batch); err != nil {
			return nil, err
		}
		silence.Reset(limit)
		if batch.Revision >= present {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return auditor.Report(), nil
}
