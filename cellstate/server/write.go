package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
)

// writeRounds bounds how often a write that lost a race is judged again.
const writeRounds = 8

// write commits what plan makes of a snapshot. Where a record has moved on, plan is
// asked again with a newer snapshot. It returns a snapshot that shows the write. A plan
// without records is committed too: its guards say whether the snapshot is still true.
// What plan wants must be a state, not a step: it may be asked again after its write has
// been applied.
func (s *Server) write(ctx context.Context, plan func(*cellstate.Snapshot) (cellstate.Write, error)) (*cellstate.Snapshot, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	snapshot, err := s.snapshot(ctx)
	for round := 0; err == nil && round < writeRounds; round++ {
		w, refusal := plan(snapshot)
		if refusal != nil && round > 0 {
			return nil, refusal
		}
		// A refusal must not rest on a snapshot from before the request: whoever has just
		// registered a scheduler, or submitted to another server, has been told that it is
		// there. So the first one is judged again on a snapshot that the store confirmed.
		if refusal != nil {
			w = cellstate.Write{}
		}
		var out cellstate.Outcome
		out, err = s.commit(ctx, w)
		if refusal != nil && err == nil {
			snapshot, err = s.cfg.Mirror.WaitSnapshot(ctx, out.Revision)
			continue
		}
		if errors.Is(err, cellstate.ErrUnknown) {
			// If it was applied, or will be, it and its repetition cannot both be: each
			// compares what the other changes. The next plan finds out.
			if err = pause(ctx, retryStore); err == nil {
				snapshot, err = s.snapshot(ctx)
			}
			continue
		}
		if err != nil {
			break
		}
		if at := out.Applied[0]; at > 0 {
			snapshot, err = s.cfg.Mirror.WaitSnapshot(ctx, at)
			return snapshot, storeError(ctx, err)
		}
		if round == writeRounds/2 {
			s.cfg.Mirror.Resync() // the snapshot is newer than the answer and still wrong
		}
		snapshot, err = s.cfg.Mirror.WaitSnapshot(ctx, out.Revision)
	}
	if err != nil {
		return nil, storeError(ctx, err)
	}
	return nil, fmt.Errorf("%w: others keep changing the same records; try again", cellstate.ErrConflict)
}

// commit commits a write, or says when ctx has ended that it has not been answered. A
// store may go on for a while then, to learn what became of the request; Run waits for
// that.
func (s *Server) commit(ctx context.Context, w cellstate.Write) (cellstate.Outcome, error) {
	if err := s.gateway.open(); err != nil {
		return cellstate.Outcome{}, err
	}
	type answer struct {
		out cellstate.Outcome
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		defer s.gateway.streams.Done()
		out, err := s.cfg.Store.Commit(ctx, w)
		answered <- answer{out, err}
	}()
	select {
	case a := <-answered:
		return a.out, a.err
	case <-ctx.Done():
		return cellstate.Outcome{}, context.Cause(ctx)
	}
}

// storeError prefers the reason for which ctx ended, which is bounded's, to what the
// store made of it.
func storeError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
