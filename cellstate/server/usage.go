package server

import (
	"context"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const (
	usageTasks  = 1000            // the most of which one request asks
	usageWithin = 5 * time.Second // for all agents to answer
	usageSoon   = time.Second     // the same, where usage is only a part of the answer
)

// usages are the questions that agents have not answered yet, by id.
type usages struct {
	mu      sync.Mutex
	waiting map[string]chan *ohmv1.UsageReport
}

func (u *usages) wait(id string) <-chan *ohmv1.UsageReport {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waiting == nil {
		u.waiting = map[string]chan *ohmv1.UsageReport{}
	}
	answer := make(chan *ohmv1.UsageReport, 1)
	u.waiting[id] = answer
	return answer
}

// answered passes an answer on to whoever waits for it, if anybody still does.
func (u *usages) answered(id string, report *ohmv1.UsageReport) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if answer := u.waiting[id]; answer != nil {
		answer <- report
	}
	delete(u.waiting, id)
}

// Stats asks the agents what running tasks use.
func (s *jobs) Stats(ctx context.Context, req *ohmv1.StatsRequest) (*ohmv1.StatsResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	row, err := find(snapshot, jobName(req.GetNamespace(), req.GetJob()))
	if err != nil {
		return nil, err
	}
	if req.GetGroup() != "" && row.Group(req.GetGroup()) == nil {
		return nil, refuse(cellstate.ErrNotFound, "job %s has no group %s; it has %s", row.Name, req.GetGroup(), groupNames(row.Record.GetSpec()))
	}
	var tasks []*cellstate.Task
	for _, t := range row.Tasks {
		if runs(t) && (req.GetGroup() == "" || req.GetGroup() == t.Slot.Group) && (req.GetAnyIndex() || int(req.GetIndex()) == t.Slot.Index) {
			tasks = append(tasks, t)
		}
	}
	if len(tasks) > usageTasks {
		return nil, refuse(errInvalid, "%d tasks run, and at most %d can be asked about at once; name a group or a task", len(tasks), usageTasks)
	}
	return &ohmv1.StatsResponse{Tasks: s.gateway.usage(ctx, tasks, usageWithin)}, nil
}

func runs(t *cellstate.Task) bool {
	state := t.Status.GetState()
	return t.Placement != nil && state >= task.Starting && !task.Ended(state)
}

// usage asks the agents of the tasks, all at once. What was not said in time has a message.
func (g *gateway) usage(ctx context.Context, tasks []*cellstate.Task, within time.Duration) (stats []*ohmv1.TaskStats) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	byNode := map[string][]*ohmv1.TaskStats{}
	ids := map[*ohmv1.TaskStats]string{}
	for _, t := range tasks {
		one := &ohmv1.TaskStats{
			Namespace: t.Slot.Namespace, Task: t.Slot.Task(), Version: t.Slot.Version, Attempt: t.Placement.GetAttempt(), Node: t.Placement.GetNode(),
		}
		stats, ids[one] = append(stats, one), cellstate.TaskID(t.Placement.Record())
		byNode[one.GetNode()] = append(byNode[one.GetNode()], one)
	}
	var asking sync.WaitGroup
	for node, of := range byNode {
		asking.Go(func() {
			var names []string
			for _, one := range of {
				names = append(names, ids[one])
			}
			report, err := g.askUsage(ctx, node, names)
			for _, one := range of {
				one.Usage = report.GetTasks()[ids[one]]
				switch {
				case err != nil:
					one.Message = err.Error()
				case one.Usage == nil:
					one.Message = "node " + node + " has no figures of it"
				}
			}
		})
	}
	asking.Wait()
	return stats
}

func (g *gateway) askUsage(ctx context.Context, node string, ids []string) (*ohmv1.UsageReport, error) {
	s := g.session(cellstate.NodeName(node))
	if s == nil {
		return nil, g.elsewhere(node)
	}
	id := ulid.Make().String()
	answer := g.usages.wait(id)
	defer g.usages.answered(id, nil) // or it is forgotten
	err := s.ask(ctx, &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Usage{Usage: &ohmv1.UsageRequest{Id: id, TaskIds: ids}}})
	if err != nil {
		return nil, err
	}
	select {
	case report := <-answer:
		return report, nil
	case <-s.ctx.Done():
		return nil, refuse(errUnavailable, "the session of node %s ended before its agent answered", node)
	case <-ctx.Done():
		return nil, refuse(errUnavailable, "the agent of node %s has not answered in time", node)
	}
}
