package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	"github.com/ohmcell/ohm/pkg/near"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// maxJobs bounds the jobs of one request, which are written as one.
const maxJobs = 100

// maxRequestID bounds a request id, in bytes.
const maxRequestID = 128

// Submit stores the jobs of a request, all or none.
func (s *jobs) Submit(ctx context.Context, req *ohmv1.SubmitRequest) (*ohmv1.SubmitResponse, error) {
	limits := s.cfg.Store.Limits()
	specs, err := admit(req, limits)
	if err != nil {
		return nil, err
	}
	order, circle := jobspec.Order(specs)
	if circle != nil {
		return nil, refuse(errInvalid, "%s", jobspec.CircleText(circle))
	}
	now := time.Now()
	resp := &ohmv1.SubmitResponse{}
	if err := s.tellRuns(ctx, specs, now); err != nil {
		return nil, err
	}
	snapshot, err := s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
		resp.Jobs = make([]*ohmv1.Submitted, len(specs))
		barred := false
		planned, err := readToken(at, req.GetToken(), specs)
		if err != nil {
			return w, err
		}
		follows := follower{at: at, specs: specs, runs: map[string]*ohmv1.Submitted{}}
		for _, i := range order {
			spec := specs[i]
			after, err := follows.after(spec)
			if err != nil {
				return w, err
			}
			if err := knownScheduler(at, spec); err != nil {
				return w, err
			}
			if spec.GetSchedule() != nil {
				if resp.Jobs[i], err = schedule(&w, at, spec, req.GetRequestId(), now); err != nil {
					return w, err
				}
				follows.add(resp.Jobs[i])
				continue
			}
			if req.GetNewRun() && jobspec.RunsToEnd(spec) {
				again := &ohmv1.Job{Spec: spec, RequestId: req.GetRequestId(), SubmitTime: timestamppb.New(now), After: after}
				submitted, begins, err := nextRun(&w, at, again, now)
				if err != nil {
					return w, err
				}
				if fault := tooWide(at, spec, limits); fault != "" && !submitted.GetUnchanged() {
					return w, refuse(errInvalid, "job %s: %s", spec.GetName(), fault)
				}
				if begins {
					submitted.Notices = nobodyCan(at, spec)
					barred = barred || cellstate.Barred(specOf(at.Job(cellstate.JobNameOf(spec))), spec)
				}
				resp.Jobs[i] = submitted
				follows.add(submitted)
				continue
			}
			next, rollout, submitted, err := run(at.Job(cellstate.JobNameOf(spec)), spec, req.GetRequestId(), req.GetApply(), now)
			if err != nil {
				return w, err
			}
			if moved := planned.moved(at, spec); moved != "" && !submitted.GetUnchanged() {
				return w, refuse(errPrecondition, "job %s is not what it was when the plan was made: %s; plan again", spec.GetName(), moved)
			}
			if fault := tooWide(at, spec, limits); fault != "" && next != nil && !submitted.GetUnchanged() {
				return w, refuse(errInvalid, "job %s: %s", spec.GetName(), fault)
			}
			if next != nil && !submitted.GetUnchanged() {
				submitted.Notices = nobodyCan(at, spec)
			}
			if row := at.Job(cellstate.JobNameOf(spec)); next != nil && (row == nil || next.GetRun() != reconcile.RunOf(row)) {
				next.After = after
			}
			resp.Jobs[i] = submitted
			follows.add(submitted)
			addJob(&w, at, cellstate.JobNameOf(spec), next, rollout, now)
			barred = barred || next != nil && cellstate.Barred(specOf(at.Job(cellstate.JobNameOf(spec))), spec)
		}
		if barred {
			w.Records = append(w.Records, cellstate.Barrier(at, "rules of job "+specs[0].GetName()))
		}
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	resp.Revision = int64(snapshot.Revision())
	return resp, nil
}

// specOf is the spec of a job's row; nil where there is none.
func specOf(row *cellstate.Job) *ohmv1.JobSpec {
	if row == nil {
		return nil
	}
	return row.Record.GetSpec()
}

// addJob adds a job's new record to w, and its rollout, and what stays of the run before if it is
// of another; or, where next is nil, that the record must still be the one that was read.
func addJob(w *cellstate.Write, at *cellstate.Snapshot, name cellstate.JobName, next *ohmv1.Job, rollout *ohmv1.Rollout, now time.Time) {
	row := at.Job(name)
	if row == nil {
		row = &cellstate.Job{}
	}
	if next == nil {
		w.Guards = append(w.Guards, cellstate.Guard{Key: cellstate.JobKey(name), Revision: row.Revision})
		return
	}
	w.Records = append(w.Records, cellstate.JobRecords(row, name, next, rollout)...)
	if row.Record != nil && reconcile.RunOf(&cellstate.Job{Record: next}) != reconcile.RunOf(row) && !isTold(row) {
		w.Records = append(w.Records, reconcile.Over(at, row, now))
	}
}

// admit judges a request by itself and returns its jobs with every default filled in.
func admit(req *ohmv1.SubmitRequest, limits cellstate.Limits) ([]*ohmv1.JobSpec, error) {
	switch n := len(req.GetJobs()); {
	case n == 0:
		return nil, refuse(errInvalid, "the request has no jobs")
	case n > maxJobs:
		return nil, refuse(errInvalid, "the request has %d jobs, more than the %d that are stored as one; send it in parts", n, maxJobs)
	case len(req.GetRequestId()) > maxRequestID:
		return nil, refuse(errInvalid, "the request id is %d bytes long, more than %d", len(req.GetRequestId()), maxRequestID)
	}
	var specs []*ohmv1.JobSpec
	var faults []string
	seen := map[cellstate.JobName]bool{}
	for i, given := range req.GetJobs() {
		at := ""
		if len(req.GetJobs()) > 1 {
			at = fmt.Sprintf("jobs[%d] (%.70s): ", i, given.GetName())
		}
		problems := jobspec.Validate(given)
		for _, p := range problems {
			faults = append(faults, at+p.String())
		}
		if len(problems) > 0 {
			continue
		}
		spec := proto.CloneOf(given)
		jobspec.Defaults(spec)
		if fault := tooLarge(spec, limits); fault != "" {
			faults = append(faults, at+fault)
		}
		name := cellstate.JobNameOf(spec)
		if seen[name] {
			faults = append(faults, at+fmt.Sprintf("job %s is in the request twice", name))
		}
		seen[name] = true
		specs = append(specs, spec)
	}
	if len(faults) > 0 {
		return nil, refuse(errInvalid, "%s", strings.Join(faults, "\n"))
	}
	return specs, nil
}

// knownScheduler refuses a job whose scheduler nobody has ever registered: it would
// wait for ever.
func knownScheduler(at *cellstate.Snapshot, spec *ohmv1.JobSpec) error {
	var known []string
	for row := range at.Schedulers() {
		if row.Name == spec.GetScheduler() {
			return nil
		}
		known = append(known, row.Name)
	}
	text := fmt.Sprintf("job %s names scheduler %q, which is not registered", spec.GetName(), spec.GetScheduler())
	if len(known) == 0 {
		return refuse(errInvalid, "%s; none is", text)
	}
	text += "; known are " + strings.Join(known, ", ")
	if meant := near.Of(spec.GetScheduler(), known); meant != "" {
		text += fmt.Sprintf("; did you mean %s?", meant)
	}
	return refuse(errInvalid, "%s", text)
}

// run decides what a submission of spec makes of the job's row: the next record, nil
// if nothing is to be written, and what is to stand as its rollout.
//
//	the same request id          the same run: nothing, or a refusal if the content differs
//	live and the same content    the same run: the request's id is noted
//	live and other content       a new version; kind and scheduler must stay, and so do the
//	                             tasks of groups of which no process is reached by the change.
//	                             What the content is: with the counts that somebody has set
//	applied, with the content    nothing: it has been done
//	of a job that has ended
//	done, stopped or never there a new run: a new version, marks cleared
func run(row *cellstate.Job, spec *ohmv1.JobSpec, requestID string, apply bool, now time.Time) (*ohmv1.Job, *ohmv1.Rollout, *ohmv1.Submitted, error) {
	digest, err := digestOf(spec)
	if err != nil {
		return nil, nil, nil, err
	}
	if row != nil && row.Record != nil {
		was := row.Record
		same := &ohmv1.Submitted{Namespace: spec.GetNamespace(), Job: spec.GetName(), Version: was.GetVersion(), Run: reconcile.RunOf(row), Unchanged: true}
		if requestID != "" && (was.GetRequestId() == requestID || slices.Contains(was.GetMoreRequestIds(), requestID)) {
			if !bytes.Equal(was.GetDigest(), digest) {
				return nil, nil, nil, refuse(errReused, "request id %q was used before to submit job %s with other content", requestID, row.Name)
			}
			return nil, nil, same, nil
		}
		if row.Live() {
			spec, scaled := reconcile.WithScaled(was, spec)
			same.Scaled = scaled
			if proto.Equal(was.GetSpec(), spec) {
				return joined(was, requestID), row.Rollout, same, nil
			}
			if err := changeable(row.Name, was.GetSpec(), spec); err != nil {
				return nil, nil, nil, err
			}
			next, rollout := reconcile.Next(row, spec, now)
			next.RequestId, next.Digest, next.Scaled = requestID, digest, scaled
			return next, rollout, &ohmv1.Submitted{Namespace: spec.GetNamespace(), Job: spec.GetName(), Version: next.GetVersion(), Run: next.GetRun(), Scaled: scaled}, nil
		}
		if apply && was.GetDone() != nil && !was.GetStopped() && bytes.Equal(was.GetDigest(), digest) {
			return nil, nil, same, nil
		}
	}
	if row == nil {
		row = &cellstate.Job{}
	}
	next := reconcile.Begin(row, reconcile.NewestRun(row)+1, &ohmv1.Job{Spec: spec, SubmitTime: timestamppb.New(now), RequestId: requestID, Digest: digest})
	return next, nil, &ohmv1.Submitted{Namespace: spec.GetNamespace(), Job: spec.GetName(), Version: next.GetVersion(), Run: next.GetRun()}, nil
}

// joinedIDs bounds the ids of requests that one version has answered.
const joinedIDs = 32

// joined is a live job's record once a request with the same content has found it, so that
// a repeat of that request is known even after the job's end; nil: it stays as it is.
func joined(was *ohmv1.Job, requestID string) *ohmv1.Job {
	if requestID == "" {
		return nil
	}
	next := proto.CloneOf(was)
	ids := append(next.GetMoreRequestIds(), requestID)
	next.MoreRequestIds = ids[max(0, len(ids)-joinedIDs):]
	return next
}

// changeable refuses a change that would hand a live job's tasks to other rules.
func changeable(name cellstate.JobName, was, next *ohmv1.JobSpec) error {
	for _, field := range []struct{ name, was, next string }{
		{"kind", was.GetKind(), next.GetKind()},
		{"scheduler", was.GetScheduler(), next.GetScheduler()},
	} {
		if field.was != field.next {
			return refuse(errPrecondition, "job %s is live, and its %s cannot change from %s to %s; stop it first",
				name, field.name, field.was, field.next)
		}
	}
	if !proto.Equal(was.GetAfter(), next.GetAfter()) {
		return refuse(errPrecondition, "job %s is live, and what its run is to follow cannot change; stop it first", name)
	}
	return nil
}

// digestOf names the content of a job.
func digestOf(spec *ohmv1.JobSpec) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("digest of job %s: %w", spec.GetName(), err)
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}
