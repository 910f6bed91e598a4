package mirror

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
)

// ledger knows what this process spends of quotas and its snapshot does not show yet: a
// share's record says what may be spent, the snapshot what is, and two requests under way
// together are nobody's business but their sender's.
//
// An entry counts until the snapshot shows the write, or the write is known not to have
// applied, or the share has another revision than the write compared: then it shows
// already, or never will. The last one settles requests of which nobody knows the fate: the
// ledger puts the share again. It does the same before it spends a share for the first
// time, and puts its own name there, so that neither a request that a process of the same
// instance has left behind, nor that process if it lives, spends it meanwhile.
type ledger struct {
	holder string

	mu          sync.Mutex // guards what follows
	incarnation string
	horizon     cellstate.Revision // of the newest snapshot that entries were dropped by
	entries     []*entry
}

// entry is what one write spends of one account.
type entry struct {
	cellstate.Spend
	write   int
	at      cellstate.Revision // at which the write applied; 0: it is under way
	unknown bool               // nobody knows whether it applied, or will
}

func newLedger() *ledger { return &ledger{holder: ulid.Make().String()} }

// takeovers bounds how often one plan takes shares over before it does without them.
const takeovers = 4

// plan makes a plan on a snapshot at least as new as s, and enters what it spends. Where
// there are no quotas it is MakePlan. The plan's entries must be settled.
func (m *Mirror) plan(ctx context.Context, s *cellstate.Snapshot, txns []*cellstate.Txn, decide func(*cellstate.Snapshot) *cellstate.Plan) (*cellstate.Plan, []*entry, error) {
	for round := 0; ; round++ {
		if !s.HasQuotas() {
			return decide(s), nil, nil
		}
		plan, entries, takes, horizon := m.ledger.enter(m.Snapshot(), s, txns, decide, round < takeovers)
		if plan != nil {
			return plan, entries, nil
		}
		for _, w := range takes {
			out, err := m.store.Commit(ctx, w)
			if err != nil && !errors.Is(err, cellstate.ErrUnknown) {
				return nil, nil, err
			}
			horizon = max(horizon, out.Revision)
		}
		var err error
		if s, err = m.WaitSnapshot(ctx, horizon); err != nil {
			return nil, nil, err
		}
	}
}

// enter plans on the newer one of two snapshots. Instead it may say that shares must be
// taken over first, by which writes, or that a newer snapshot is needed.
func (l *ledger) enter(latest, s *cellstate.Snapshot, txns []*cellstate.Txn, decide func(*cellstate.Snapshot) *cellstate.Plan, take bool) (*cellstate.Plan, []*entry, []cellstate.Write, cellstate.Revision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if latest.Revision() > s.Revision() || latest.Incarnation() != s.Incarnation() {
		s = latest
	}
	if s.Incarnation() != l.incarnation { // what was sent to another one can never apply
		l.incarnation, l.horizon, l.entries = s.Incarnation(), 0, nil
	}
	if s.Revision() < l.horizon {
		return nil, nil, nil, l.horizon
	}
	spent := l.unseen(s)
	var writes []cellstate.Write
	for account, share := range l.foreign(s, txns) {
		if !take { // somebody else keeps taking it: there is nothing to spend
			spent[account] = cellstate.Amounts{math.MaxInt32, math.MaxInt64 / 4, math.MaxInt64 / 4, math.MaxInt32}
			continue
		}
		record := proto.CloneOf(share.Record)
		record.Holder = l.holder
		record.Renewals++
		writes = append(writes, cellstate.Write{Records: []cellstate.Record{{Key: cellstate.ShareKey(account), Value: record, Read: share.Revision}}})
	}
	if len(writes) > 0 {
		return nil, nil, writes, s.Revision()
	}
	plan := decide(s.Beside(spent))
	var entries []*entry
	for w, spends := range plan.Spends {
		for _, spend := range spends {
			entries = append(entries, &entry{Spend: spend, write: w})
		}
	}
	l.entries = append(l.entries, entries...)
	return plan, entries, nil, 0
}

// unseen drops the entries that no longer count, and sums up the others.
func (l *ledger) unseen(s *cellstate.Snapshot) cellstate.Spending {
	l.horizon = s.Revision()
	spent := cellstate.Spending{}
	kept := l.entries[:0]
	for _, e := range l.entries {
		if shareOf(s, e.Account).Revision != e.Share || e.at > 0 && e.at <= s.Revision() {
			continue
		}
		kept = append(kept, e)
		spent[e.Account] = spent[e.Account].Plus(e.Amounts)
	}
	clear(l.entries[len(kept):])
	l.entries = kept
	return spent
}

func shareOf(s *cellstate.Snapshot, a cellstate.Account) *cellstate.Share {
	if q := s.Quota(a.Scope); q != nil {
		return q.Share(a.Spender)
	}
	return &cellstate.Share{}
}

// foreign are the shares that the transactions are paid from and that this process must
// take over: another one holds them, or a request of unknown fate may still spend them.
func (l *ledger) foreign(s *cellstate.Snapshot, txns []*cellstate.Txn) map[cellstate.Account]*cellstate.Share {
	unknown := map[cellstate.Account]bool{}
	for _, e := range l.entries {
		if e.unknown {
			unknown[e.Account] = true
		}
	}
	out := map[cellstate.Account]*cellstate.Share{}
	for _, t := range txns {
		namespace := ""
		for i := range t.Claims {
			if t.Claims[i].Slot.Namespace == namespace {
				continue
			}
			namespace = t.Claims[i].Slot.Namespace
			for _, account := range s.Accounts(namespace, cellstate.Spender{Scheduler: t.Scheduler, Instance: t.Instance}) {
				share := shareOf(s, account)
				if share.Record != nil && (share.Record.GetHolder() != l.holder || unknown[account]) {
					out[account] = share
				}
			}
		}
	}
	return out
}

// settle notes what became of a plan's writes. An error other than ErrUnknown says that
// nothing was applied.
func (l *ledger) settle(entries []*entry, applied []cellstate.Revision, err error) {
	if len(entries) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := map[*entry]bool{}
	for _, e := range entries {
		switch {
		case errors.Is(err, cellstate.ErrUnknown):
			e.unknown = true
		case err == nil && applied[e.write] > 0:
			e.at = applied[e.write]
		default:
			gone[e] = true
		}
	}
	kept := l.entries[:0]
	for _, e := range l.entries {
		if !gone[e] {
			kept = append(kept, e)
		}
	}
	clear(l.entries[len(kept):])
	l.entries = kept
}
