package schedulers

import (
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// fit finds nodes for the needs, the first that fit, and makes the transaction's claims of
// them: first those on which they lost, which the policy has chosen itself, then those that
// have changed since a snapshot on which none was found, then the others from a number on;
// on at most so many nodes (0: any number). False if too few needs find one. What needs no
// more than one node has found none among those that are as they were.
func (u *starving) fit(s, before *cellstate.Snapshot, taken map[cellstate.NodeName]bool, from uint64, most int) bool {
	if u.within() != "" {
		nodes := slices.DeleteFunc(slices.Collect(s.Nodes()), func(n *cellstate.Node) bool { return taken[n.Name] })
		return u.fillOne(s, nodes, most, func(n *cellstate.Node) *cellstate.Node { return n })
	}
	u.on(s)
	u.txn.Snapshot, u.txn.Claims = s.Revision(), nil
	open := slices.Clone(u.needs)
	seen := map[cellstate.NodeName]bool{}
	used := 0
	try := func(n *cellstate.Node) (done bool) {
		if n != nil && !taken[n.Name] && !seen[n.Name] {
			seen[n.Name] = true
			if left := u.fill(n, open); len(left) < len(open) {
				open, used = left, used+1
			}
		}
		return len(open) == 0 || most > 0 && used >= most
	}
	enough := slices.ContainsFunc(u.lost, func(name cellstate.NodeName) bool { return try(s.Node(name)) })
	changes, same := s.NodeChanges(before)
	if same && !enough {
		for _, n := range changes {
			if enough = try(n); enough {
				break
			}
		}
	}
	if same && u.least == 1 {
		return len(u.txn.Claims) >= u.least
	}
	if nodes := slices.Collect(s.Nodes()); !enough && len(nodes) > 0 {
		first := int(from % uint64(len(nodes)))
		_ = slices.ContainsFunc(nodes[first:], try) || slices.ContainsFunc(nodes[:first], try)
	}
	return len(u.txn.Claims) >= u.least
}

// fill claims for as many of the needs as fit on the node, and returns the others.
func (u *starving) fill(n *cellstate.Node, needs []reconcile.Need) (left []reconcile.Need) {
	trial := *u.txn
	trial.Claims = nil
	var full *ohmv1.Group // the last that did not fit: needs of a group follow each other
	for _, need := range needs {
		if full == need.Group || need.Node != "" && need.Node != n.Name || !reconcile.Eligible(n, need.Group) || u.keptOff(need.Group, n.Name) {
			left = append(left, need)
			continue
		}
		precedence := int(u.job.Record.GetSpec().GetPrecedence())
		ports, short := cellstate.ChoosePorts(n.Facts, need.Group.GetPorts(), cellstate.PortsFrom(need.Slot, need.Attempt), portTaken(n, precedence, trial.Claims, need))
		if short != "" {
			full = need.Group
			left = append(left, need)
			continue
		}
		trial.Claims = append(trial.Claims, cellstate.Claim{
			Slot: need.Slot, Attempt: need.Attempt, Node: n.Name, Resources: need.Group.GetResources(),
			GPUs:  devices(n, precedence, trial.Claims, need.Group.GetGpus()),
			Ports: ports, Precedence: precedence, JobRevision: u.job.Revision,
		})
		last := len(trial.Claims) - 1
		_, conflicts := cellstate.Admit(n, &trial)
		if len(conflicts) > 0 || len(trial.Claims[last].GPUs) < int(need.Group.GetGpus().GetCount()) || !u.keepsRules(trial.Claims) {
			trial.Claims = trial.Claims[:last]
			full = need.Group
			left = append(left, need)
		}
	}
	u.txn.Claims = append(u.txn.Claims, trial.Claims...)
	return left
}

// portTaken says which ports of a node are not for the need.
func portTaken(n *cellstate.Node, precedence int, claims []cellstate.Claim, need reconcile.Need) func(int32) bool {
	taken := cellstate.TakenPorts(n, precedence, claims)
	return func(port int32) bool { return taken(port) || need.Busy(n.Name, port) }
}

// devices are GPUs of a node with the wanted share free, the fullest first; fewer than
// wanted where there are not enough.
func devices(n *cellstate.Node, precedence int, claims []cellstate.Claim, want *ohmv1.GPURequest) []*ohmv1.DeviceShare {
	if want.GetCount() == 0 {
		return nil
	}
	taken := map[string]int32{}
	charge := func(shares []*ohmv1.DeviceShare) {
		for _, g := range shares {
			taken[g.GetId()] += g.GetMilli()
		}
	}
	for _, h := range n.Holds {
		if precedence <= int(h.GetPrecedence()) {
			charge(h.GetGpus())
		}
	}
	for _, c := range claims {
		charge(c.GPUs)
	}
	chosen, _ := cellstate.ChooseDevices(n.Facts, want, func(id string) int32 { return 1000 - n.Used().GPUs[id] - taken[id] })
	return chosen
}
