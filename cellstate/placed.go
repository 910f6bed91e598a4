package cellstate

import (
	"slices"
	"sync/atomic"
)

// placed is the set of a node's placements as one row of the node has it. Rows share
// what is older: a batch only notes what it puts and takes, which is a tenth of the price
// of a new list, and the list is made when somebody asks for it, once for each set.
// A nil placed is the empty set.
type placed struct {
	p    *Placement
	gone bool  // p was taken, not put
	deep int32 // sets below without a list

	// list, once it is there, is all of the set, in no order, and before is nil then, so
	// that what is older can be collected. Whoever reads looks at list again after before.
	list   atomic.Pointer[[]*Placement]
	before atomic.Pointer[placed]
}

// deepest bounds what must be walked over to make a list, and what a set keeps alive.
const deepest = 32

// with is the set with p put, or taken if gone.
func (s *placed) with(p *Placement, gone bool) *placed {
	next := &placed{p: p, gone: gone}
	if s != nil {
		next.before.Store(s)
		if s.list.Load() == nil {
			next.deep = s.deep + 1
		}
	}
	if next.deep >= deepest {
		next.all()
	}
	return next
}

// all is the list of the placements, in no order. Read only.
func (s *placed) all() []*Placement {
	if s == nil {
		return nil
	}
	if list := s.list.Load(); list != nil {
		return *list
	}
	edits := make([]*placed, 0, deepest+1)
	var base []*Placement
	for at := s; at != nil; {
		if list := at.list.Load(); list != nil {
			base = *list
			break
		}
		before := at.before.Load()
		if before == nil && at.list.Load() != nil { // made just now
			continue
		}
		edits = append(edits, at)
		at = before
	}
	list := append(make([]*Placement, 0, len(base)+len(edits)), base...)
	for _, e := range slices.Backward(edits) {
		if !e.gone {
			list = append(list, e.p)
		} else if i, last := slices.Index(list, e.p), len(list)-1; i >= 0 {
			list[i], list[last] = list[last], nil
			list = list[:last]
		}
	}
	s.list.Store(&list)
	s.before.Store(nil)
	return list
}
