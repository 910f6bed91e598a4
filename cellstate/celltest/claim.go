package celltest

import (
	"cmp"

	"github.com/oklog/ulid/v2"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Name is the name of a job in the default namespace.
func Name(job string) cellstate.JobName { return cellstate.JobName{Namespace: "default", Name: job} }

// Slot is a slot of the job's present version; of version 1 if the job is not there.
func Slot(s *cellstate.Snapshot, job cellstate.JobName, group string, index int) cellstate.Slot {
	version := int64(1)
	if row := s.Job(job); row != nil && row.Record != nil {
		version = row.VersionOf(group)
	}
	return cellstate.Slot{Namespace: job.Namespace, Job: job.Name, Group: group, Index: index, Version: version}
}

// Claim claims what the slot's group asks for on a node, under the next attempt
// number, as an honest scheduler that decides on s would. Whether it fits is not looked
// at; GPUs are the first ones with room, or the first ones where none has, ports free ones,
// or those of the group where some are not.
func Claim(s *cellstate.Snapshot, slot cellstate.Slot, node cellstate.NodeName) cellstate.Claim {
	c := cellstate.Claim{Slot: slot, Attempt: 1, Node: node, Resources: &ohmv1.Resources{}}
	job := s.Job(slot.JobName())
	if job == nil {
		return c
	}
	c.Attempt = job.Task(slot).Attempts() + 1
	c.JobRevision = job.Revision
	c.Precedence = int(job.Record.GetSpec().GetPrecedence())
	g := job.Group(slot.Group)
	c.Resources = cmp.Or(g.GetResources(), c.Resources)
	if want := g.GetGpus(); want != nil {
		c.GPUs = devices(s.Node(node), want)
	}
	if n := s.Node(node); n != nil && n.Facts != nil {
		c.Ports, _ = cellstate.ChoosePorts(n.Facts, g.GetPorts(), cellstate.PortsFrom(slot, c.Attempt), cellstate.TakenPorts(n, c.Precedence, nil))
	}
	if c.Ports == nil {
		c.Ports = g.GetPorts()
	}
	return c
}

func devices(n *cellstate.Node, want *ohmv1.GPURequest) []*ohmv1.DeviceShare {
	if n == nil {
		return nil
	}
	milli := cmp.Or(want.GetShareMilli(), 1000)
	var first, free []*ohmv1.DeviceShare
	for _, d := range n.Facts.GetGpus() {
		share := &ohmv1.DeviceShare{Id: d.GetId(), Milli: milli}
		first = append(first, share)
		if n.Used().GPUs[d.GetId()]+milli <= 1000 {
			free = append(free, share)
		}
	}
	count := int(want.GetCount())
	if len(free) < count {
		free = first
	}
	return free[:min(count, len(free))]
}

// Txn is a transaction of the claims, decided on s by the scheduler of the first claim's job.
func Txn(s *cellstate.Snapshot, mode cellstate.Mode, claims ...cellstate.Claim) *cellstate.Txn {
	t := &cellstate.Txn{
		ID: cellstate.TxnID(ulid.Make().String()), Scheduler: "batch", Instance: "test",
		Mode: mode, Snapshot: s.Revision(), Claims: claims,
	}
	if len(claims) > 0 {
		if job := s.Job(claims[0].Slot.JobName()); job != nil {
			t.Scheduler = job.Record.GetSpec().GetScheduler()
		}
	}
	return t
}

// Victim names a live placement.
func Victim(p *cellstate.Placement) *ohmv1.Victim {
	return &ohmv1.Victim{Slot: p.GetSlot(), Attempt: p.GetAttempt(), Txn: p.GetTxn()}
}
