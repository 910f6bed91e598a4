package place

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Search finds nodes for the needs of one job, one after the other, and remembers for which
// requests there are none: room only shrinks meanwhile, they need not ask again.
type Search struct {
	// Awaits: a need would find its node among those with requests under way.
	Awaits bool

	round  *Round
	job    *cellstate.Job
	choose func(*Request, reconcile.Need) (node int, ok bool)
	missed map[*Request]*miss
	rigid  map[*Request]rigid // of all needs of a request together: those that name their node each ask for one
}

// miss is what is known of a request that found no node.
type miss struct{ awaits, rigid bool } // rigid: nothing gives way for it

// Search begins one in which choose finds the nodes with room.
func (r *Round) Search(job *cellstate.Job, choose func(*Request, reconcile.Need) (node int, ok bool)) *Search {
	return &Search{round: r, job: job, choose: choose, missed: map[*Request]*miss{}, rigid: map[*Request]rigid{}}
}

// Claim claims for a need the node that choose finds or, if it may evict, one on which others
// give way. Without a claim, awaits says that it may still find its node in this way.
func (s *Search) Claim(need reconcile.Need, evict bool) (claim cellstate.Claim, ok, awaits bool) {
	r := s.round
	q := r.Request(s.job, need.Group)
	m := s.missed[q]
	if m == nil {
		if node, ok := s.choose(q, need); ok {
			return r.Claim(s.job, need, node), true, false
		}
		m = &miss{awaits: r.Awaits(q, need)}
		s.Awaits = s.Awaits || m.awaits
		if need.Node == "" {
			s.missed[q] = m
		}
	}
	if m.awaits || m.rigid || !evict {
		return cellstate.Claim{}, false, m.awaits
	}
	if e, ok := r.Evict(q, need); ok {
		return r.ClaimEvicting(s.job, need, e), true, false
	}
	m.rigid = true
	s.rigid[q] = s.rigid[q].plus(r.rigid)
	return cellstate.Claim{}, false, false
}

// Tell adds to the explanation of groups why nothing gives way for them.
func (s *Search) Tell(unplaced []schedulers.Unplaced) {
	for i := range unplaced {
		q := s.round.Request(s.job, s.job.Group(unplaced[i].Group))
		unplaced[i].NoVictims, unplaced[i].NoVictimsCode = s.round.noVictims(q, s.rigid[q])
	}
}
