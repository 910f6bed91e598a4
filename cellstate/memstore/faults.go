package memstore

import (
	"context"

	"github.com/ohmcell/ohm/cellstate"
)

// Option makes a store misbehave as a network would, for tests. The functions are
// called from many goroutines.
type Option func(*faults)

type faults struct {
	dropReply func([]cellstate.Write) bool
	loseEvent func(cellstate.Change) bool
	delay     func(context.Context, cellstate.Batch)
}

// DropReplies applies the requests for which drop is true, and answers ErrUnknown.
func DropReplies(drop func([]cellstate.Write) bool) Option {
	return func(f *faults) { f.dropReply = drop }
}

// LoseEvents keeps the changes for which lose is true from Changes, not from Load.
func LoseEvents(lose func(cellstate.Change) bool) Option {
	return func(f *faults) { f.loseEvent = lose }
}

// Delay calls wait before Changes yields a batch; the batch comes when wait returns.
func Delay(wait func(context.Context, cellstate.Batch)) Option {
	return func(f *faults) { f.delay = wait }
}
