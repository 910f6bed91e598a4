package schedulers

import (
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// within is the label in one domain of which all of the job's tasks have to be; empty: they
// need not.
func (u *starving) within() string { return u.job.Record.GetSpec().GetGang().GetWithin() }

// domains are the nodes that may be claimed together, in the order in which they come.
func (u *starving) domains(nodes []*cellstate.Node) [][]*cellstate.Node {
	label := u.within()
	if label == "" {
		return [][]*cellstate.Node{nodes}
	}
	at := map[string]int{}
	var of [][]*cellstate.Node
	for _, n := range nodes {
		domain, ok := n.Label(label)
		if !ok {
			continue
		}
		i, known := at[domain]
		if !known {
			i = len(of)
			at[domain], of = i, append(of, nil)
		}
		of[i] = append(of[i], n)
	}
	return of
}

// fillOne claims for the needs on nodes of one domain, as a view shows them, first come first
// served, on at most so many (0: any number). False if too few needs find room in any.
func (u *starving) fillOne(s *cellstate.Snapshot, nodes []*cellstate.Node, most int, view func(*cellstate.Node) *cellstate.Node) bool {
	u.on(s)
	for _, nodes := range u.domains(nodes) {
		u.txn.Snapshot, u.txn.Claims = s.Revision(), nil
		open, used := u.needs, 0
		for _, n := range nodes {
			left := u.fill(view(n), open)
			if len(left) < len(open) {
				open, used = left, used+1
			}
			if len(open) == 0 || most > 0 && used >= most {
				break
			}
		}
		if len(u.txn.Claims) >= u.least {
			return true
		}
	}
	return false
}

// keepsRules says whether what is claimed so far, and more claims, are together not against
// the rules that the job's tasks have between each other.
func (u *starving) keepsRules(more []cellstate.Claim) bool {
	if u.snapshot == nil {
		return true
	}
	if u.ruled == nil {
		spec := u.job.Record.GetSpec()
		ruled := slices.ContainsFunc(spec.GetGroups(), func(g *ohmv1.Group) bool {
			return slices.ContainsFunc(cellstate.Rules(spec, g), func(r *cellstate.Rule) bool {
				return r.Required && slices.ContainsFunc(spec.GetGroups(), func(o *ohmv1.Group) bool { return r.Selects(spec, o.GetName()) })
			})
		})
		u.ruled = &ruled
	}
	return !*u.ruled || cellstate.KeepsRules(u.snapshot, &cellstate.Txn{
		Snapshot: u.snapshot.Revision(), Claims: slices.Concat(u.txn.Claims, more),
	})
}
