package schedulers

import (
	"fmt"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// budget is what this instance may still place under quotas on a snapshot, beside what it
// has in flight. It keeps off the policy what its shares do not pay for; what decides is
// the commit.
type budget struct {
	s        *cellstate.Snapshot
	spender  cellstate.Spender
	spending map[cellstate.Scope]cellstate.Amounts
	purses   map[string][]*purse // by namespace
	known    map[cellstate.Scope]*purse
}

// purse is what is left in one scope.
type purse struct {
	scope       cellstate.Scope
	limit, left cellstate.Amounts
}

// newBudget is nil where there are no quotas.
func (r *Runner) newBudget(s *cellstate.Snapshot) *budget {
	if !s.HasQuotas() {
		return nil
	}
	return &budget{s, r.spender(), r.spending, map[string][]*purse{}, map[cellstate.Scope]*purse{}}
}

func (r *Runner) spender() cellstate.Spender {
	return cellstate.Spender{Scheduler: r.Name, Instance: r.Instance}
}

// of are the purses that pay for what is placed in a namespace.
func (b *budget) of(namespace string) []*purse {
	if b == nil {
		return nil
	}
	purses, known := b.purses[namespace]
	if !known {
		for _, account := range b.s.Accounts(namespace, b.spender) {
			if b.known[account.Scope] == nil {
				b.known[account.Scope] = b.purse(account.Scope)
			}
			purses = append(purses, b.known[account.Scope])
		}
		b.purses[namespace] = purses
	}
	return purses
}

// purse works out what is left of a share. While others lack room it is not what is
// granted that counts but what is due.
func (b *budget) purse(scope cellstate.Scope) *purse {
	q := b.s.Quota(scope)
	share := q.Share(b.spender)
	may := share.Granted()
	if i := q.Number(b.spender); i >= 0 {
		if deal := b.s.Deal(q); deal.OthersLack(i) {
			may = may.Least(deal.Due[i])
		}
	}
	return &purse{scope, q.Limit(), may.Minus(share.Used).Minus(b.spending[scope])}
}

// covers says whether a cost is covered in a namespace.
func (b *budget) covers(namespace string, cost cellstate.Amounts) bool {
	for _, p := range b.of(namespace) {
		if cost.Short(p.left, p.limit) >= 0 {
			return false
		}
	}
	return true
}

// possible says whether the quotas of a namespace would cover a cost if all of them were
// this instance's.
func (b *budget) possible(namespace string, cost cellstate.Amounts) bool {
	for _, p := range b.of(namespace) {
		if cost.Short(p.limit, p.limit) >= 0 {
			return false
		}
	}
	return true
}

// take pays a cost, or says which purse does not cover it.
func (b *budget) take(namespace string, cost cellstate.Amounts) (short *purse) {
	for _, p := range b.of(namespace) {
		if cost.Short(p.left, p.limit) >= 0 {
			return p
		}
	}
	for _, p := range b.of(namespace) {
		p.left = p.left.Minus(cost)
	}
	return nil
}

// cost is what needs take together.
func cost(needs ...reconcile.Need) (sum cellstate.Amounts) {
	for _, n := range needs {
		sum = sum.Plus(cellstate.GroupAmounts(n.Group))
	}
	return sum
}

// affordable is the part of the work that the quotas leave room for; the rest is parked
// until they do. A gang is paid whole or not at all.
func (r *Runner) affordable(s *cellstate.Snapshot, work []Work) []Work {
	b := r.queue.budget
	if b == nil {
		return work
	}
	var out []Work
	for _, w := range work {
		e := r.queue.jobs[w.Job.Name]
		parked := false
		pay := func(needs ...reconcile.Need) bool {
			c := cost(needs...)
			short := b.take(w.Job.Name.Namespace, c)
			if short != nil {
				parked = true
				for _, n := range needs {
					e.parkForQuota(n, s.Revision(), r.Clock(), r.Times.Sweep, c, short)
				}
			}
			return short == nil
		}
		var kept []reconcile.Need
		if gang(w.Job) {
			if pay(w.Needs...) {
				kept = w.Needs
			}
		} else {
			for _, n := range w.Needs {
				if pay(n) {
					kept = append(kept, n)
				}
			}
		}
		if parked {
			e.say()
		}
		if len(kept) > 0 {
			out = append(out, Work{Job: w.Job, Needs: kept})
		}
	}
	return out
}

// parkForQuota parks a need that a purse does not cover; cost is its own, or its gang's.
func (e *entry) parkForQuota(n reconcile.Need, at cellstate.Revision, now time.Time, sweep time.Duration, cost cellstate.Amounts, short *purse) {
	e.park([]cellstate.Slot{n.Slot}, at, now.Add(sweep))
	p := e.parked[n.Slot]
	p.cost = cost
	e.parked[n.Slot] = p
	if e.refusals == nil {
		e.refusals = map[string]refusal{}
	}
	e.problem = ""
	word := short.refusal(cost, gang(e.job))
	word.since = e.since(n.Slot.Group, now)
	e.refusals[n.Slot.Group] = word
}

// refusal says why a cost is not covered. It names no amounts that change all the time.
func (p *purse) refusal(cost cellstate.Amounts, together bool) refusal {
	d, never := cost.Short(p.limit, p.limit), true
	if d < 0 {
		d, never = cost.Short(p.left, p.limit), false
	}
	each := "each"
	if together {
		each = "together"
	}
	wants := fmt.Sprintf("asking for %s %s %s of a quota of %s", cellstate.AmountText(d, cost[d]), cellstate.DimensionName(d), each, cellstate.AmountText(d, p.limit[d]))
	text := fmt.Sprintf("waiting for the quota of %s: %s, the rest is taken", p.scope, wants)
	if never {
		text = fmt.Sprintf("can never run under the quota of %s: %s", p.scope, wants)
	}
	return refusal{quota: text, reasons: []*ohmv1.Reason{{
		Reason: string(cellstate.ReasonQuota), Dimension: cellstate.DimensionName(d) + " of " + p.scope.String(), Detail: text,
	}}}
}

// spend notes what transactions spend while they are in flight.
func (r *Runner) spend(s *cellstate.Snapshot, txns []*cellstate.Txn) map[cellstate.Scope]cellstate.Amounts {
	if !s.HasQuotas() {
		return nil
	}
	spends := map[cellstate.Scope]cellstate.Amounts{}
	for _, t := range txns {
		for i := range t.Claims {
			for _, a := range s.Accounts(t.Claims[i].Slot.Namespace, r.spender()) {
				spends[a.Scope] = spends[a.Scope].Plus(t.Claims[i].Amounts())
			}
		}
	}
	for scope, amounts := range spends {
		r.spending[scope] = r.spending[scope].Plus(amounts)
	}
	return spends
}

// unspend forgets what has landed: from now on the snapshot shows it.
func (r *Runner) unspend(spends map[cellstate.Scope]cellstate.Amounts) {
	for scope, amounts := range spends {
		if r.spending[scope] = r.spending[scope].Minus(amounts); r.spending[scope] == (cellstate.Amounts{}) {
			delete(r.spending, scope)
		}
	}
}
