package schedtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
)

// Takes is a policy whose decisions take their time: what it decides on is that old when it
// commits.
type Takes struct {
	Policy schedulers.Scheduler
	Time   time.Duration
}

// Schedule implements schedulers.Scheduler.
func (p Takes) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	out, err := p.Policy.Schedule(ctx, in)
	select {
	case <-time.After(p.Time):
	case <-ctx.Done():
	}
	return out, err
}

// Churn is the users and agents of a cell that is never quiet: there are always so many
// one-task jobs of the quick schedulers, live or waiting, and every task ends, well, after
// its life.
type Churn struct {
	Store  schedulers.Store
	Mirror *mirror.Mirror // a running one
	Of     []string       // the quick schedulers
	Jobs   func() int     // of theirs, each of one task of one core; asked at each tick
	Life   time.Duration
	Tick   time.Duration // how often they act

	named int
}

// Run plays on until ctx ends. A write that is refused, since the mirror lagged, is tried
// again at the next tick.
func (c *Churn) Run(ctx context.Context) error {
	tick := time.NewTicker(c.Tick)
	defer tick.Stop()
	for ctx.Err() == nil {
		if s := c.Mirror.Snapshot(); s != nil {
			out, err := c.Store.Commit(ctx, c.step(s)...)
			if err == nil {
				_, err = c.Mirror.WaitSnapshot(ctx, out.Revision)
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}

func (c *Churn) step(s *cellstate.Snapshot) (writes []cellstate.Write) {
	open := 0
	for j := range s.Jobs() {
		ours := slices.Contains(c.Of, j.Record.GetSpec().GetScheduler())
		if ours {
			open++
		}
		for _, t := range j.Tasks {
			switch {
			case t.Placement != nil && time.Since(t.Placement.GetTime().AsTime()) >= c.Life:
				writes = append(writes, cellstate.Write{Records: cellstate.ReleaseRecords(t, celltest.StatusOf(t.Placement, task.Succeeded))})
			case t.Placement == nil && ours:
				from, end := cellstate.TasksKeys(j.Name)
				writes = append(writes, cellstate.Write{
					Guards:  []cellstate.Guard{{Key: from, End: end, Revision: s.Revision(), NotNewer: true, Delete: true}},
					Records: []cellstate.Record{{Key: cellstate.JobKey(j.Name), Read: j.Revision}, {Key: cellstate.WaitingKey(j.Name), Read: j.WaitingRevision}},
				})
				open--
			}
		}
	}
	for jobs := c.Jobs(); open < jobs; open++ {
		c.named++
		spec := celltest.Job{Name: fmt.Sprintf("short-%d", c.named), Scheduler: c.Of[c.named%len(c.Of)], CPU: 1000}.Proto()
		writes = append(writes, cellstate.Write{Records: []cellstate.Record{
			{Key: cellstate.JobKey(cellstate.JobNameOf(spec)), Value: &ohmv1.Job{Spec: spec, Version: 1, SubmitTime: timestamppb.Now()}},
		}})
	}
	return writes
}
