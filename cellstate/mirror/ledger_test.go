package mirror

import (
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
)

// What the ledger has dropped, because a snapshot shows it, must not be spent again on an
// older snapshot that another commit still has in its hands.
func TestLedgerGoesOnlyForward(t *testing.T) {
	cell := celltest.New(t, memstore.New())
	cell.Node(celltest.Node{Name: "n1"})
	cell.Job(celltest.Job{Name: "a", Count: 2, CPU: 1000})
	scope := celltest.Namespace("default")
	account := celltest.Account(scope, "test")
	cell.Quota(scope, celltest.CPU(1000))
	l := newLedger()
	cell.Share(account, celltest.CPU(1000))
	plan := func(s *cellstate.Snapshot) *cellstate.Plan {
		return &cellstate.Plan{Spends: map[int][]cellstate.Spend{0: {{
			Account: account, Share: s.Quota(scope).Share(account.Spender).Revision, Amounts: cellstate.Amounts{1000}}}}}
	}
	spends := func(s *cellstate.Snapshot) []*cellstate.Txn {
		return []*cellstate.Txn{celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, celltest.Name("a"), "main", 0), "n1"))}
	}

	before := cell.Snapshot()
	_, _, takes, _ := l.enter(before, before, spends(before), plan, true)
	if len(takes) != 1 {
		t.Fatalf("%d shares are to be taken over, want 1", len(takes))
	}
	cell.Write(takes[0])
	old := cell.Snapshot()
	_, entries, _, _ := l.enter(old, old, spends(old), plan, true)
	if left := l.left(old, account); left != 0 {
		t.Errorf("%d left beside what is under way", left)
	}
	cell.Place("a", 0, "n1")
	now := cell.Snapshot()
	l.settle(entries, []cellstate.Revision{now.Revision()}, nil)
	if left := l.left(old, account); left != 0 {
		t.Errorf("%d left on a snapshot that does not show it", left)
	}
	if _, _, _, horizon := l.enter(now, now, nil, plan, true); horizon != 0 {
		t.Fatalf("the newest snapshot is refused")
	}
	if p, _, _, horizon := l.enter(old, old, nil, plan, true); p != nil || horizon != now.Revision() {
		t.Errorf("an older snapshot was planned on")
	}
}

// left is what an account has left on a snapshot beside the entries.
func (l *ledger) left(s *cellstate.Snapshot, a cellstate.Account) int64 {
	copied := &ledger{entries: append([]*entry(nil), l.entries...)}
	left, _ := s.Beside(copied.unseen(s)).Left(a)
	return left[0]
}
