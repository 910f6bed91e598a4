package schedulers

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// answersAtOnce bounds the answers of one request to the store: they wait, placements do not.
const answersAtOnce = 8

// answer answers what servers have asked of this instance, and says whether it wrote: then
// there is a newer snapshot to go on with. A question is a record of the server's, so a
// scheduler that nobody can reach answers like any other.
func (r *Runner) answer(ctx context.Context, s *cellstate.Snapshot, now time.Time) (wrote bool) {
	standing := map[string]bool{}
	var writes []cellstate.Write
	for a := range s.Asks(r.Name) {
		standing[a.GetId()] = true
		if a.GetAnsweredBy() != "" || r.answered[a.GetId()] || len(writes) == answersAtOnce || !r.isFor(a) {
			continue
		}
		key := cellstate.AskKey(r.Name, a.GetId())
		writes = append(writes, cellstate.Write{Records: []cellstate.Record{
			{Key: key, Value: r.answerTo(ctx, s, now, a), Read: s.RecordRevision(key), Lease: cellstate.Lease(a.GetLease())},
		}})
		r.answered[a.GetId()] = true
	}
	for id := range r.answered {
		if !standing[id] {
			delete(r.answered, id)
		}
	}
	if len(writes) == 0 {
		return false
	}
	out, err := r.Store.Commit(ctx, writes...)
	if err == nil {
		_, err = r.Cell.WaitSnapshot(ctx, out.Revision)
	}
	if err != nil && ctx.Err() == nil { // who asked is told that nobody answers
		r.noAnswer("answering a question", err)
	}
	return true
}

// isFor says whether a question is for this instance.
func (r *Runner) isFor(a *ohmv1.Ask) bool {
	if a.GetInstance() != "" {
		return a.GetInstance() == r.Instance
	}
	name := cellstate.JobName{Namespace: a.GetNamespace(), Name: a.GetJob()}
	if a.GetPlan() != nil { // it may not be there yet
		return r.queue.shares.owns(name)
	}
	e := r.queue.jobs[name]
	return e != nil && e.owned && e.job != nil
}

func (r *Runner) answerTo(ctx context.Context, s *cellstate.Snapshot, now time.Time, a *ohmv1.Ask) *ohmv1.Ask {
	answered := proto.CloneOf(a)
	answered.AnsweredBy = r.Instance
	if a.GetTransaction() != "" {
		answered.Decision = r.decided.decision(cellstate.TxnID(a.GetTransaction()))
		return answered
	}
	if a.GetPlan() != nil {
		plan, err := r.aboutPlan(ctx, s, now, a)
		if err != nil {
			answered.Problem = err.Error()
		}
		answered.Placement = plan
		return answered
	}
	answer, err := r.aboutNode(ctx, s, now, a)
	if err != nil {
		answered.Problem = err.Error()
	}
	answered.AboutNode = answer
	return answered
}

// aboutNode says why the tasks of a job do not go to a node.
func (r *Runner) aboutNode(ctx context.Context, s *cellstate.Snapshot, now time.Time, a *ohmv1.Ask) (*ohmv1.NodeAnswer, error) {
	e := r.queue.jobs[cellstate.JobName{Namespace: a.GetNamespace(), Name: a.GetJob()}]
	if e == nil || e.job == nil {
		return nil, fmt.Errorf("job %s/%s is none of this scheduler's", a.GetNamespace(), a.GetJob())
	}
	node := cellstate.NodeName(a.GetNode())
	if s.Node(node) == nil {
		return nil, fmt.Errorf("there is no node %s", node)
	}
	answer := &ohmv1.NodeAnswer{
		Namespace: a.GetNamespace(), Job: a.GetJob(), Node: a.GetNode(), Scheduler: r.Name, Instance: r.Instance,
		SnapshotRevision: int64(s.Revision()), Basis: "the filters of policy " + r.Policy,
	}
	if policy, ok := r.Scheduler.(NodeExplainer); ok {
		in := Input{Snapshot: s, Work: []Work{{Job: e.job, Needs: e.needs}}, Limits: r.Store.Limits(), Evictions: r.mayEvict(), Now: now}
		groups, err := policy.ExplainNode(ctx, in, node)
		if err != nil {
			return nil, err
		}
		answer.Groups = groups
	} else {
		answer.Basis = "the rule of the commit: policy " + r.Policy + " does not speak of single nodes"
		for _, g := range e.job.Record.GetSpec().GetGroups() {
			answer.Groups = append(answer.Groups, byRule(s, e.job, g, s.Node(node), e.needs))
		}
	}
	for _, g := range answer.Groups {
		for _, n := range e.needs {
			if n.Slot.Group == g.GetGroup() {
				g.Waiting++
			}
		}
		if g.Message == "" {
			g.Message = e.beyondNode(g)
		}
	}
	return answer, nil
}

// beyondNode says what keeps a group's tasks off a node on which they fit.
func (e *entry) beyondNode(g *ohmv1.NodeGroup) string {
	if g.GetWaiting() == 0 {
		return "no task of it waits for a node"
	}
	if !g.GetFits() {
		return ""
	}
	for slot := range e.flying {
		if slot.Group == g.GetGroup() {
			return "a claim of it is on its way"
		}
	}
	r, refused := e.refusals[g.GetGroup()]
	switch {
	case r.quota != "":
		return "it waits " + r.quota
	case e.problem != "":
		return e.problem
	case refused:
		return "it waits for more than this node: " + groupText(g.GetGroup(), g.GetWaiting(), r)
	case e.lost != "":
		return "it is tried again: " + e.lost
	}
	return "it is about to be decided"
}
