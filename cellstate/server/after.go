package server

import (
	"cmp"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// follower finds out which runs the names of jobs mean that others are to follow.
type follower struct {
	at    *cellstate.Snapshot
	specs []*ohmv1.JobSpec
	runs  map[string]*ohmv1.Submitted // of the same request, by namespace and job
}

func (f *follower) add(s *ohmv1.Submitted) { f.runs[s.GetNamespace()+"/"+s.GetJob()] = s }

// after are the runs that a job is to follow: those of the same request, else the newest ones.
func (f *follower) after(spec *ohmv1.JobSpec) ([]*ohmv1.Dependency, error) {
	var all []*ohmv1.Dependency
	for _, on := range []struct {
		on   string
		jobs []string
	}{{reconcile.OnOK, spec.GetAfter().GetOk()}, {reconcile.OnFail, spec.GetAfter().GetFail()}, {reconcile.OnAny, spec.GetAfter().GetAny()}} {
		for _, job := range on.jobs {
			run, err := f.run(spec, job)
			if err != nil {
				return nil, err
			}
			all = append(all, &ohmv1.Dependency{Job: job, Run: run, On: on.on})
		}
	}
	return all, nil
}

func (f *follower) run(spec *ohmv1.JobSpec, job string) (int64, error) {
	name := cellstate.JobName{Namespace: spec.GetNamespace(), Name: job}
	row := cmp.Or(f.at.Job(name), &cellstate.Job{})
	kind := row.Record.GetSpec()
	run := reconcile.NewestRun(row)
	if s := f.runs[name.Namespace+"/"+job]; s != nil {
		run = s.GetRun()
		for _, other := range f.specs {
			if cellstate.JobNameOf(other) == name {
				kind = other
			}
		}
	}
	switch {
	case run == 0:
		return 0, refuse(errInvalid, "job %s is to follow job %s, which is not known; submit that before, or together with it", spec.GetName(), job)
	case kind != nil && !jobspec.RunsToEnd(kind):
		return 0, refuse(errInvalid, "job %s is to follow job %s, which is of kind %s and does not end by itself", spec.GetName(), job, kind.GetKind())
	}
	return run, nil
}
