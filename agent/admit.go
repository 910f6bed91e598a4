package agent

import (
	"fmt"

	"github.com/ohmcell/ohm/agent/device"
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// verdict of the admission on one task.
type verdict struct {
	ok     bool   // it may start
	never  bool   // it does not fit this node, whatever ends
	device bool   // one of its devices is not well: it may become so, where it is not never
	why    string // where it is not ok
}

// admit says which of the fresh tasks may start beside those that are alive, each beside
// those before it too (A3). It is the cell's own rule, asked about what is true on the
// machine, as row makes it, and not about what is recorded.
func admit(alive *cellstate.Node, fresh []*ohmv1.Placement) []verdict {
	txn := &cellstate.Txn{ID: "admission"}
	for i, p := range fresh {
		txn.Claims = append(txn.Claims, cellstate.Claim{
			Slot: stand(i), Attempt: 1, Node: alive.Name,
			Resources: p.GetResources(), GPUs: p.GetGpus(), Ports: p.GetPorts(),
		})
	}
	verdicts := make([]verdict, len(fresh))
	fit, conflicts := cellstate.Admit(alive, txn)
	for _, i := range fit {
		verdicts[i].ok = true
	}
	if len(conflicts) == 0 {
		return verdicts
	}
	empty := row(alive.Facts, nil)
	for _, c := range conflicts {
		v := &verdicts[c.Claim]
		if news, worst := deviceNews(alive.Facts, fresh[c.Claim]); news != "" {
			*v = verdict{device: true, never: worst >= device.Bad, why: news}
			continue
		}
		alone := &cellstate.Txn{ID: txn.ID, Claims: txn.Claims[c.Claim : c.Claim+1]}
		if _, wrong := cellstate.Admit(empty, alone); len(wrong) > 0 {
			v.never = true
			v.why = fmt.Sprintf("it does not fit this node: %s %s", wrong[0].Reason, wrong[0].Dimension)
			if wrong[0].Wanted != "" {
				wanted, free := resource.RoundWritten(wrong[0].Wanted, wrong[0].Free)
				v.why += fmt.Sprintf(", wanted %s, there is %s", wanted, free)
			}
			continue
		}
		v.why = "waits until what is ending on the node has given back " + c.Dimension
	}
	return verdicts
}

// row is the node with what is alive on it.
func row(facts *ohmv1.Node, alive []*ohmv1.Placement) *cellstate.Node {
	n := cellstate.Standing(facts)
	for i, p := range alive {
		n.Stand(standing(facts, i, p), true)
	}
	return n
}

// standing is a placement as it stands on the machine: charged in full, since what is
// evicted and what it makes room for cannot run at the same time, and as the i-th of the
// node, since of one slot several attempts may be alive here.
func standing(facts *ohmv1.Node, i int, p *ohmv1.Placement) *cellstate.Placement {
	slot := stand(i)
	return cellstate.NewPlacement(slot, &ohmv1.Placement{
		Slot: slot.Proto(), Node: facts.GetName(),
		Resources: p.GetResources(), Gpus: p.GetGpus(), Ports: p.GetPorts(),
	}, 1)
}

func stand(i int) cellstate.Slot {
	return cellstate.Slot{Namespace: "node", Job: "alive", Group: "task", Index: i, Version: 1}
}
