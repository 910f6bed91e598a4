package ml

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

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
	order []reconcile.Need // those that a group must have first, then the largest first, then by slot
	// least is how many of the needs must find a node now, and groups how many of these
	// groups at least. most is how many claims one transaction may hold, and nodes on how many
	// nodes; 0: no limit.
	least, most, nodes int
	groups             map[string]int
	awaits             bool  // a need would find its node among those with requests under way
	fit                int   // how many found a node when that was last tried, one after the other
	trial, calm        bool  // nothing is explained; nothing gives way
	nearby             *bool // see near
}

func newGang(r *place.Round, w schedulers.Work, limits cellstate.Limits) *gang {
	g := &gang{round: r, work: w, order: slices.Clone(w.Needs), least: len(w.Needs), most: limits.Claims, nodes: limits.Nodes}
	if of := w.Needs[0].Gang; of != nil {
		g.least, g.groups = of.Least, of.Groups
	}
	slices.SortStableFunc(g.order, func(a, b reconcile.Need) int {
		return r.Request(w.Job, b.Group).Size(r.Request(w.Job, a.Group))
	})
	if g.least < len(g.order) {
		g.order = mustFirst(g.order, g.groups)
	}
	return g
}

// mustFirst puts first, of each group, as many as it must have.
func mustFirst(order []reconcile.Need, groups map[string]int) []reconcile.Need {
	left := maps.Clone(groups)
	var must, may []reconcile.Need
	for _, n := range order {
		if left[n.Slot.Group] > 0 {
			left[n.Slot.Group]--
			must = append(must, n)
		} else {
			may = append(may, n)
		}
	}
	return append(must, may...)
}

// enough says whether the gang may have these claims and no more: for what else it has not.
func (g *gang) enough(claims []cellstate.Claim) bool {
	by := map[string]int{}
	for _, c := range claims {
		by[c.Slot.Group]++
	}
	for name, n := range g.groups {
		if by[name] < n {
			return false
		}
	}
	return len(claims) >= g.least
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
	case g.enough(claims) && g.wide(claims):
		g.round.Undo(mark)
		return g.pack()
	case len(claims) > 0 && g.enough(claims):
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
		return g.atomic(claims), g.others(claims)
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
	if len(claims) == 0 || !g.enough(claims) {
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
		claim, ok, awaits := search.Claim(need, !g.calm && i < g.least)
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

// search looks for nodes where the best node of one need takes another's only one: it goes
// back and tries others, within bounds; first those that differ, and then all nodes and all
// choices of devices. It looks for all needs and, if not all find one, for as many of each group
// as make up the least, and then for what else there is room for. nil: it found none.
func (g *gang) search() []cellstate.Claim {
	if claims := g.searchFor(g.order); claims != nil || g.least == len(g.order) {
		return claims
	}
	for needs := range g.parts() {
		claims := g.searchFor(needs)
		if claims == nil {
			continue
		}
		for _, need := range g.order {
			if slices.ContainsFunc(needs, func(n reconcile.Need) bool { return n.Slot == need.Slot }) || g.most > 0 && len(claims) == g.most {
				continue
			}
			if node, ok := g.round.Choose(g.request(need), nil); ok {
				claims = append(claims, g.round.Claim(g.work.Job, need, node))
			}
		}
		return claims
	}
	return nil
}

// parts yields, within bounds, the parts of the gang with which it may start: those of the least
// number first, and of these first what has the most of the first groups.
func (g *gang) parts() iter.Seq[[]reconcile.Need] {
	var groups []string
	of := map[string]int{}
	for _, n := range g.order {
		if of[n.Slot.Group]++; of[n.Slot.Group] == 1 {
			groups = append(groups, n.Slot.Group)
		}
	}
	return func(yield func([]reconcile.Need) bool) {
		tried := 0
		for size := g.least; size < len(g.order); size++ {
			take := map[string]int{}
			var next func(i, left int) bool
			next = func(i, left int) bool {
				if i == len(groups) {
					if left > 0 {
						return true
					}
					tried++
					return yield(g.part(take)) && tried < orders
				}
				for n := min(left, of[groups[i]]); n >= g.groups[groups[i]]; n-- {
					take[groups[i]] = n
					if !next(i+1, left-n) {
						return false
					}
				}
				return true
			}
			if !next(0, size) {
				return
			}
		}
	}
}

// part is so many needs of each group, in order.
func (g *gang) part(take map[string]int) (needs []reconcile.Need) {
	left := maps.Clone(take)
	for _, n := range g.order {
		if left[n.Slot.Group] > 0 {
			left[n.Slot.Group]--
			needs = append(needs, n)
		}
	}
	return needs
}

func (g *gang) searchFor(needs []reconcile.Need) []cellstate.Claim {
	mixed := slices.ContainsFunc(needs, func(n reconcile.Need) bool { // groups that ask for the same may have rules that differ
		return n.Slot.Group != needs[0].Slot.Group || g.request(n).Ruled()
	})
	if !mixed && len(needs) == len(g.order) || (g.most > 0 && len(needs) > g.most) {
		return nil
	}
	for _, need := range needs {
		if !g.round.Alone(g.request(need)) {
			return nil // it does not even fit alone
		}
	}
	if claims := g.within(needs, len(needs)+detours, options, false); claims != nil {
		return claims
	}
	nodes := max(1, g.round.Nodes())
	return g.within(needs, len(needs)+max(detours, thorough/nodes), max(options, thorough/nodes), true)
}

// within is a search that takes at most so many claims, and tries at most so many options
// for a task.
func (g *gang) within(needs []reconcile.Need, steps, options int, all bool) []cellstate.Claim {
	mark := g.round.Mark()
	var claims []cellstate.Claim
	var next func(i int) bool
	next = func(i int) bool {
		if i == len(needs) {
			return true
		}
		for _, option := range g.round.Options(g.request(needs[i]), options, all) {
			if steps--; steps < 0 {
				return false
			}
			here := g.round.Mark()
			claims = append(claims[:i], g.round.ClaimOption(g.work.Job, needs[i], option))
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
// groups of which all would have; these name the groups that they wait for.
func (g *gang) waitWhole(explained []schedulers.Unplaced, fit int) []schedulers.Unplaced {
	var all []schedulers.Unplaced
	for _, need := range g.work.Needs {
		all = g.round.Miss(all, need)
	}
	var short []string
	for _, e := range explained {
		short = append(short, e.Group)
	}
	for i := range all {
		u := &all[i]
		if at := slices.IndexFunc(explained, func(e schedulers.Unplaced) bool { return e.Group == u.Group }); at >= 0 {
			u.Reasons, u.NoVictims, u.NoVictimsCode = explained[at].Reasons, explained[at].NoVictims, explained[at].NoVictimsCode
			continue
		}
		u.Reasons = g.round.Explain(g.request(g.needOf(u.Group)), nil, &ohmv1.Reason{
			Reason: ReasonGang, Detail: fmt.Sprintf("has room for this group, which waits for %s: %d of %d tasks of the gang would fit", cmp.Or(groupsText(short), "the others"), fit, len(g.order)),
		})
	}
	return all
}

// namedGroups bounds the groups that a reason names.
const namedGroups = 3

func groupsText(names []string) string {
	if more := len(names) - namedGroups; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedGroups], ", "), more)
	}
	return strings.Join(names, ", ")
}

// others explains the needs that have no claim.
func (g *gang) others(claims []cellstate.Claim) (unplaced []schedulers.Unplaced) {
	for _, need := range g.order {
		if !slices.ContainsFunc(claims, func(c cellstate.Claim) bool { return c.Slot == need.Slot }) {
			unplaced = g.round.Miss(unplaced, need)
		}
	}
	for i := range unplaced {
		g.explain(&unplaced[i], len(claims))
	}
	return unplaced
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
