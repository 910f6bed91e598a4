package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ohmcell/ohm/cellstate"
)

// Source is where a live audit reads.
type Source interface {
	Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error]
	Progress(ctx context.Context) error
}

// ErrBroken ends a live audit that has found a broken promise; the report has it.
var ErrBroken = errors.New("a promise was broken")

// nudging is how often a source is asked how far it has come: of what nobody watches it
// tells nothing by itself.
const nudging = 100 * time.Millisecond

// Follow audits each revision of the source as it comes, from the auditor's state on, and
// calls seen, unless it is nil, for each batch. It ends with ctx, which is no error; with
// ErrBroken at the first violation; and with any other error at a gap: revisions that it
// cannot see any more.
func (a *Auditor) Follow(ctx context.Context, source Source, seen func(cellstate.Batch)) error {
	ctx, stop := context.WithCancel(ctx)
	var nudger errgroup.Group
	defer func() { _ = nudger.Wait() }()
	defer stop()
	nudger.Go(func() error {
		tick := time.NewTicker(nudging)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = source.Progress(ctx) // the changes end with the error, if it lasts
			case <-ctx.Done():
				return nil
			}
		}
	})
	for b, err := range source.Changes(ctx, a.state.Revision()) {
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			err = a.Observe(b)
		}
		if err != nil {
			return fmt.Errorf("there is a gap after revision %d: %w", a.state.Revision(), err)
		}
		if seen != nil {
			seen(b)
		}
		if len(a.violations) > 0 {
			return fmt.Errorf("%w: %s", ErrBroken, a.violations[0].GetDetail())
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("there is a gap after revision %d: the changes ended", a.state.Revision())
	}
	return nil
}
