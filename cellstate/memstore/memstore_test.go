package memstore_test

import (
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dropping loses a reply on request.
type dropping struct {
	*memstore.Store
	next *atomic.Bool
}

func (d dropping) DropReply() { d.next.Store(true) }

func TestLaws(t *testing.T) {
	storetest.Run(t, func(*testing.T) cellstate.Store {
		next := new(atomic.Bool)
		store := memstore.New(memstore.DropReplies(func([]cellstate.Write) bool { return next.Swap(false) }))
		return dropping{store, next}
	})
}
