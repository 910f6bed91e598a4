package server

import (
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// assigned is an assignment with what it was made of, so that it is made again only
// when one of them has changed.
type assigned struct {
	record     *ohmv1.Job
	joint      bool // what is said of it depends on more of its job
	cause      string
	assignment *ohmv1.Assignment
	look       int // at which its placement was still there
}

// difference is what has changed of a node's desired state: one assignment for each of
// its placements.
type difference struct {
	fresh map[*cellstate.Placement]*assigned // new, or made again
	gone  []*cellstate.Placement             // known, and not there any more
	// joint are those of the placements' jobs of which more than the record and the
	// placement matters: gangs, and services that are being updated.
	joint map[cellstate.JobName]*cellstate.Job
}

// moved are the jobs whose records have changed since the round before, which is of the
// snapshot since; nil: of a round that does not know.
type moved struct {
	since *cellstate.Snapshot
	jobs  map[cellstate.JobName]bool
}

// movedSince finds them. What changed in a job's record changed the rows of its nodes, too.
func movedSince(snapshot, since *cellstate.Snapshot) moved {
	m := moved{since: since}
	if since == nil {
		return m
	}
	for was, is := range snapshot.JobChanges(since) {
		if was != nil && (is == nil || is.Record != was.Record) {
			if m.jobs == nil {
				m.jobs = map[cellstate.JobName]bool{}
			}
			m.jobs[was.Name] = true
		}
	}
	return m
}

// differ holds a node's row against what its agent has been told. It costs little for a
// placement of which nothing has changed: a node has many, and one of them changes. Where
// it was told of the row of the round before, and what the node itself says is the same,
// only the jobs that have moved are looked at.
func differ(s *cellstate.Snapshot, n *cellstate.Node, cell string, t *told, moved moved) (d difference) {
	known, look, same := t.known, t.looks, 0
	calm := moved.since != nil && t.row != nil && moved.since.Node(n.Name) == t.row &&
		n.NodeRecords == t.row.NodeRecords && !n.Intent.GetDrain()
	for _, p := range n.Unsorted() {
		if calm {
			if was := known[p]; was != nil && !was.joint && (len(moved.jobs) == 0 || !moved.jobs[p.Slot.JobName()]) {
				was.look = look
				same++
				continue
			}
		}
		j := s.Job(p.Slot.JobName())
		joint := j.Record.GetSpec().GetGang() != nil || j.Rollout != nil && !j.Current(p.Slot)
		if joint {
			if d.joint == nil {
				d.joint = map[cellstate.JobName]*cellstate.Job{}
			}
			d.joint[j.Name] = j
		}
		cause := reconcile.StopCause(j, p, n)
		was := known[p]
		if was != nil {
			was.look = look
			same++
			if was.record == j.Record && was.cause == cause {
				continue
			}
		}
		a := assignment(s, j, p, cell)
		a.StopCause = cause
		if d.fresh == nil {
			d.fresh = map[*cellstate.Placement]*assigned{}
		}
		d.fresh[p] = &assigned{j.Record, joint, cause, a, look}
	}
	if same < len(known) {
		for p, was := range known {
			if was.look != look {
				d.gone = append(d.gone, p)
			}
		}
	}
	return d
}

// assignment is one placement with all that is needed to run it. Where the spec of an older
// version is not stored any more its tasks get no command: they run already, or are to be
// stopped.
func assignment(s *cellstate.Snapshot, j *cellstate.Job, p *cellstate.Placement, cell string) *ohmv1.Assignment {
	a := &ohmv1.Assignment{Id: p.TaskID(), Placement: p.Record(), Stop: j.Record.GetSpec().GetStop()}
	if j = j.AsOf(p.Slot); j == nil || j.Group(p.Slot.Group) == nil {
		return a
	}
	spec, group := j.Record.GetSpec(), j.Group(p.Slot.Group)
	a.MaxRuntime, a.StartDeadline = spec.GetMaxRuntime(), group.GetStartDeadline()
	a.CpuMaxMilli, a.Pids = group.GetCpuMaxMilli(), group.GetPids()
	if len(group.GetContainers()) == 0 {
		a.Command, a.Box, a.Env = group.GetCommand(), group.GetBox(), environment(s, j, p, cell, group.GetEnv())
	}
	for _, c := range group.GetContainers() {
		a.Containers = append(a.Containers, &ohmv1.Container{
			Name: c.GetName(), Role: c.GetRole(), Command: c.GetCommand(), Box: c.GetBox(),
			Env: environment(s, j, p, cell, group.GetEnv(), c.GetEnv()),
		})
	}
	a.Network, a.Health = group.GetNetwork(), group.GetHealth()
	return a
}

// environment is complete: the user's variables, later ones over earlier ones, and Ohm's
// own, which win.
func environment(s *cellstate.Snapshot, j *cellstate.Job, p *cellstate.Placement, cell string, users ...map[string]string) map[string]string {
	env := map[string]string{}
	for _, user := range users {
		for name, value := range user {
			env[name] = expand(s, p.Slot.Namespace, value)
		}
	}
	var gpus []string
	for _, g := range p.GetGpus() {
		gpus = append(gpus, g.GetId())
	}
	env["OHM_NAMESPACE"] = p.Slot.Namespace
	env["OHM_JOB"] = p.Slot.Job
	env["OHM_GROUP"] = p.Slot.Group
	env["OHM_INDEX"] = fmt.Sprint(p.Slot.Index)
	env["OHM_ATTEMPT"] = fmt.Sprint(p.GetAttempt())
	env["OHM_TASK"] = p.Slot.Task()
	env["OHM_NODE"] = p.GetNode()
	env["OHM_CELL"] = cell
	env["OHM_GPUS"] = strings.Join(gpus, ",")
	for _, port := range p.GetPorts() {
		name := strings.ToUpper(strings.ReplaceAll(port.GetName(), "-", "_"))
		env["OHM_PORT_"+name] = fmt.Sprint(port.GetNumber())
	}
	if j.Record.GetSpec().GetGang() != nil {
		gangEnvironment(env, j, p)
	}
	return env
}

// gangEnvironment tells a member of a gang who the others are, and where to meet.
func gangEnvironment(env map[string]string, j *cellstate.Job, p *cellstate.Placement) {
	members := cellstate.Members(j, p)
	hosts := make([]string, len(members))
	for rank, m := range members {
		hosts[rank] = m.GetNode()
		if cellstate.SlotOf(m.GetSlot()) == p.Slot {
			env["OHM_RANK"] = fmt.Sprint(rank)
		}
	}
	env["OHM_WORLD_SIZE"] = fmt.Sprint(len(members))
	env["OHM_HOSTS"] = strings.Join(hosts, ",")
	env["MASTER_ADDR"] = hosts[0]
	for _, port := range members[0].GetPorts() {
		if port.GetName() == jobspec.MasterPort {
			env["MASTER_PORT"] = fmt.Sprint(port.GetNumber())
		}
	}
}
