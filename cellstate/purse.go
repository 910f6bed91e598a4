package cellstate

// Spending is what accounts have spent that a snapshot does not show yet: claims on their
// way to the store, and those that were committed after its revision.
type Spending map[Account]Amounts

// Beside is the snapshot with spending on top of what it shows as used.
func (s *Snapshot) Beside(spent Spending) *Snapshot {
	copied := *s
	copied.unseen = spent
	return &copied
}

// Spend is what a write spends of one account, and the revision of the share that it
// compares: once the share has another one, the write either shows or will never apply.
type Spend struct {
	Account Account
	Share   Revision
	Amounts Amounts
}

// purse is what an account has left while transactions are judged.
type purse struct {
	account  Account
	revision Revision // of the share
	limit    Amounts
	left     Amounts
}

func newPurse(s *Snapshot, q *Quota, spender Spender) *purse {
	share, account := q.Share(spender), Account{q.Scope, spender}
	return &purse{account, share.Revision, q.Limit(), share.Granted().Minus(share.Used).Minus(s.unseen[account])}
}

// Left is what an account may still spend, and whether anything of it is limited.
func (s *Snapshot) Left(a Account) (left Amounts, limited bool) {
	q := s.Quota(a.Scope)
	if q == nil || !q.limits() {
		return left, false
	}
	return newPurse(s, q, a.Spender).left, true
}

// Accounts are those that limit what a spender places in a namespace.
func (s *Snapshot) Accounts(namespace string, spender Spender) []Account {
	var accounts []Account
	if s.quotas > 0 {
		for _, scope := range scopes(namespace, spender.Scheduler) {
			if q := s.Quota(scope); q != nil && q.limits() {
				accounts = append(accounts, Account{scope, spender})
			}
		}
	}
	return accounts
}

// purses are those that a claim is paid from: none where there are no quotas, or in a
// what-if of a policy, which does not know for which instance it decides.
func (v *validator) purses(txn *Txn, c *Claim) (of [2]*purse) {
	if v.snapshot == nil || v.snapshot.quotas == 0 || txn.Instance == "" && !v.commits {
		return of
	}
	if v.money == nil {
		v.money = map[Account]*purse{}
	}
	spender := Spender{txn.Scheduler, txn.Instance}
	for i, scope := range scopes(c.Slot.Namespace, txn.Scheduler) {
		account := Account{scope, spender}
		p, known := v.money[account]
		if !known {
			if q := v.snapshot.Quota(scope); q != nil && q.limits() {
				p = newPurse(v.snapshot, q, spender)
			}
			v.money[account] = p
		}
		of[i] = p
	}
	return of
}

// judgeQuota judges a claim by the shares of the instance that makes it.
func (v *validator) judgeQuota(txn *Txn, i int) *Conflict {
	for _, p := range v.purses(txn, &txn.Claims[i]) {
		if p == nil {
			continue
		}
		wants := txn.Claims[i].Amounts()
		if d := wants.Short(p.left, p.limit); d >= 0 {
			return &Conflict{Claim: i, Reason: ReasonQuota, Dimension: DimensionName(d) + " of " + p.account.Scope.String(),
				Wanted: AmountText(d, wants[d]), Free: AmountText(d, max(0, p.left[d]))}
		}
	}
	return nil
}

// pay takes what a claim costs from its purses, times 1, or gives it back, times -1.
func (v *validator) pay(txn *Txn, c *Claim, times int64) {
	for _, p := range v.purses(txn, c) {
		if p != nil {
			p.left = p.left.times(c.Amounts(), -times)
		}
	}
}

// Amounts are what the claim takes of a quota.
func (c *Claim) Amounts() Amounts { return amountsOf(c.Resources, c.GPUs) }

// spend has a write compare the shares that a claim is paid from, and notes what it costs.
func (p *planner) spend(w int, txn *Txn, c *Claim) {
	for _, purse := range p.valid.purses(txn, c) {
		if purse == nil {
			continue
		}
		if p.Spends == nil {
			p.Spends = map[int][]Spend{}
		}
		spends := p.Spends[w]
		i := 0
		for i < len(spends) && spends[i].Account != purse.account {
			i++
		}
		if i == len(spends) {
			spends = append(spends, Spend{Account: purse.account, Share: purse.revision})
			p.Writes[w].Guards = append(p.Writes[w].Guards, Guard{Key: ShareKey(purse.account), Revision: purse.revision})
		}
		spends[i].Amounts = spends[i].Amounts.Plus(c.Amounts())
		p.Spends[w] = spends
	}
}
