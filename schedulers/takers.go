package schedulers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// takersMost is how many of those who have something of a node an answer names.
const takersMost = 10

// Takers adds to a refusal who has what is lacking, the largest part first, and for room that is
// held for whom.
func Takers(n *cellstate.Node, f *ohmv1.NodeRefusal) {
	type part struct {
		taker *ohmv1.NodeTaker
		size  int64
	}
	var parts []part
	add := func(t *ohmv1.NodeTaker, res *ohmv1.Resources, gpus []*ohmv1.DeviceShare, ports []*ohmv1.Port) {
		if size, text := takes(f.GetDimension(), res, gpus, ports); size > 0 {
			t.Takes = text
			parts = append(parts, part{t, size})
		}
	}
	for _, p := range n.Placements() {
		add(&ohmv1.NodeTaker{
			Namespace: p.Slot.Namespace, Task: p.Slot.Task(), Transaction: p.GetTxn(), Scheduler: p.GetScheduler(), Precedence: p.GetPrecedence(),
		}, p.GetResources(), p.GetGpus(), p.GetPorts())
	}
	if f.GetReason() == string(cellstate.ReasonHold) {
		parts = nil // what stands there leaves the room: it is held
		for _, h := range n.Holds {
			slot := cellstate.SlotOf(h.GetSlot())
			add(&ohmv1.NodeTaker{
				Namespace: slot.Namespace, Task: slot.Task(), Transaction: h.GetTxn(), Scheduler: h.GetScheduler(), Precedence: h.GetPrecedence(), Hold: true,
			}, h.GetResources(), h.GetGpus(), h.GetPorts())
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.size, a.size) })
	for _, p := range parts[:min(len(parts), takersMost)] {
		f.Takers = append(f.Takers, p.taker)
	}
	f.MoreTakers = int32(len(parts) - len(f.Takers))
}

// takes is how much of a dimension something has, also for people.
func takes(dimension string, res *ohmv1.Resources, gpus []*ohmv1.DeviceShare, ports []*ohmv1.Port) (size int64, text string) {
	switch dimension {
	case "cpu":
		return res.GetCpuMilli(), resource.FormatCPU(res.GetCpuMilli())
	case "memory":
		return res.GetMemoryBytes(), resource.RoundBytes(res.GetMemoryBytes())
	case "disk":
		return res.GetDiskBytes(), resource.RoundBytes(res.GetDiskBytes())
	case "gpus":
		for _, g := range gpus {
			size += int64(g.GetMilli())
			if text != "" {
				text += ", "
			}
			text += g.GetId()
			if g.GetMilli() < 1000 {
				text += ":" + resource.FormatShare(g.GetMilli())
			}
		}
		return size, text
	}
	for _, p := range ports {
		if number := strconv.Itoa(int(p.GetNumber())); number == dimension || dimension == cellstate.DynamicPorts {
			return 1, "port " + number
		}
	}
	return 0, ""
}

// byRule says by the rule of the commit what keeps a group's tasks off a node.
func byRule(s *cellstate.Snapshot, job *cellstate.Job, g *ohmv1.Group, n *cellstate.Node, needs []reconcile.Need) *ohmv1.NodeGroup {
	out := &ohmv1.NodeGroup{Group: g.GetName()}
	refuse := func(f *ohmv1.NodeRefusal) {
		Takers(n, f)
		out.Refusals = append(out.Refusals, f)
	}
	if n.Facts == nil || n.Alive == nil {
		refuse(&ohmv1.NodeRefusal{Reason: "NotReady", Detail: "no live session"})
	}
	precedence := int(job.Record.GetSpec().GetPrecedence())
	need := reconcile.Need{Group: g}
	at := slices.IndexFunc(needs, func(n reconcile.Need) bool { return n.Slot.Group == g.GetName() })
	if at >= 0 {
		need = needs[at]
	}
	claim := cellstate.Claim{
		Slot: need.Slot, Attempt: need.Attempt, Node: n.Name, Resources: g.GetResources(), Precedence: precedence, JobRevision: job.Revision,
		GPUs: devices(n, precedence, nil, g.GetGpus()),
	}
	if have, want := len(claim.GPUs), int(g.GetGpus().GetCount()); have < want {
		refuse(&ohmv1.NodeRefusal{Reason: string(cellstate.ReasonResources), Dimension: "gpus", Wanted: fmt.Sprint(want), Free: fmt.Sprint(have), Has: fmt.Sprint(len(n.Facts.GetGpus()))})
		claim.GPUs = nil
	}
	ports, short := cellstate.ChoosePorts(n.Facts, g.GetPorts(), 0, portTaken(n, precedence, nil, need))
	if short != "" {
		refuse(&ohmv1.NodeRefusal{Reason: string(cellstate.ReasonPort), Dimension: short})
	}
	claim.Ports = ports
	txn := &cellstate.Txn{
		Mode: cellstate.Incremental, Scheduler: job.Record.GetSpec().GetScheduler(), Snapshot: s.Revision(), Claims: []cellstate.Claim{claim},
	}
	_, conflicts := cellstate.Admit(n, txn)
	if at >= 0 { // there is a slot for which more can be said
		_, conflicts = cellstate.Validate(s, txn)
	}
	for _, c := range conflicts {
		if c.Reason == cellstate.ReasonMalformed { // of what a refusal above has left out
			continue
		}
		refuse(&ohmv1.NodeRefusal{Reason: string(c.Reason), Dimension: c.Dimension, Wanted: c.Wanted, Free: c.Free})
	}
	out.Fits = len(out.Refusals) == 0
	return out
}
