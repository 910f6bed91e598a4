package reconcile

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// ErrNothingGood says that there is no version to go back to.
var ErrNothingGood = errors.New("no older version is known of which all tasks were well")

// Next is the record of a live job of which the spec changes, and its rollout: nil where no
// task has to come to anything. Groups whose tasks stay what they are keep their version, and
// those that become again what they were when all was well have the version of that time:
// tasks that are still there from then stay.
func Next(row *cellstate.Job, spec *ohmv1.JobSpec, now time.Time) (*ohmv1.Job, *ohmv1.Rollout) {
	next := &ohmv1.Job{
		Spec: spec, Version: row.Record.GetVersion() + 1, SubmitTime: timestamppb.New(now), GroupVersions: groupVersions(row, spec),
		Run: RunOf(row), RunVersion: row.Record.GetRunVersion(), Again: row.Record.GetAgain(),
		After: row.Record.GetAfter(), Released: row.Record.GetReleased(), TimedOut: row.Record.GetTimedOut(),
		Succeeded: row.Record.GetSucceeded(), StoppedThrough: row.Record.GetStoppedThrough(),
	}
	if spec.GetKind() != kindService {
		return next, nil
	}
	is := &cellstate.Job{Record: next}
	moved := func(g *ohmv1.Group) bool { return is.VersionOf(g.GetName()) != row.VersionOf(g.GetName()) }
	gone := func(g *ohmv1.Group) bool { return is.Group(g.GetName()) == nil }
	if was := row.Record.GetSpec().GetGroups(); !slices.ContainsFunc(spec.GetGroups(), moved) && !slices.ContainsFunc(was, gone) {
		return next, row.Rollout
	}
	return next, &ohmv1.Rollout{Version: next.Version, State: RolloutRunning, Progress: next.SubmitTime, Good: good(row)}
}

// good is the newest record of which all tasks were well, seen from a job's row that is about to
// change; nil if none was.
func good(row *cellstate.Job) *ohmv1.Job {
	if row.Rollout != nil && row.Rollout.GetState() != RolloutDone || row.Rollout == nil && !allUp(row) {
		return row.Rollout.GetGood()
	}
	record := proto.CloneOf(row.Record)
	record.MoreRequestIds = nil
	return record
}

func allUp(row *cellstate.Job) bool {
	for _, g := range row.Record.GetSpec().GetGroups() {
		if slices.ContainsFunc(positions(row, g), func(p position) bool { return !up(row, p.is) }) {
			return false
		}
	}
	return true
}

// Revert is the record of a live service that goes back to the newest version of which all
// tasks were well, and its rollout. Nobody has to promote it, and counts that somebody has set
// since stay.
func Revert(row *cellstate.Job, now time.Time) (*ohmv1.Job, *ohmv1.Rollout, error) {
	to := row.Rollout.GetGood()
	if to == nil {
		return nil, nil, ErrNothingGood
	}
	counts := keptCounts(row.Record, to)
	next, rollout := Next(row, withCounts(proto.CloneOf(to.GetSpec()), counts), now)
	next.Digest, next.Scaled = to.GetDigest(), counts
	if rollout == row.Rollout { // nothing but what is around the tasks changes
		return next, rollout, nil
	}
	rollout.Reverts = true
	return next, rollout, nil
}

// Reverts says whether a rollout that has just failed is to be reverted without anybody's word.
func Reverts(j *cellstate.Job, next *ohmv1.Rollout) bool {
	return next.GetState() == RolloutFailed && !next.GetReverts() && next.GetGood() != nil &&
		j.Record.GetSpec().GetUpdate().GetOnFailure() == OnFailureRevert
}

// groupVersions are those of a job whose live record changes to spec.
func groupVersions(row *cellstate.Job, spec *ohmv1.JobSpec) map[string]int64 {
	var kept map[string]int64
	for _, was := range []*cellstate.Job{{Record: row.Rollout.GetGood()}, row} { // the one that counts is the last
		for _, g := range spec.GetGroups() {
			if was.Group(g.GetName()) == nil || len(Reaches(was.Record.GetSpec(), spec, g.GetName())) > 0 {
				continue
			}
			if kept == nil {
				kept = map[string]int64{}
			}
			kept[g.GetName()] = was.VersionOf(g.GetName())
		}
	}
	return kept
}
