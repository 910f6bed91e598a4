package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Plan says what an apply of these jobs would change, and writes nothing but the questions to their
// schedulers. Each job is looked at by itself, on one snapshot.
func (s *insight) Plan(ctx context.Context, req *ohmv1.PlanRequest) (*ohmv1.PlanResponse, error) {
	limits := s.cfg.Store.Limits()
	specs, err := admit(&ohmv1.SubmitRequest{Jobs: req.GetJobs()}, limits)
	if err != nil {
		return nil, err
	}
	at, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	resp := &ohmv1.PlanResponse{SnapshotRevision: int64(at.Revision())}
	token := &ohmv1.PlanToken{Incarnation: incarnation(at)}
	var questions []*ohmv1.Ask
	of := map[string]*ohmv1.JobPlan{} // by the scheduler's question
	for _, spec := range specs {
		plan, question, err := planJob(at, spec, limits, time.Now())
		if err != nil {
			return nil, err
		}
		resp.Jobs = append(resp.Jobs, plan)
		base := baseOf(at, spec)
		if base.Digest, err = digestOf(spec); err != nil {
			return nil, err
		}
		token.Jobs = append(token.Jobs, base)
		if question != nil {
			of[cellstate.JobNameOf(spec).String()] = plan
			questions = append(questions, question)
		}
	}
	if err := s.askWhere(ctx, questions, of); err != nil {
		return nil, err
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(token)
	if err != nil {
		return nil, err
	}
	resp.Token = base64.RawURLEncoding.EncodeToString(text)
	return resp, nil
}

// askWhere asks the schedulers where the tasks would go.
func (s *insight) askWhere(ctx context.Context, questions []*ohmv1.Ask, of map[string]*ohmv1.JobPlan) error {
	if len(questions) == 0 {
		return nil
	}
	answers, err := s.ask(ctx, questions, func(*ohmv1.Ask) bool { return false })
	if err != nil {
		return err
	}
	for i, q := range questions {
		plan := of[cellstate.JobNameOf(q.GetPlan().GetSpec()).String()]
		plan.Placement = &ohmv1.PlacementPlan{Scheduler: q.GetScheduler(), Problem: fmt.Sprintf("scheduler %s has not answered within %v", q.GetScheduler(), askWait)}
		if i >= askMost {
			plan.Placement.Problem = fmt.Sprintf("only the first %d jobs of a plan are asked about", askMost)
		}
		at := slices.IndexFunc(answers, func(a *ohmv1.Ask) bool { return a.GetId() == q.GetId() && q.GetId() != "" })
		switch {
		case at < 0:
		case answers[at].GetPlacement() != nil:
			plan.Placement = answers[at].GetPlacement()
		default:
			plan.Placement.Problem = answers[at].GetProblem()
		}
	}
	return nil
}

// planJob says what becomes of one job, and what its scheduler is to be asked; nil: nothing.
func planJob(at *cellstate.Snapshot, spec *ohmv1.JobSpec, limits cellstate.Limits, now time.Time) (*ohmv1.JobPlan, *ohmv1.Ask, error) {
	if err := knownScheduler(at, spec); err != nil {
		return nil, nil, err
	}
	name := cellstate.JobNameOf(spec)
	row := at.Job(name)
	next, rollout, submitted, err := run(row, spec, "", true, now)
	if err != nil {
		return nil, nil, err
	}
	if fault := tooWide(at, spec, limits); fault != "" {
		return nil, nil, refuse(errInvalid, "job %s: %s", spec.GetName(), fault)
	}
	plan := &ohmv1.JobPlan{
		Namespace: name.Namespace, Job: name.Name, Kind: spec.GetKind(), Version: submitted.GetVersion(), Unchanged: submitted.GetUnchanged(), Scaled: submitted.GetScaled(),
	}
	was := specOf(row)
	if row != nil {
		plan.Was = row.Record.GetVersion()
		plan.WasState = reconcile.Status(at, row, now).GetState()
	}
	if submitted.GetUnchanged() {
		plan.Effects = reconcile.Effects(row, at, row, now)
		return plan, nil, nil
	}
	for _, c := range jobspec.Changes(was, next.GetSpec()) {
		plan.Changes = append(plan.Changes, &ohmv1.FieldChange{Field: c.Field, Was: c.Was, Is: c.Is})
	}
	plan.Notices = nobodyCan(at, spec)
	stands := row
	if stands == nil {
		stands = &cellstate.Job{}
	}
	would, err := at.With(cellstate.JobRecords(stands, name, next, rollout)...)
	if err != nil {
		return nil, nil, err
	}
	plan.Effects = reconcile.Effects(row, would, would.Job(name), now)
	if schedulerState(at.Scheduler(spec.GetScheduler())) != schedulerLive {
		plan.Placement = &ohmv1.PlacementPlan{Scheduler: spec.GetScheduler(), Problem: fmt.Sprintf("no process of scheduler %s is there: its tasks wait until one is", spec.GetScheduler())}
		return plan, nil, nil
	}
	return plan, &ohmv1.Ask{Scheduler: spec.GetScheduler(), Namespace: name.Namespace, Job: name.Name, Plan: next, Rollout: rollout}, nil
}

// baseOf is what a plan for a job is made on.
func baseOf(at *cellstate.Snapshot, spec *ohmv1.JobSpec) *ohmv1.PlannedJob {
	name := cellstate.JobNameOf(spec)
	base := &ohmv1.PlannedJob{Namespace: name.Namespace, Job: name.Name}
	if row := at.Job(name); row != nil {
		base.Version, base.Stopped, base.Done = row.Record.GetVersion(), row.Record.GetStopped(), row.Record.GetDone() != nil
	}
	return base
}

func incarnation(at *cellstate.Snapshot) string {
	m, _ := at.Meta("incarnation")
	return m.GetValue()
}

// planned is what a token says, by job; nil: there was none.
type planned map[cellstate.JobName]*ohmv1.PlannedJob

// readToken reads a token of a plan for these very jobs, or says why it is none.
func readToken(at *cellstate.Snapshot, token string, specs []*ohmv1.JobSpec) (planned, error) {
	if token == "" {
		return nil, nil
	}
	says := &ohmv1.PlanToken{}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = proto.Unmarshal(text, says)
	}
	switch {
	case err != nil || len(says.GetJobs()) == 0:
		return nil, refuse(errInvalid, "the token is none of a plan; give it as `ohm plan` has printed it")
	case says.GetIncarnation() != incarnation(at):
		return nil, refuse(errPrecondition, "the store was restored since the plan was made; plan again")
	case len(specs) != len(says.GetJobs()):
		return nil, refuse(errPrecondition, "the plan was for %s, and this is for %d; plan again", plural(int32(len(says.GetJobs())), "job"), len(specs))
	}
	of := planned{}
	for _, j := range says.GetJobs() {
		of[cellstate.JobName{Namespace: j.GetNamespace(), Name: j.GetJob()}] = j
	}
	for _, spec := range specs {
		name := cellstate.JobNameOf(spec)
		if of[name] == nil {
			return nil, refuse(errPrecondition, "the plan was not for job %s; plan again", name)
		}
		if digest, err := digestOf(spec); err != nil {
			return nil, err
		} else if !bytes.Equal(digest, of[name].GetDigest()) {
			return nil, refuse(errPrecondition, "the content of job %s is not the one that was planned; plan again", name)
		}
	}
	return of, nil
}

// moved says what has happened to a job since it was planned; empty: nothing, or it was not.
func (p planned) moved(at *cellstate.Snapshot, spec *ohmv1.JobSpec) string {
	if p == nil {
		return ""
	}
	was, is := p[cellstate.JobNameOf(spec)], baseOf(at, spec)
	switch {
	case was.GetVersion() == 0 && is.GetVersion() > 0:
		return fmt.Sprintf("there was none, and now there is version %d", is.GetVersion())
	case is.GetVersion() == 0 && was.GetVersion() > 0:
		return fmt.Sprintf("it was version %d, and is gone", was.GetVersion())
	case was.GetVersion() != is.GetVersion():
		return fmt.Sprintf("it was version %d, and is version %d", was.GetVersion(), is.GetVersion())
	case was.GetStopped() != is.GetStopped():
		return "it has been stopped"
	case was.GetDone() != is.GetDone():
		return "it has ended"
	}
	return ""
}
