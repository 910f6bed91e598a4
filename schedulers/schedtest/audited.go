package schedtest

import (
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	"github.com/ohmcell/ohm/cellstate/memstore"
)

// Audited holds the history of a store, from a state on, against what a transaction promises; nil:
// from the oldest state that the store has.
func Audited(t testing.TB, store *memstore.Store, from *cellstate.Snapshot) {
	t.Helper()
	oldest, present, err := store.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if from == nil {
		from = oldest
	}
	a := audit.New(from)
	for batch, err := range store.Changes(t.Context(), from.Revision()) {
		if err == nil {
			err = a.Observe(batch)
		}
		if err != nil {
			t.Fatal(err)
		}
		if batch.Revision >= present {
			break
		}
	}
	for _, v := range a.Report().GetViolations() {
		t.Errorf("audit: %v", v)
	}
}
