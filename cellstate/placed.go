package cellstate

import (
	"slices"
	"sync/atomic"
)

// placed is the set of a node's placements as one row of the node has it: the first edits
// of a log that rows of the node share. A batch only notes what it puts and takes, which is
// a tenth of the price of a new list; the list is made when somebody asks for it.
// The zero value is the empty set.
type placed struct {
	log   *placedLog
	edits int32
}

// mostEdits bounds what must be gone through to make a list, and what a log keeps alive.
const mostEdits = 24

// placedLog is a list and what was put and taken since. What is noted once stays, so that
// who has the first edits can read them while another is added.
type placedLog struct {
	base  []*Placement // in no order
	noted atomic.Int32 // edits: who raises it writes the next one
	edits [mostEdits]*Placement
	gone  [mostEdits]bool // the edit took it

	list atomic.Pointer[placedList] // that somebody has asked for last
}

type placedList struct {
	edits int32
	all   []*Placement
}

// with is the set with p put, or taken if gone.
func (s placed) with(p *Placement, gone bool) placed {
	// Two sets may be made of one, as from a snapshot that two batches are applied to: the
	// second finds that the log has gone on, and begins another.
	if s.log == nil || s.edits == mostEdits || !s.log.noted.CompareAndSwap(s.edits, s.edits+1) {
		s = placed{log: &placedLog{base: s.all()}}
		s.log.noted.Store(1)
	}
	s.log.edits[s.edits], s.log.gone[s.edits] = p, gone
	s.edits++
	return s
}

// all is the list of the placements, in no order. Read only.
func (s placed) all() []*Placement {
	if s.log == nil {
		return nil
	}
	if s.edits == 0 {
		return s.log.base
	}
	if made := s.log.list.Load(); made != nil && made.edits == s.edits {
		return made.all
	}
	list := append(make([]*Placement, 0, len(s.log.base)+int(s.edits)), s.log.base...)
	for i, p := range s.log.edits[:s.edits] {
		if !s.log.gone[i] {
			list = append(list, p)
		} else if i, last := slices.Index(list, p), len(list)-1; i >= 0 {
			list[i], list[last] = list[last], nil
			list = list[:last]
		}
	}
	s.log.list.Store(&placedList{s.edits, list})
	return list
}
