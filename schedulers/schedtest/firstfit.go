package schedtest

import (
	"context"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// FirstFit is the simplest honest policy: each task goes to the first node, by name,
// that Validate accepts and on which no request is under way. It is for tests of what stands around a policy.
type FirstFit struct{}

// Schedule implements schedulers.Scheduler.
func (FirstFit) Schedule(_ context.Context, in schedulers.Input) (out schedulers.Proposal, err error) {
	nodes := slices.Collect(in.Snapshot.Nodes())
	trial := &cellstate.Txn{Snapshot: in.Snapshot.Revision()} // all that is claimed so far
	for _, w := range in.Work {
		spec := w.Job.Record.GetSpec()
		trial.Scheduler = spec.GetScheduler()
		txn := &cellstate.Txn{Mode: cellstate.Incremental}
		if spec.GetKind() == "ml" {
			txn.Mode = cellstate.Atomic
		}
		before := len(trial.Claims)
		var unplaced []schedulers.Unplaced
		waits := false // for what is under way
		for _, need := range w.Needs {
			claim, awaits, reasons := firstFit(in, nodes, trial, need)
			if awaits {
				waits = true
				continue
			}
			if reasons != nil {
				unplaced = refuse(unplaced, w.Job.Name, need.Slot, len(nodes), reasons)
				continue
			}
			txn.Claims = append(txn.Claims, claim)
			trial.Claims = append(trial.Claims, claim)
		}
		if txn.Mode == cellstate.Atomic && waits {
			txn.Claims, unplaced, trial.Claims = nil, nil, trial.Claims[:before]
		}
		if txn.Mode == cellstate.Atomic && len(unplaced) > 0 { // the others wait for the same reason
			for _, c := range txn.Claims {
				unplaced = refuse(unplaced, w.Job.Name, c.Slot, len(nodes), unplaced[0].Reasons)
			}
			txn.Claims, trial.Claims = nil, trial.Claims[:before]
		}
		if len(txn.Claims) > 0 {
			out.Txns = append(out.Txns, txn)
		}
		out.Unplaced = append(out.Unplaced, unplaced...)
	}
	return out, nil
}

// firstFit is a claim that fits on top of what is claimed, or why there is none. A need
// awaits a node if only the request that is under way there is in its way.
func firstFit(in schedulers.Input, nodes []*cellstate.Node, trial *cellstate.Txn, need reconcile.Need) (_ cellstate.Claim, awaits bool, _ []*ohmv1.Reason) {
	s := in.Snapshot
	refused := map[[2]string]int32{}
	for _, n := range nodes {
		switch {
		case need.Node != "" && need.Node != n.Name:
			refused[[2]string{"Constraint", "node"}]++
			continue
		case !reconcile.Eligible(n, need.Group):
			refused[[2]string{"NotReady", ""}]++
			continue
		}
		gpus := pickGPUs(n, trial, need.Group.GetGpus())
		if len(gpus) < int(need.Group.GetGpus().GetCount()) {
			refused[[2]string{string(cellstate.ReasonResources), "gpus"}]++
			continue
		}
		claim := celltest.Claim(s, need.Slot, n.Name)
		claim.GPUs = gpus
		taken := cellstate.TakenPorts(n, claim.Precedence, trial.Claims)
		ports, short := cellstate.ChoosePorts(n.Facts, need.Group.GetPorts(), cellstate.PortsFrom(need.Slot, need.Attempt),
			func(port int32) bool { return taken(port) || need.Busy(n.Name, port) })
		if short != "" {
			refused[[2]string{string(cellstate.ReasonPort), short}]++
			continue
		}
		claim.Ports = ports
		with := *trial
		with.Claims = append(slices.Clip(trial.Claims), claim)
		_, conflicts := cellstate.Validate(s, &with)
		if last := len(conflicts) - 1; last >= 0 && conflicts[last].Claim == len(trial.Claims) {
			refused[[2]string{string(conflicts[last].Reason), conflicts[last].Dimension}]++
			continue
		}
		if in.InFlight[n.Name] {
			awaits = true
			continue
		}
		return claim, false, nil
	}
	reasons := []*ohmv1.Reason{}
	for why, n := range refused {
		reasons = append(reasons, &ohmv1.Reason{Reason: why[0], Dimension: why[1], Nodes: n})
	}
	slices.SortFunc(reasons, func(a, b *ohmv1.Reason) int {
		return strings.Compare(a.GetReason()+" "+a.GetDimension(), b.GetReason()+" "+b.GetDimension())
	})
	return cellstate.Claim{}, awaits, reasons
}

// pickGPUs are GPUs with room beside what is claimed already; fewer than wanted where
// there are not enough.
func pickGPUs(n *cellstate.Node, trial *cellstate.Txn, want *ohmv1.GPURequest) []*ohmv1.DeviceShare {
	used := map[string]int32{}
	for _, c := range trial.Claims {
		if c.Node == n.Name {
			for _, g := range c.GPUs {
				used[g.GetId()] += g.GetMilli()
			}
		}
	}
	chosen, _ := cellstate.ChooseDevices(n.Facts, want, func(id string) int32 { return 1000 - used[id] - n.Used().GPUs[id] })
	return chosen
}

// refuse adds a slot to its group's explanation.
func refuse(all []schedulers.Unplaced, job cellstate.JobName, slot cellstate.Slot, nodes int, reasons []*ohmv1.Reason) []schedulers.Unplaced {
	for i := range all {
		if all[i].Group == slot.Group {
			all[i].Slots = append(all[i].Slots, slot)
			return all
		}
	}
	return append(all, schedulers.Unplaced{Job: job, Group: slot.Group, Slots: []cellstate.Slot{slot}, Nodes: nodes, Reasons: reasons})
}
