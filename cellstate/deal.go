package cellstate

import (
	"cmp"
	"slices"
)

// Deal is how a quota is to be shared out, by the numbers of its Shares: the same answer
// for everybody who has the same snapshot, so that the keeper which raises shares and the
// owners who give back agree without asking each other.
type Deal struct {
	// Due is what each may hold: what it uses, and what it is given of what it wants.
	Due []Amounts
	// Waits says who wants more than its share; Lacks, who wants more than that and what is
	// free together, so that others must give back.
	Waits, Lacks []bool
	// Free is what nobody uses or is granted.
	Free Amounts
}

// steps bounds the units in which one instance's wants are dealt out.
const steps = 64

// Deal deals the quota out. Unit by unit it serves who holds least for now, in its largest
// part of the limit, and of equals who has waited longest. For who comes next and finds too
// little left, that is kept from the others until what they give back adds up: so a claim
// larger than any share gathers its room, and nobody is starved by many small ones. Who
// has no registration wants nothing.
func (s *Snapshot) Deal(q *Quota) Deal {
	limit := q.Limit()
	d := Deal{Due: make([]Amounts, len(q.Shares)), Waits: make([]bool, len(q.Shares)), Lacks: make([]bool, len(q.Shares)), Free: limit.Minus(q.Held())}
	rest := limit.Minus(q.Used())
	var parties []*party
	for i, share := range q.Shares {
		d.Due[i] = share.Used
		if p := newParty(i, share, limit); p != nil && s.Registered(share.Spender) {
			parties = append(parties, p)
			left := share.Granted().Minus(share.Used)
			d.Waits[i] = p.left.Short(left, limit) >= 0
			d.Lacks[i] = p.left.Short(left.Plus(d.Free), limit) >= 0
		}
	}
	for len(parties) > 0 {
		p := slices.MinFunc(parties, func(a, b *party) int {
			return cmp.Or(cmp.Compare(part(d.Due[a.i], limit), part(d.Due[b.i], limit)),
				cmp.Compare(a.since, b.since), a.spender.compare(b.spender))
		})
		give := p.unit(rest, limit)
		served := give != (Amounts{})
		if !served {
			rest = rest.Minus(p.next)
		}
		d.Due[p.i], rest, p.left = d.Due[p.i].Plus(give), rest.Minus(give), p.left.Minus(give)
		if !served || p.next.Least(p.left) == (Amounts{}) {
			parties = slices.DeleteFunc(parties, func(x *party) bool { return x == p })
		}
	}
	return d
}

// OthersLack says whether anybody but the i-th lacks something.
func (d Deal) OthersLack(i int) bool {
	for j, lacks := range d.Lacks {
		if lacks && j != i {
			return true
		}
	}
	return false
}

// party is an instance that wants more.
type party struct {
	i       int
	spender Spender
	since   int64
	next    Amounts // what it needs at once
	left    Amounts // of what it wants
	times   int64   // how many units it is given at once
}

// newParty is nil if nothing is wanted that the limit allows.
func newParty(i int, share *Share, limit Amounts) *party {
	wants := AmountsOf(share.Record.GetWanted())
	next := AmountsOf(share.Record.GetNext()).Least(wants)
	if next == (Amounts{}) || next.Short(limit, limit) >= 0 {
		return nil
	}
	times := int64(1) // so many that it takes few steps
	for d, n := range next {
		if n > 0 && limit[d] != Unlimited {
			times = max(times, min(wants[d], limit[d])/n/steps)
		}
	}
	return &party{i, share.Spender, share.Record.GetSince(), next, wants, times}
}

// unit is what the party is given next: nothing if what it needs at once does not fit.
func (p *party) unit(rest, limit Amounts) Amounts {
	for ; p.times > 0; p.times /= 2 {
		if give := (Amounts{}).times(p.next, p.times).Least(p.left); give.Short(rest, limit) < 0 {
			return give
		}
	}
	return Amounts{}
}

// part is the largest part of a limit that amounts take, in millionths.
func part(a, limit Amounts) int64 {
	most := 0.0
	for d := range a {
		if limit[d] > 0 {
			most = max(most, float64(a[d])/float64(limit[d]))
		}
	}
	return int64(most * 1e6)
}
