package server

import (
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// holdViews are holds as people see them.
func holdViews(holds []*cellstate.Hold, of func(*cellstate.Hold) bool) (views []*ohmv1.Hold) {
	for _, h := range holds {
		if of(h) {
			v := proto.CloneOf(h.Hold)
			v.Fence = nil
			views = append(views, v)
		}
	}
	return views
}

// heldFor are the holds on all nodes for tasks of a job.
func heldFor(s *cellstate.Snapshot, job cellstate.JobName) (views []*ohmv1.Hold) {
	for n := range s.Nodes() {
		views = append(views, holdViews(n.Holds, func(h *cellstate.Hold) bool { return cellstate.SlotOf(h.GetSlot()).JobName() == job })...)
	}
	return views
}
