package ml

import (
	"fmt"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place"
)

// Bounds of the search over domains: of those that have too little room so many are asked how
// many tasks they would take, and so many domains whether others would give way there.
const (
	fragments = 3
	evictOver = 16
)

// fragment is a domain and how many of the gang's tasks would fit there.
type fragment struct {
	domain string
	fit    int
	starts bool // they are enough to start with
}

// placeWithin places the gang in one domain of a label, such as a rack, where its job asks for
// that: in the tightest that takes it whole. Where it prefers that and none does, anywhere.
func (g *gang) placeWithin() (*cellstate.Txn, []schedulers.Unplaced) {
	spec := g.work.Job.Record.GetSpec().GetGang()
	if label := spec.GetPreferWithin(); label != "" {
		if txn, _, _ := g.whole(label, false); txn != nil {
			return txn, nil
		}
	}
	label := spec.GetWithin()
	if label == "" {
		return g.placeOrdered()
	}
	txn, best, awaits := g.whole(label, true)
	switch {
	case txn != nil:
		return txn, nil
	case awaits && !best.starts:
		return nil, nil
	case best.domain == "":
		return g.placeOrdered()
	}
	defer g.round.Confine(g.work, label, best.domain, fmt.Sprintf(
		"%s %s takes most of it: %d of %d tasks", label, best.domain, best.fit, len(g.order)))()
	return g.placeOrdered()
}

// whole places the gang whole in one domain of a label: first where nothing has to give way,
// in the one with the least room, and then, if it may, where others do. Else it says which domain
// takes the most of it, and whether that may change once the requests under way are answered.
func (g *gang) whole(label string, evict bool) (txn *cellstate.Txn, best fragment, awaits bool) {
	domains := g.round.Domains(g.work, label)
	where := g.stands(label)
	if where != nil { // the others follow those that live
		domains = slices.DeleteFunc(domains, func(d place.Domain) bool { return !slices.Contains(where, d.Name) })
	}
	g.trial, g.calm = true, true
	defer func() { g.trial, g.calm = false, false }()
	asked := 0
	for _, d := range domains {
		if !d.Room {
			enough := best.starts || best.fit > 0 && g.least == len(g.order) // one with less may yet take the minimum
			if asked++; asked > fragments || enough {
				break
			}
		}
		txn, at := g.wholeIn(label, d.Name)
		if txn != nil {
			return txn, best, false
		}
		awaits = awaits || g.awaits
		if best.domain == "" || at.starts && !best.starts || at.starts == best.starts && at.fit > best.fit {
			best = at
		}
	}
	if !evict || !g.round.MayEvict(g.work) {
		return nil, best, awaits
	}
	if where == nil {
		where = mostFirst(domains, g.round.DomainNames(label))
	}
	g.calm = false
	for _, name := range where[:min(len(where), evictOver)] {
		if txn, _ := g.wholeIn(label, name); txn != nil {
			return txn, best, false
		}
	}
	return nil, best, awaits
}

// mostFirst orders the names of domains: those that have a node for a task of the gang by what
// they have free, and then the others.
func mostFirst(domains []place.Domain, names []string) []string {
	var order []string
	for _, d := range domains {
		if d.Room { // of these the one with the least is first
			order = append(order, d.Name)
		}
	}
	slices.Reverse(order)
	for _, d := range domains[len(order):] {
		order = append(order, d.Name)
	}
	for _, name := range names {
		if !slices.Contains(order[:len(domains)], name) {
			order = append(order, name)
		}
	}
	return order
}

// wholeIn places the gang whole in one domain; else nothing of it stays.
func (g *gang) wholeIn(label, domain string) (*cellstate.Txn, fragment) {
	defer g.round.Confine(g.work, label, domain, "")()
	mark := g.round.Mark()
	txn, unplaced := g.placeOrdered()
	if txn != nil && len(unplaced) == 0 {
		return txn, fragment{}
	}
	g.round.Undo(mark)
	at := fragment{domain: domain, fit: g.fit, starts: txn != nil}
	if txn != nil {
		at.fit = len(txn.Claims)
	}
	return nil, at
}

// stands are the domains in which members of the gang live; nil: none does.
func (g *gang) stands(label string) (domains []string) {
	for _, t := range g.work.Job.Tasks {
		if t.Placement == nil {
			continue
		}
		if d, ok := g.round.DomainOf(label, cellstate.NodeName(t.Placement.GetNode())); ok && !slices.Contains(domains, d) {
			domains = append(domains, d)
		}
	}
	return domains
}
