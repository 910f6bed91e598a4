package reconcile

import (
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Endpoints are the ports of the tasks of a job that serve now, those of older versions
// included: of one group and of one name, where those are given. A node that nothing is heard of keeps
// its tasks until it is given up: what is silent may be the control plane.
func Endpoints(s *cellstate.Snapshot, j *cellstate.Job, group, port string) (all []*ohmv1.Endpoint) {
	for _, t := range j.Tasks {
		if group != "" && t.Slot.Group != group || !serves(s, j, t) {
			continue
		}
		for _, p := range t.Placement.GetPorts() {
			if port != "" && p.GetName() != port {
				continue
			}
			all = append(all, &ohmv1.Endpoint{
				Namespace: t.Slot.Namespace, Task: t.Slot.Task(), Version: t.Slot.Version, Attempt: t.Placement.GetAttempt(), Node: t.Placement.GetNode(),
				Port: p.GetName(), Number: p.GetNumber(), Address: fmt.Sprintf("%s:%d", t.Placement.GetNode(), p.GetNumber()),
			})
		}
	}
	return all
}

// serves says whether a task may be given work: it runs, is ready where that is checked, and is
// to go on.
func serves(s *cellstate.Snapshot, j *cellstate.Job, t *cellstate.Task) bool {
	p := t.Placement
	if p == nil || t.Status.GetState() != task.Running || t.Status.GetTxn() != p.GetTxn() ||
		StopCause(j, p, s.Node(cellstate.NodeName(p.GetNode()))) != "" {
		return false
	}
	of := j.AsOf(t.Slot)
	return of == nil || of.Group(t.Slot.Group).GetHealth().GetReady() == nil || t.Status.GetReady()
}
