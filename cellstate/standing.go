package cellstate

import ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"

// Standing is the row of a node with nothing on it, for Admit to be asked about what is
// true on a machine.
func Standing(facts *ohmv1.Node) *Node {
	return &Node{Name: NodeName(facts.GetName()), NodeRecords: &NodeRecords{Facts: facts}}
}

// Stand puts a placement on a row that Standing has made, or takes off one that was put. It
// changes the row: nobody else may be reading it.
func (n *Node) Stand(p *Placement, there bool) {
	n.placed = n.placed.with(p, !there)
	if there {
		n.count++
		n.charge(p, 1)
	} else {
		n.count--
		n.charge(p, -1)
	}
	if n.recharge {
		n.used, n.recharge = *charge(n.placed.all()), false
	}
}
