package robustness

import (
	"context"
	"time"

	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
)

// Slow is a policy whose decisions take so long that others have taken what it chose: it
// loses, and has room held for it. Its gangs are decided on as those of ml are, the rest as batch.
type Slow struct {
	tasks, gangs schedulers.Scheduler
	most         time.Duration // of a decision
}

// slowHoldAfter is after how many losses Slow's scheduler has room held.
const slowHoldAfter = 2

// NewSlow returns a policy that takes between a quarter of a time and all of it.
func NewSlow(most time.Duration) *Slow { return &Slow{batch.New(), ml.New(), most} }

// Schedule implements schedulers.Scheduler. What it proposes for gangs may be in the way
// of the rest.
func (p *Slow) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	var tasks, gangs []schedulers.Work
	for _, w := range in.Work {
		if w.Job.Record.GetSpec().GetKind() == "ml" {
			gangs = append(gangs, w)
		} else {
			tasks = append(tasks, w)
		}
	}
	var all schedulers.Proposal
	for _, part := range []struct {
		policy schedulers.Scheduler
		work   []schedulers.Work
	}{{p.gangs, gangs}, {p.tasks, tasks}} {
		if len(part.work) == 0 {
			continue
		}
		in.Work = part.work
		out, err := part.policy.Schedule(ctx, in)
		if err != nil {
			return schedulers.Proposal{}, err
		}
		all.Txns, all.Unplaced = append(all.Txns, out.Txns...), append(all.Unplaced, out.Unplaced...)
	}
	least := p.most / 4
	return all, pause(ctx, least+time.Duration(in.Seed%uint64(max(1, p.most-least))))
}
