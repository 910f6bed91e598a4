package server

import (
	"fmt"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// What would let a job start, in Unblock.code.
const (
	unblockScheduler = "Scheduler" // somebody runs it
	unblockTurn      = "Turn"      // those ahead of it have their room, or go
	unblockQuota     = "Quota"     // others of the scope end, or the quota is raised
	unblockNever     = "Never"     // the job or the cell changes
	unblockRetry     = "Retry"     // time passes
	unblockRoom      = "Room"      // a node has more room, or is another one
	unblockVictims   = "Victims"   // those of lower precedence may give way
)

// unblocks are what would let a job start that waits, the first cause first.
func unblocks(s *cellstate.Snapshot, row *cellstate.Job, queue *ohmv1.QueueView, now time.Time) (all []*ohmv1.Unblock) {
	add := func(code, format string, args ...any) {
		all = append(all, &ohmv1.Unblock{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	needs, wake := reconcile.Defaults().Needs(s, row, now)
	if len(needs) == 0 {
		if wake.After(now) {
			add(unblockRetry, "its next attempt, in %s", wake.Sub(now).Round(time.Second))
		}
		return all
	}
	scheduler := row.Record.GetSpec().GetScheduler()
	if schedulerState(s.Scheduler(scheduler)) != schedulerLive {
		add(unblockScheduler, "somebody who runs scheduler %s, or another scheduler for the job", scheduler)
	}
	if ahead := queue.GetPosition() - 1; ahead > 0 {
		add(unblockTurn, "its turn: %d %s ahead of it", ahead, are(ahead))
	}
	if row.Waiting.GetJobVersion() != row.Record.GetVersion() {
		return all
	}
	for _, g := range row.Waiting.GetGroups() {
		switch reasons := g.GetReasons(); {
		case g.GetNever() != "":
			add(unblockNever, "another job or other nodes: of group %s %s", g.GetGroup(), g.GetNever())
			continue
		case len(reasons) > 0 && reasons[0].GetReason() == string(cellstate.ReasonQuota):
			add(unblockQuota, "room in the quota (%s) for group %s: the end of other tasks, or a larger quota", reasons[0].GetDimension(), g.GetGroup())
			continue
		}
		for _, r := range g.GetReasons() {
			if r.GetRemedy() != "" {
				add(unblockRoom, "group %s %s", g.GetGroup(), r.GetRemedy())
			}
		}
		if g.GetNoVictims() != "" {
			add(unblockVictims, "that what is of lower precedence may give way to group %s: %s", g.GetGroup(), g.GetNoVictims())
		}
	}
	return all
}

func are(jobs int32) string {
	if jobs == 1 {
		return "job is"
	}
	return "jobs are"
}
