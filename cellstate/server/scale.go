package server

import (
	"context"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Scale sets the count of one group of a live service.
func (s *jobs) Scale(ctx context.Context, req *ohmv1.ScaleRequest) (*ohmv1.ScaleResponse, error) {
	name, now := jobName(req.GetNamespace(), req.GetJob()), time.Now()
	var resp *ohmv1.ScaleResponse
	snapshot, err := s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
		row, err := find(at, name)
		if err != nil {
			return w, err
		}
		var next *ohmv1.Job
		var rollout *ohmv1.Rollout
		if next, rollout, resp, err = scaled(row, req, now); err != nil {
			return w, err
		}
		addJob(&w, at, name, next, rollout, now)
		if next != nil && cellstate.Barred(row.Record.GetSpec(), next.GetSpec()) {
			w.Records = append(w.Records, cellstate.Barrier(at, "rules of job "+name.Name))
		}
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	resp.Revision = int64(snapshot.Revision())
	return resp, nil
}

// scaled is a job's record, and its rollout, with the count asked for; next is nil where it has
// that already.
func scaled(row *cellstate.Job, req *ohmv1.ScaleRequest, now time.Time) (next *ohmv1.Job, rollout *ohmv1.Rollout, resp *ohmv1.ScaleResponse, err error) {
	was := row.Record
	if !row.Live() || was.GetSpec().GetKind() != "service" {
		return nil, nil, nil, refuse(errPrecondition, "job %s is not a live service, which alone can be scaled; that of any other job is changed in its file", row.Name)
	}
	group, err := groupToScale(row, req.GetGroup())
	if err != nil {
		return nil, nil, nil, err
	}
	spec, counts := reconcile.Scale(was, group, req.GetCount())
	if problems := jobspec.Validate(spec); len(problems) > 0 {
		return nil, nil, nil, refuse(errInvalid, "job %s with %d of %s: %s", row.Name, req.GetCount(), group, problems[0])
	}
	resp = &ohmv1.ScaleResponse{
		Namespace: row.Name.Namespace, Job: row.Name.Name, Group: group, Was: row.Group(group).GetCount(), Count: req.GetCount(),
		FileCount: counts[len(counts)-1].GetFileCount(), Version: was.GetVersion(),
	}
	if resp.Unchanged = resp.Was == resp.Count; resp.Unchanged {
		return nil, nil, resp, nil
	}
	next, rollout = reconcile.Next(row, spec, now)
	// Whoever repeats the request that wrote the job as it was submitted finds it.
	next.RequestId, next.MoreRequestIds, next.Digest, next.Scaled = was.GetRequestId(), was.GetMoreRequestIds(), was.GetDigest(), counts
	resp.Version = next.GetVersion()
	return next, rollout, resp, nil
}

func groupToScale(row *cellstate.Job, given string) (string, error) {
	groups := row.Record.GetSpec().GetGroups()
	switch {
	case given == "" && len(groups) == 1:
		return groups[0].GetName(), nil
	case given == "":
		return "", refuse(errInvalid, "job %s has groups: %s; name one, as in %s/%s", row.Name, groupNames(row.Record.GetSpec()), row.Name.Name, groups[0].GetName())
	case row.Group(given) == nil:
		return "", refuse(cellstate.ErrNotFound, "job %s has no group %s; it has %s", row.Name, given, groupNames(row.Record.GetSpec()))
	}
	return given, nil
}
