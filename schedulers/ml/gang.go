package ml

import (
	"fmt"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// gang is a job on its way to its nodes.
type gang struct {
	round *place.Round
	work  schedulers.Work
	order []reconcile.Need // largest first, then by slot
	// least is how many of the needs must find a node now: the gang's minimum less what
	// lives already. most is how many claims one transaction may hold, and nodes on how many
	// nodes; 0: no limit.
	least, most, nodes int
	awaits             bool  // a need would find its node among those with requests under way
	fit                int   // how many found a node when that was last tried, one after the other
	trial, calm        bool  // nothing is explained; nothing gives way
	nearby             *bool // see near
}

func newGang(r *place.Round, w schedulers.Work, limits cellstate.Limits) *gang {
	g := &gang{round: r, work: w, order: slices.Clone(w.Needs), least: len(w.Needs), most: limits.Claims, nodes: limits.Nodes}
	slices.SortStableFunc(g.order, func(a, b reconcile.Need) int {
		return r.Request(w.Job, b.Group).Size(r.Request(w.Job, a.Group))
	})
	if smallest := int(w.Job.Record.GetSpec().GetGang().GetMin()); smallest > 0 {
		live := 0
		for _, t := range w.Job.Tasks {
			if t.Placement != nil {
				live++
			}
		}
		g.least = min(g.least, max(0, smallest-live))
	}
	return g
}

// place claims nodes for the gang: for all of its needs or, if not all find one, for as
// many as do, but for no less than the least; the best nodes or, where those are more than
// the store takes in one transaction, few. A gang that waits whole, and might not once the
// requests under way are answered, is not explained.
func (g *gang) place() (*cellstate.Txn, []schedulers.Unplaced) {
	mark := g.round.Mark()
	claims, unplaced, later := g.greedy()
	g.fit = len(claims)
	switch {
	case len(claims) >= g.least && g.wide(claims):
		g.round.Undo(mark)
		return g.pack()
	case len(claims) > 0 && len(claims) >= g.least:
		for i := range unplaced {
			g.explain(&unplaced[i], len(claims))
		}
		return g.atomic(claims), g.limited(unplaced, later, fmt.Sprintf(
			"%d tasks of the gang start now, as many as the store takes in one transaction; the others follow", g.most))
	case g.least == 0:
		for i := range unplaced {
			g.explain(&unplaced[i], 0)
		}
		return nil, unplaced
	}
	fit := len(claims)
	for i := range unplaced {
		if !g.awaits {
			g.explain(&unplaced[i], fit) // beside those of the gang that would fit
		}
	}
	g.round.Undo(mark)
	if claims := g.search(); claims != nil {
		if g.wide(claims) {
			g.round.Undo(mark)
			return g.pack()
		}
		return g.atomic(claims), nil
	}
	if g.awaits || g.trial {
		return nil, nil
	}
	return nil, g.waitWhole(unplaced, fit)
}

// wide says whether claims are on more nodes than the store takes in one transaction.
func (g *gang) wide(claims []cellstate.Claim) bool {
	nodes := map[cellstate.NodeName]bool{}
	for _, c := range claims {
		nodes[c.Node] = true
	}
	return g.nodes > 0 && len(nodes) > g.nodes
}

// pack claims as few nodes as it can for a gang that has room on more than the store
// takes in one transaction.
func (g *gang) pack() (*cellstate.Txn, []schedulers.Unplaced) {
	needs := g.order
	if g.most > 0 {
		needs = needs[:min(g.most, len(needs))]
	}
	mark := g.round.Mark()
	claims, left := g.round.Pack(g.work.Job, needs, g.nodes)
	if len(claims) < max(1, g.least) {
		g.round.Undo(mark)
		return nil, g.limited(nil, g.work.Needs, fmt.Sprintf(
			"the store takes an atomic commit over at most %d nodes, on which %d of %d tasks of the gang would fit; on more nodes all would",
			g.nodes, len(claims), g.least))
	}
	return g.atomic(claims), g.limited(nil, append(left, g.order[len(needs):]...), fmt.Sprintf(
		"%d tasks of the gang start now, as many as fit on the %d nodes that the store takes in one transaction; the others follow", len(claims), g.nodes))
}

// atomic is the transaction of a gang's claims. Those of a gang of which groups are to be near
// each other stay in the order in which they were made: the commit judges one after the other.
func (g *gang) atomic(claims []cellstate.Claim) *cellstate.Txn {
	if g.near() {
		return &cellstate.Txn{Mode: cellstate.Atomic, Claims: claims}
	}
	slices.SortFunc(claims, func(a, b cellstate.Claim) int { return a.Slot.Compare(b.Slot) })
	return &cellstate.Txn{Mode: cellstate.Atomic, Claims: claims}
}

// greedy gives each need in turn the best node or, up to the least, where there is none one
// on which others give way. For a gang of identical tasks nothing finds room for more. What
// awaits a node is not among the unplaced; later are the needs beyond what one transaction
// holds.
func (g *gang) greedy() (claims []cellstate.Claim, unplaced []schedulers.Unplaced, later []reconcile.Need) {
	search := g.round.Search(g.work.Job, func(q *place.Request, _ reconcile.Need) (node int, ok bool) { return g.round.Choose(q, nil) })
	for i, need := range g.order {
		if g.most > 0 && len(claims) == g.most {
			later = g.order[i:]
			break
		}
		claim, ok, awaits := search.Claim(need, !g.calm && len(claims) < g.least)
		switch {
		case ok:
			claims = append(claims, claim)
		case !awaits:
			unplaced = g.round.Miss(unplaced, need)
		}
	}
	search.Tell(unplaced)
	g.awaits = search.Awaits
	return claims, unplaced, later
}

// options is how many kinds of node a search tries for one task at first; detours is how
// many claims it may take beyond one for each task. The search that leaves nothing out may
// take more where they are cheap: so many that it looks at a node thorough times.
const (
	options  = 8
	detours  = 64
	thorough = 1 << 15
)

// search looks for nodes for all needs where the best node of one takes another's only
// one: it goes back and tries others, within bounds; first those that differ, and then all
// nodes and all choices of devices. nil: it found none.
func (g *gang) search() []cellstate.Claim {
	mixed := slices.ContainsFunc(g.order, func(n reconcile.Need) bool { // groups that ask for the same may have rules that differ
		return n.Slot.Group != g.order[0].Slot.Group || g.request(n).Ruled()
	})
	if !mixed || (g.most > 0 && len(g.order) > g.most) {
		return nil
	}
	for _, need := range g.order {
		if !g.round.Alone(g.request(need)) {
			return nil // it does not even fit alone
		}
	}
	if claims := g.within(len(g.order)+detours, options, false); claims != nil {
		return claims
	}
	nodes := max(1, g.round.Nodes())
	return g.within(len(g.order)+max(detours, thorough/nodes), max(options, thorough/nodes), true)
}

// within is a search that takes at most so many claims, and tries at most so many options
// for a task.
func (g *gang) within(steps, options int, all bool) []cellstate.Claim {
	mark := g.round.Mark()
	var claims []cellstate.Claim
	var next func(i int) bool
	next = func(i int) bool {
		if i == len(g.order) {
			return true
		}
		for _, option := range g.round.Options(g.request(g.order[i]), options, all) {
			if steps--; steps < 0 {
				return false
			}
			here := g.round.Mark()
			claims = append(claims[:i], g.round.ClaimOption(g.work.Job, g.order[i], option))
			if next(i + 1) {
				return true
			}
			g.round.Undo(here)
		}
		return false
	}
	if next(0) {
		return claims
	}
	g.round.Undo(mark)
	return nil
}

func (g *gang) request(n reconcile.Need) *place.Request {
	return g.round.Request(g.work.Job, n.Group)
}

// explain gives an unplaced group its reasons on the present overlay.
func (g *gang) explain(u *schedulers.Unplaced, fit int) {
	if g.trial {
		return
	}
	u.Reasons = g.round.Explain(g.request(g.needOf(u.Group)), nil, &ohmv1.Reason{})
	if len(u.Reasons) > 0 {
		u.Reasons[0].Detail = fmt.Sprintf("%d of %d tasks of the gang would fit; %s", fit, len(g.order), u.Reasons[0].Detail)
	}
}

// waitWhole adds to the explained groups the slots that would have fitted, and the
// groups of which all would have.
func (g *gang) waitWhole(explained []schedulers.Unplaced, fit int) []schedulers.Unplaced {
	var all []schedulers.Unplaced
	for _, need := range g.work.Needs {
		all = g.round.Miss(all, need)
	}
	for i := range all {
		u := &all[i]
		if at := slices.IndexFunc(explained, func(e schedulers.Unplaced) bool { return e.Group == u.Group }); at >= 0 {
			u.Reasons, u.NoVictims, u.NoVictimsCode = explained[at].Reasons, explained[at].NoVictims, explained[at].NoVictimsCode
			continue
		}
		u.Reasons = g.round.Explain(g.request(g.needOf(u.Group)), nil, &ohmv1.Reason{
			Reason: ReasonGang, Detail: fmt.Sprintf("has room for this group, which waits for the others: %d of %d tasks of the gang would fit", fit, len(g.order)),
		})
	}
	return all
}

// limited adds slots that only the store's limit keeps from their nodes.
func (g *gang) limited(unplaced []schedulers.Unplaced, needs []reconcile.Need, why string) []schedulers.Unplaced {
	for _, need := range needs {
		unplaced = g.round.Miss(unplaced, need)
	}
	for i := range unplaced {
		if u := &unplaced[i]; u.Reasons == nil && u.Nodes > 0 {
			u.Reasons = []*ohmv1.Reason{{Reason: ReasonLimit, Nodes: int32(u.Nodes), Detail: why}}
		}
	}
	return unplaced
}

func (g *gang) needOf(group string) reconcile.Need {
	i := slices.IndexFunc(g.order, func(n reconcile.Need) bool { return n.Slot.Group == group })
	return g.order[i]
}
