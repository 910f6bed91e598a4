package place

import (
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Rules wants a node where a task keeps to the required rules between tasks, its group's and
// those of others about it.
type Rules struct{}

func (Rules) Name() string { return string(cellstate.ReasonRule) }
func (Rules) Check(r *Request, c *Candidate) (string, bool) {
	if len(r.rules) == 0 {
		return "", true
	}
	i := r.round.t.index[c.Node.Name]
	for _, g := range r.rules {
		if g.Required && g.refuses(i) {
			return g.Text(), false
		}
	}
	return "", true
}

// ruling is a rule between tasks with the counts that it is about: what stands, and what
// this round has claimed. It is worked out once a round, and kept by the claims.
type ruling struct {
	*cellstate.Concern
	*counts

	verdict []int32 // by domain, the first of no domain: refused, or the price
	of      uint64  // the moves that it is of
	judged  int32   // the fewest that it is of

	note string // for people, in place of the counts: of a confinement
}

// refused is the verdict on a domain that a required rule keeps tasks off.
const refused = -1

// counts are those of a rule, by domain, the same for all that it concerns in a round.
type counts struct {
	column   *column
	stands   []int32 // of those that the rule selects: before this round
	selected []int32
	owners   []int32
	open     []bool  // of a rule to spread: the domain has a node that may be given a task
	share    []int32 // of one with shares: the most there may be
	all      int     // selected
	moved    uint64  // counts the changes
	last     int32   // the domain that changed last
	fewest   int32   // selected in an open domain; below 0: to be worked out
	atFewest int32   // open domains with so few
}

// column is a label or attribute of the candidates: their domains, by number.
type column struct {
	key    string
	of     []int32 // by candidate; below 0: it has none
	number map[string]int32
	names  []string
}

const noDomain = -1

// column is that of a key, kept until nodes come, go or change.
func (t *Table) column(key string) *column {
	if c := t.columns[key]; c != nil {
		return c
	}
	c := &column{key: key, of: make([]int32, len(t.candidates)), number: map[string]int32{}}
	for i := range t.candidates {
		c.of[i] = noDomain
		value, ok := t.candidates[i].Node.Label(key)
		if !ok {
			continue
		}
		n, known := c.number[value]
		if !known {
			n = int32(len(c.names))
			c.number[value], c.names = n, append(c.names, value)
		}
		c.of[i] = n
	}
	if t.columns == nil {
		t.columns = map[string]*column{}
	}
	t.columns[key] = c
	return c
}

// rulings are the rules that concern the tasks of a job's group; nil for most.
func (r *Round) rulings(job *cellstate.Job, g *ohmv1.Group) (of []ruling) {
	spec := job.Record.GetSpec()
	for _, c := range r.t.snapshot.Concerns(spec, g) {
		id := c.ID()
		if c.Kind == cellstate.Together && !c.Owns && !c.Fenced {
			continue // it is about others than these, which do not see what comes with them
		}
		k := r.counts[id]
		if k == nil {
			k = r.newCounts(c, spec, g, job.VersionOf(g.GetName()))
			if r.counts == nil {
				r.counts = map[string]*counts{}
			}
			r.counts[id] = k
		}
		of = append(of, ruling{Concern: c, counts: k})
	}
	return of
}

func (r *Round) newCounts(c *cellstate.Concern, spec *ohmv1.JobSpec, g *ohmv1.Group, version int64) *counts {
	column := r.t.column(c.Within)
	n := len(column.names)
	k := &counts{column: column, stands: make([]int32, n), selected: make([]int32, n), owners: make([]int32, n), fewest: -1}
	tally := r.t.snapshot.Tally(c, spec, version)
	for d, tasks := range tally.Selected {
		k.stands[column.number[d]], k.selected[column.number[d]] = int32(tasks), int32(tasks)
		k.all += tasks
	}
	for d, tasks := range tally.Owners {
		k.owners[column.number[d]] = int32(tasks)
	}
	if c.Kind == cellstate.Spread {
		k.open = make([]bool, n)
		for d := range tally.Domains {
			k.open[column.number[d]] = true
		}
		if c.Shares != nil {
			k.share = make([]int32, n)
			for i, name := range column.names {
				k.share[i] = int32(c.Share(name, int(g.GetCount())))
			}
		}
	}
	return k
}

// count counts a claim on a candidate, or takes it back (times -1).
func (k *counts) count(c *cellstate.Concern, candidate int, times int32) {
	d := k.column.of[candidate]
	if d < 0 {
		return
	}
	k.moved++
	if c.Selected || c.Kind == cellstate.Spread {
		if k.fewest >= 0 && k.open != nil && k.open[d] && k.selected[d] == k.fewest {
			k.atFewest -= times
		}
		if times < 0 || k.open != nil && k.atFewest == 0 {
			k.fewest = -1
		}
		k.selected[d] += times
		k.all += int(times)
	}
	k.last = d
	if c.Owns && c.Kind == cellstate.Apart {
		k.owners[d] += times
	}
}

// refuses says whether one more task on a candidate is against the rule. It must agree with
// what cellstate.Validate says.
func (g *ruling) refuses(candidate int) bool { return g.refusesIn(g.column.of[candidate]) }

func (g *ruling) refusesIn(d int32) bool {
	if d < 0 {
		return g.Owns
	}
	switch g.Kind {
	case cellstate.Apart:
		return g.Owns && g.selected[d] > 0 || g.Selected && g.owners[d] > 0
	case cellstate.Together:
		switch {
		case !g.Owns, g.stands[d] > 0, g.Fenced && g.selected[d] > 0:
			return false
		}
		return g.all > 0 || !g.Selected
	}
	if g.share != nil {
		return g.selected[d]+1 > g.share[d]
	}
	return g.selected[d]+1-g.least() > int32(g.MaxSkew)
}

// least is the number of tasks in the open domain with the fewest.
func (k *counts) least() int32 {
	if k.fewest < 0 {
		k.fewest = 1 << 30
		for d, open := range k.open {
			switch n := k.selected[d]; {
			case !open:
			case n < k.fewest:
				k.fewest, k.atFewest = n, 1
			case n == k.fewest:
				k.atFewest++
			}
		}
	}
	return k.fewest
}

// price is how far a domain is from what the rule would have best: 0 is best. It comes before
// the score.
func (g *ruling) price(d int32) int32 {
	switch {
	case g.Kind == cellstate.Spread && d < 0:
		return 1 << 20
	case g.Kind == cellstate.Spread && g.share != nil:
		return (g.selected[d] + 1) * 1000 / max(1, g.share[d])
	case g.Kind == cellstate.Spread:
		return g.selected[d]
	case g.Required:
		return 0
	case g.Kind == cellstate.Apart && d >= 0:
		return g.selected[d]
	case g.Kind == cellstate.Together && g.all > 0 && (d < 0 || g.selected[d] == 0):
		return 1
	}
	return 0
}

// judge is what the rule says of each domain, brought up to date with the counts.
func (g *ruling) judge() {
	if g.verdict != nil && g.of == g.moved {
		return
	}
	fewest := g.least()
	one := g.verdict != nil && g.of+1 == g.moved && g.judged == fewest && g.Kind != cellstate.Together
	g.of, g.judged = g.moved, fewest
	if one {
		g.judgeIn(g.last)
		return
	}
	if g.verdict == nil {
		g.verdict = make([]int32, len(g.column.names)+1)
	}
	for i := range g.verdict {
		g.judgeIn(int32(i) - 1)
	}
}

func (g *ruling) judgeIn(d int32) {
	if g.verdict[d+1] = g.price(d); g.Required && g.refusesIn(d) {
		g.verdict[d+1] = refused
	}
}

// keeps says whether a candidate is not against the rules of a request.
func (r *Round) keeps(q *Request, i int) bool {
	for n := range q.rules {
		if g := &q.rules[n]; g.Required && g.refuses(i) {
			return false
		}
	}
	return true
}

// ruleDetail tells people what stands against a candidate under a rule.
func ruleDetail(q *Request, text string, i int, node cellstate.NodeName) string {
	for n := range q.rules {
		g := &q.rules[n]
		if g.Text() != text || !g.refuses(i) {
			continue
		}
		if g.note != "" {
			return g.note
		}
		d := g.column.of[i]
		if d < 0 {
			return fmt.Sprintf("node %s has no %s", node, g.Within)
		}
		at := fmt.Sprintf("%s %s", g.Within, g.column.names[d])
		if g.Within != cellstate.NodeLabel {
			at += fmt.Sprintf(", such as node %s", node)
		}
		switch {
		case g.Kind == cellstate.Together:
			return "none in " + at
		case g.Kind == cellstate.Apart && g.Owns && g.selected[d] > 0:
			return fmt.Sprintf("%d in %s", g.selected[d], at)
		case g.Kind == cellstate.Apart:
			return fmt.Sprintf("the rule is that of %d in %s", g.owners[d], at)
		case g.share != nil:
			return fmt.Sprintf("%d of at most %d in %s", g.selected[d], g.share[d], at)
		}
		return fmt.Sprintf("%d in %s; the fewest are %d, and the skew at most %d", g.selected[d], at, g.least(), g.MaxSkew)
	}
	return fmt.Sprintf("such as node %s", node)
}
