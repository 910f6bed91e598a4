package cellstate

import (
	"math"
	"slices"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Tally counts the tasks that a rule is about, by domain. It is of one version of a job
// where the rule is to spread it, else of all.
type Tally struct {
	Selected map[string]int // tasks that the rule selects
	Owners   map[string]int // tasks of its owners, of a rule to keep apart
	// Domains are, of a rule to spread, those that have a node which may be given a task.
	Domains map[string]bool

	claimed map[string]int        // of Selected, claims and not placements
	witness map[string]*Placement // of Selected, by domain, the one that has stood longest
}

// tally counts the placements of a snapshot. group is the owner's, and owners are those of
// the rule's other side.
func (s *Snapshot) tally(r *Rule, job *ohmv1.JobSpec, version int64, owners []owner) *Tally {
	t := &Tally{Selected: map[string]int{}, Owners: map[string]int{}, claimed: map[string]int{}, witness: map[string]*Placement{}}
	for j := range s.selected(r) {
		for _, task := range j.Tasks {
			p := task.Placement
			if p == nil || !r.Selects(j.Record.GetSpec(), task.Slot.Group) || r.Kind == Spread && task.Slot.Version != version {
				continue
			}
			if d, ok := s.domain(r, NodeName(p.GetNode())); ok {
				t.Selected[d]++
				if w := t.witness[d]; w == nil || p.Revision < w.Revision {
					t.witness[d] = p
				}
			}
		}
	}
	switch r.Kind {
	case Apart:
		for _, o := range owners {
			s.eachOf(o, func(p *Placement) {
				if d, ok := s.domain(r, NodeName(p.GetNode())); ok {
					t.Owners[d]++
				}
			})
		}
	case Spread:
		i := slices.IndexFunc(job.GetGroups(), func(g *ohmv1.Group) bool { return g.GetName() == r.Group })
		t.Domains = s.domains(r, job.GetGroups()[i])
	}
	return t
}

// eachOf calls f for each placement of a group.
func (s *Snapshot) eachOf(o owner, f func(*Placement)) {
	j := s.Job(o.job)
	if j == nil {
		return
	}
	for _, task := range j.Tasks {
		if task.Placement != nil && task.Slot.Group == o.group {
			f(task.Placement)
		}
	}
}

// domain is where a node is in the scope of a rule; not ok if it has no such label.
func (s *Snapshot) domain(r *Rule, node NodeName) (string, bool) {
	if n := s.Node(node); n != nil {
		return n.Label(r.Within)
	}
	return "", false
}

// domains are those of the nodes that may be given a task of a group.
func (s *Snapshot) domains(r *Rule, g *ohmv1.Group) map[string]bool {
	of := map[string]bool{}
	for n := range s.Nodes() {
		if d, ok := n.Label(r.Within); ok && !of[d] && Eligible(n, g) {
			of[d] = true
		}
	}
	return of
}

// Over says whether one more task in a domain is against a rule to spread a group of so
// many tasks.
func (t *Tally) Over(r *Rule, domain string, count int) bool {
	with := t.Selected[domain] + 1
	if r.Shares != nil {
		return with > r.Share(domain, count)
	}
	return with-t.Fewest() > r.MaxSkew
}

// Fewest is the number of tasks in the domain with the fewest.
func (t *Tally) Fewest() int {
	fewest := math.MaxInt32
	for d := range t.Domains {
		fewest = min(fewest, t.Selected[d])
	}
	return fewest
}

// Share is, of a rule to spread by shares, how many of a group of so many tasks there may be
// in a domain.
func (r *Rule) Share(domain string, count int) int {
	all, share := 0, int(r.Shares[domain])
	for _, s := range r.Shares {
		all += int(s)
	}
	if share == 0 {
		return 0
	}
	return (count*share+all-1)/all + r.MaxSkew - 1
}

// claim counts a claim, times 1, or takes it back, times -1.
func (t *Tally) claim(c *Concern, domain string, times int) {
	if c.Selected || c.Kind == Spread {
		t.Selected[domain] += times
		t.claimed[domain] += times
	}
	if c.Owns && c.Kind == Apart {
		t.Owners[domain] += times
	}
}
