package cellstate

import (
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// fenceChain follows the fences of nodes and scopes from the records that came with their
// bumps. Invariant: a known fence is the mod revision of the node's fence in the store,
// as long as no event was lost.
type fenceChain struct {
	node     func(NodeName) *Node
	scope    func(string) *scopeRow
	revision Revision
	bumps    map[NodeName]*bump
	scopes   map[string]*bump
	gaps     []NodeName
}

type bump struct {
	node     NodeName // of a scope: of one of the records that came with it
	compared Revision
	records  int
	seen     int
}

// see notes a record of the present revision.
func (f *fenceChain) see(c *Change) {
	if c.placed != nil {
		p := &c.placed.placement
		if !p.whole || p.shared.Fence != nil {
			f.note(p.node.name, p.compared, p.records)
		}
		f.noteScopes(p.node.name, p.shared.GetScopes())
		return
	}
	var name string
	var fence *ohmv1.Fence
	switch v := c.Value.(type) {
	case *ohmv1.Placement:
		name, fence = v.GetNode(), v.GetFence()
		f.noteScopes(NodeName(name), v.GetScopes())
	case *ohmv1.Node:
		name, fence = v.GetName(), v.GetFence()
	case *ohmv1.Intent:
		name, fence = v.GetNode(), v.GetFence()
	case *ohmv1.Hold:
		name, fence = v.GetNode(), v.GetFence()
	}
	if fence != nil {
		f.note(NodeName(name), Revision(fence.GetCompared()), fence.GetRecords())
	}
}

// note notes one of so many records that came with a bump of a node's fence.
func (f *fenceChain) note(name NodeName, compared Revision, records int32) {
	if records == 1 { // the common case: nothing to wait for
		f.bump(name, compared, true)
		return
	}
	if f.bumps == nil {
		f.bumps = map[NodeName]*bump{}
	}
	b := f.bumps[name]
	if b == nil {
		b = &bump{compared: compared, records: int(records)}
		f.bumps[name] = b
	}
	b.seen++
}

// noteScopes notes a record that came with bumps of scopes' fences.
func (f *fenceChain) noteScopes(on NodeName, fences []*ohmv1.ScopeFence) {
	for _, fence := range fences {
		if f.scopes == nil {
			f.scopes = map[string]*bump{}
		}
		b := f.scopes[fence.GetScope()]
		if b == nil {
			b = &bump{node: on, compared: Revision(fence.GetCompared()), records: int(fence.GetRecords())}
			f.scopes[fence.GetScope()] = b
		}
		b.seen++
	}
}

// at ends the present revision and begins another.
func (f *fenceChain) at(r Revision) {
	if r == f.revision {
		return
	}
	for name, b := range f.bumps {
		f.bump(name, b.compared, b.seen == b.records)
	}
	clear(f.bumps)
	for name, b := range f.scopes {
		row := f.scope(name)
		if row.fence >= f.revision {
			continue // the load saw it already
		}
		if row.fence != b.compared || b.seen != b.records {
			f.gaps = append(f.gaps, b.node)
		}
		row.fence = f.revision
	}
	clear(f.scopes)
	f.revision = r
}

// bump moves the known fence of a node on to the present revision.
func (f *fenceChain) bump(name NodeName, compared Revision, whole bool) {
	n := f.node(name)
	if n.Fence >= f.revision {
		return // the load saw it already
	}
	if n.Fence != compared || !whole {
		f.gaps = append(f.gaps, name)
	}
	n.Fence = f.revision
}
