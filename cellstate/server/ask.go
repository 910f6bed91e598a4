package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const (
	askLease = 30 * time.Second // of questions and answers, whatever becomes of this server
	askWait  = 3 * time.Second  // for an answer
	askMost  = 64               // schedulers asked for one answer
)

// ask puts questions to schedulers, and waits until one has given an answer that will do, or
// all have answered. A question is a record that the scheduler sees in its mirror and writes
// its answer into: a scheduler has no address, and one that the server cannot reach answers,
// too. Questions and answers hang on a lease that ends with the wait.
func (s *Server) ask(ctx context.Context, questions []*ohmv1.Ask, will func(*ohmv1.Ask) bool) (answers []*ohmv1.Ask, err error) {
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	lease, err := s.cfg.Store.Grant(bounded, askLease)
	if err != nil {
		return nil, storeError(bounded, err)
	}
	defer func() {
		last, cancel := s.bounded(context.WithoutCancel(ctx))
		defer cancel()
		if err := s.cfg.Store.Revoke(last, lease); err != nil {
			s.log.Debug("questions to schedulers end with their lease", zap.Error(err))
		}
	}()
	var w cellstate.Write
	var keys []cellstate.Key
	for _, q := range questions[:min(len(questions), askMost)] {
		q.Id, q.Lease = ulid.Make().String(), int64(lease)
		keys = append(keys, cellstate.AskKey(q.GetScheduler(), q.GetId()))
		w.Records = append(w.Records, cellstate.Record{Key: keys[len(keys)-1], Value: q, Lease: lease})
	}
	out, err := s.commit(bounded, w)
	if err != nil {
		return nil, storeError(bounded, err)
	}
	if out.Applied[0] == 0 {
		return nil, refuse(cellstate.ErrConflict, "the question could not be written; try again")
	}
	wait, stop := context.WithTimeout(ctx, askWait)
	defer stop()
	for {
		snapshot, newer := s.cfg.Mirror.Watch()
		if answers = given(snapshot, questions); len(answers) == len(keys) || slices.ContainsFunc(answers, will) {
			return answers, nil
		}
		select {
		case <-newer:
		case <-wait.Done():
			return answers, context.Cause(ctx)
		}
	}
}

// given are the answers that stand in a snapshot.
func given(s *cellstate.Snapshot, questions []*ohmv1.Ask) (answers []*ohmv1.Ask) {
	if s == nil {
		return nil
	}
	for _, q := range questions {
		for a := range s.Asks(q.GetScheduler()) {
			if a.GetId() == q.GetId() && a.GetAnsweredBy() != "" {
				answers = append(answers, a)
			}
		}
	}
	return answers
}

// ExplainNode asks the job's scheduler.
func (s *insight) ExplainNode(ctx context.Context, req *ohmv1.ExplainNodeRequest) (*ohmv1.NodeAnswer, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	row, err := find(snapshot, jobName(req.GetNamespace(), req.GetJob()))
	if err != nil {
		return nil, err
	}
	scheduler := row.Record.GetSpec().GetScheduler()
	node := snapshot.Node(cellstate.NodeName(req.GetNode()))
	switch {
	case node == nil || node.Facts == nil && node.Intent == nil:
		return nil, refuse(cellstate.ErrNotFound, "node %s not found", req.GetNode())
	case !row.Live():
		return nil, refuse(errPrecondition, "job %s is over: nothing of it goes to a node any more", row.Name)
	case schedulerState(snapshot.Scheduler(scheduler)) != schedulerLive:
		return nil, refuse(errPrecondition, "no process of scheduler %s is there, and only that can say", scheduler)
	}
	answers, err := s.ask(ctx, []*ohmv1.Ask{{
		Scheduler: scheduler, Namespace: row.Name.Namespace, Job: row.Name.Name, Node: req.GetNode(),
	}}, func(*ohmv1.Ask) bool { return true })
	switch {
	case err != nil:
		return nil, err
	case len(answers) == 0:
		return nil, refuse(errUnavailable, "scheduler %s has not answered within %v; try again", scheduler, askWait)
	case answers[0].GetAboutNode() == nil:
		return nil, refuse(errPrecondition, "scheduler %s cannot say: %s", scheduler, answers[0].GetProblem())
	}
	return answers[0].GetAboutNode(), nil
}

// ExplainTxn asks the scheduler instance that has decided a transaction or, where nothing that is
// stored names it, all of them.
func (s *insight) ExplainTxn(ctx context.Context, req *ohmv1.GetTxnRequest) (*ohmv1.Decision, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	stored, storedErr := s.GetTxn(ctx, req)
	if storedErr != nil && !errors.Is(storedErr, cellstate.ErrNotFound) {
		return nil, storedErr
	}
	var questions []*ohmv1.Ask
	for row := range snapshot.Schedulers() {
		for _, i := range row.Instances {
			if stored == nil || row.Name == stored.GetScheduler() && i.GetInstance() == stored.GetInstance() {
				questions = append(questions, &ohmv1.Ask{Scheduler: row.Name, Instance: i.GetInstance(), Transaction: req.GetTransaction()})
			}
		}
	}
	silent := false
	if len(questions) > 0 {
		has := func(a *ohmv1.Ask) bool { return a.GetDecision() != nil }
		answers, err := s.ask(ctx, questions, has)
		if at := slices.IndexFunc(answers, has); at >= 0 {
			return answers[at].GetDecision(), nil
		}
		if err != nil && storedErr != nil {
			return nil, err
		}
		silent = len(answers) < len(questions)
	}
	switch {
	case storedErr != nil && silent:
		return nil, refuse(errUnavailable, "nothing of transaction %s is stored, and not every scheduler has said within %v whether its decision log has it; try again", req.GetTransaction(), askWait)
	case storedErr != nil:
		return nil, refuse(cellstate.ErrNotFound, "transaction %s is beyond retention, or never was: no scheduler's decision log has it, and nothing of it is stored", req.GetTransaction())
	}
	d := storedDecision(stored)
	switch {
	case silent:
		d.Message = fmt.Sprintf("its scheduler has not answered within %v", askWait)
	case len(questions) > 0:
		d.Message = "beyond the retention of its scheduler's decision log"
	default:
		d.Message = "the process that decided it is gone, and its decision log with it"
	}
	d.Message += "; this is what the cell has stored of it"
	return d, nil
}

// storedDecision is what the placements, ended attempts and conflicts of a transaction say of how it
// was decided.
func storedDecision(t *ohmv1.TxnView) *ohmv1.Decision {
	d := &ohmv1.Decision{
		Transaction: t.GetTransaction(), Scheduler: t.GetScheduler(), Instance: t.GetInstance(), Mode: t.GetMode(), Claims: t.GetClaims(),
		SnapshotRevision: t.GetSnapshotRevision(), Time: t.GetTime(), Committed: int32(len(t.GetCommitted())), Source: "store",
	}
	switch {
	case len(t.GetRefused()) == 0:
		d.Outcome = cellstate.FateCommitted
	case len(t.GetCommitted()) > 0:
		d.Outcome = cellstate.FatePartly
	default:
		d.Outcome = cellstate.FateLost
	}
	for _, c := range t.GetCommitted() {
		d.Chosen = append(d.Chosen, &ohmv1.ChosenNode{Namespace: c.GetNamespace(), Task: c.GetTask(), Attempt: c.GetAttempt(), Node: c.GetNode()})
		d.Revision = max(d.Revision, c.GetRevision())
	}
	for _, c := range t.GetRefused() {
		d.Lost = append(d.Lost, &ohmv1.LostClaim{
			Task: c.GetTask(), Node: c.GetNode(), Reason: c.GetReason(), Dimension: c.GetDimension(), Wanted: c.GetWanted(), Free: c.GetFree(),
			Winner: c.GetWinner().GetTask(), WinnerScheduler: c.GetWinner().GetScheduler(),
		})
	}
	return d
}
