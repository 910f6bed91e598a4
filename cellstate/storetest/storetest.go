// Package storetest holds the laws that every cellstate.Store must obey: the promises
// L1 to L7 of package cellstate, each proved through mirrors over the store under test,
// one of which has not seen what the other did.
//
//	func TestLaws(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) cellstate.Store { return memstore.New() })
//	}
package storetest

import (
	"context"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
)

// Compactor is what a store with a bounded history has; without it, its laws are left out.
type Compactor interface {
	Compact(ctx context.Context, revision cellstate.Revision) error
}

// RawWriter writes a key as another release might: any key, any bytes. Without it, the
// laws about unknown keys and fields are left out.
type RawWriter interface {
	PutRaw(ctx context.Context, key cellstate.Key, value []byte) error
}

// ReplyDropper makes the store lose the reply to its next Commit after applying it, as
// its network would. A store may learn the outcome by itself or answer ErrUnknown.
type ReplyDropper interface {
	DropReply()
}

// law is one named test on a fresh cell.
type law struct {
	name  string
	prove func(*cell)
}

// Run proves the laws, each on a store of its own: open returns an empty one, whose end
// it leaves to t.Cleanup. What each law has left in the history is audited, too.
func Run(t *testing.T, open func(t *testing.T) cellstate.Store) {
	laws := [][]law{capacityLaws(), slotLaws(), modeLaws(), gangLaws(), jobLaws(), evictionLaws(), budgetLaws(), parallelLaws(), releaseLaws(),
		fenceLaws(), hintLaws(), holdLaws(), reservationLaws(), replyLaws(), guardLaws(), historyLaws(), quotaLaws(), ruleLaws(), fieldCases()}
	probe := open(t)
	if _, ok := probe.(cellstate.Leaser); ok {
		laws = append(laws, leaseLaws(), leasedHoldLaws())
	}
	if _, ok := probe.(cellstate.Historian); ok {
		laws = append(laws, historianLaws())
	}
	if _, ok := probe.(cellstate.Lister); ok {
		laws = append(laws, checkLaws())
	}
	if _, ok := probe.(Compactor); ok {
		laws = append(laws, compactionLaws())
	}
	if _, ok := probe.(RawWriter); ok {
		laws = append(laws, unknownLaws())
	}
	if _, ok := probe.(ReplyDropper); ok {
		laws = append(laws, dropperLaws())
	}
	for _, group := range laws {
		for _, l := range group {
			t.Run(l.name, func(t *testing.T) {
				c := newCell(t, open(t))
				l.prove(c)
				c.audit()
			})
		}
	}
}
