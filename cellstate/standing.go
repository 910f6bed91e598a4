package cellstate

import ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"

// Standing is the row of a node on which these placements stand and nothing else, for
// Admit to be asked about what is true on a machine. Each is charged in full.
func Standing(facts *ohmv1.Node, placements []*Placement) *Node {
	n := &Node{Name: NodeName(facts.GetName()), NodeRecords: &NodeRecords{Facts: facts}}
	for _, p := range placements {
		n.placed = n.placed.with(p, false)
		n.count++
	}
	n.used = *charge(placements)
	return n
}
