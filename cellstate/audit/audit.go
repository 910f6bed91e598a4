// Package audit replays the history of a store, revision by revision, and finds where
// a promise of the transaction (L1 to L9 of package cellstate) was broken. It trusts no
// scheduler and no counter: it looks only at what was stored.
//
// It does no I/O of its own. Whoever calls it reads the oldest state and the changes after it, from
// a store's history or from a live watch.
package audit

import (
	"fmt"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// The promises as a Violation names them. Fences is the chain of fences, on which L1
// rests; Holds is that held room is left to its owner and given back; Quotas, that no
// revision adds to a scope beyond its quota.
const (
	L1     = "L1"
	L2     = "L2"
	L3     = "L3"
	L4     = "L4"
	L5     = "L5"
	L6     = "L6"
	L7     = "L7"
	L8     = "L8"
	L9     = "L9"
	Fences = "fences"
	Holds  = "holds"
	Quotas = "quotas"
)

// Auditor audits one store. Its work grows with the records that change, not with the
// size of the cell.
type Auditor struct {
	state      *cellstate.Snapshot // after what was observed so far
	from       cellstate.Revision
	txns       map[string]bool
	placements int64
	violations []*ohmv1.Violation
}

// New begins with the oldest state there is, and checks of it what a single state can show.
func New(oldest *cellstate.Snapshot) *Auditor {
	a := &Auditor{state: oldest, from: oldest.Revision(), txns: map[string]bool{}}
	for n := range oldest.Nodes() {
		for _, p := range n.Placements() {
			a.txns[p.GetTxn()] = true
			a.placements++
		}
		a.standing(n)
	}
	a.sharesStanding()
	return a
}

// Observe checks the revisions of a batch. Batches must follow each other as a store's
// Changes yields them; an error says that they do not, or cannot be applied.
func (a *Auditor) Observe(b cellstate.Batch) error {
	for changes := b.Changes; len(changes) > 0; {
		at := changes[0].Revision
		if at <= a.state.Revision() {
			return fmt.Errorf("revision %d comes after revision %d", at, a.state.Revision())
		}
		n := slices.IndexFunc(changes, func(c cellstate.Change) bool { return c.Revision != at })
		if n < 0 {
			n = len(changes)
		}
		next, _, err := a.state.Apply(cellstate.Batch{Revision: at, Changes: changes[:n]})
		if err != nil {
			return fmt.Errorf("revision %d: %w", at, err)
		}
		newRevision(a, a.state, next, changes[:n]).check()
		a.state, changes = next, changes[n:]
	}
	next, _, err := a.state.Apply(cellstate.Batch{Revision: b.Revision})
	a.state = next
	return err
}

// State is the cell after what was observed so far.
func (a *Auditor) State() *cellstate.Snapshot { return a.state }

// Report is what was found so far.
func (a *Auditor) Report() *ohmv1.AuditResponse {
	return &ohmv1.AuditResponse{
		FromRevision: int64(a.from), ToRevision: int64(a.state.Revision()), Revisions: int64(a.state.Revision() - a.from),
		Transactions: int64(len(a.txns)), Placements: a.placements, Violations: slices.Clone(a.violations),
	}
}

func (a *Auditor) violated(at cellstate.Revision, law string, key cellstate.Key, format string, args ...any) {
	a.violations = append(a.violations, &ohmv1.Violation{
		Revision: int64(at), Law: law, Key: string(key), Detail: fmt.Sprintf(format, args...),
	})
}
