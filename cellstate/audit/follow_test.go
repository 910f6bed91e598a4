package audit_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestFollow: a live audit sees what comes after it has begun, ends at the first broken
// promise, and without an error when it is ended.
func TestFollow(t *testing.T) {
	p := newPlant(t)
	p.Node(celltest.Node{Name: "live"})
	p.Job(celltest.Job{Name: "live", Count: 3, CPU: 1000})
	a := audit.New(p.Snapshot())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := false
	follow := func(enough func()) error {
		return a.Follow(ctx, p.store, func(b cellstate.Batch) {
			if !began {
				began = true
				p.Place("live", 0, "live")
			}
			if len(b.Changes) > 0 {
				enough()
			}
		})
	}
	if err := follow(cancel); err != nil {
		t.Fatalf("it was ended, and said %v", err)
	}
	if r := a.Report(); r.GetPlacements() != 1 || len(r.GetViolations()) != 0 {
		t.Errorf("report %v", r)
	}
	ctx = t.Context()
	p.place("live", 1, "live", func(placed *ohmv1.Placement) { placed.Resources.CpuMilli = 100_000 })
	err := follow(func() {})
	if !errors.Is(err, audit.ErrBroken) || len(a.Report().GetViolations()) == 0 {
		t.Errorf("a node beyond its capacity ended it with %v", err)
	}
}

// gone is a store that has forgotten what is asked for.
type gone struct{}

func (gone) Changes(context.Context, cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	return func(yield func(cellstate.Batch, error) bool) { yield(cellstate.Batch{}, cellstate.ErrCompacted) }
}
func (gone) Progress(context.Context) error { return nil }

func TestFollowFailsOnAGap(t *testing.T) {
	a := audit.New(newPlant(t).Snapshot())
	if err := a.Follow(t.Context(), gone{}, nil); !errors.Is(err, cellstate.ErrCompacted) {
		t.Errorf("a gap ended it with %v", err)
	}
}
