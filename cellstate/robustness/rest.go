package robustness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
)

// restWithin is how long a cell may take to come to rest after traffic and faults: leases
// and the losses of nodes must run out first.
const restWithin = 60 * time.Second

// rest waits until nothing is left to do, and looks whether what stands is what should.
func (r *run) rest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, restWithin)
	defer cancel()
	err := until(ctx, "the cell comes to rest", func(ctx context.Context) error {
		s, err := r.reader.Load(ctx)
		if err != nil {
			return err
		}
		if open := Unsettled(s); len(open) > 0 {
			return fmt.Errorf("%d things are open: %s", len(open), strings.Join(open[:min(10, len(open))], "; "))
		}
		return r.machines(ctx, s)
	})
	if err != nil {
		r.violated("rest", "%v", err)
		return
	}
	for _, p := range r.cell.parts {
		if err := r.sees(ctx, p); err != nil {
			r.violated("mirror", "%s: %v", p.instance, err)
		}
	}
	if err := until(ctx, "the audit's state is the store's", r.audits); err != nil {
		r.violated("audit", "%v", err)
	}
}

// Unsettled is what of a cell without traffic is not as it should be: jobs that should be
// over or placed, tasks that nobody wants, nodes that are away, room and shares of quotas
// that are kept for nobody.
func Unsettled(s *cellstate.Snapshot) (open []string) {
	say := func(format string, args ...any) { open = append(open, fmt.Sprintf(format, args...)) }
	for j := range s.Jobs() {
		live := 0
		for _, t := range j.Tasks {
			if t.Placement == nil {
				continue
			}
			live++
			switch {
			case j.Record == nil:
				say("task %s of no job is live", t.Slot)
			case !j.Current(t.Slot):
				say("task %s is live, its group has version %d", t.Slot, j.VersionOf(t.Slot.Group))
			case t.Status.GetState() != task.Running:
				say("task %s is %s", t.Slot, task.Name(t.Status.GetState()))
			case t.Placement.GetEvictedBy() != "":
				say("task %s is evicted and still there", t.Slot)
			}
		}
		wanted := 0
		if j.Live() && j.Record.GetSpec().GetKind() == "service" {
			for _, g := range j.Record.GetSpec().GetGroups() {
				wanted += int(g.GetCount())
			}
		} else if j.Live() {
			say("job %s is not done", j.Name)
		}
		if live != wanted {
			say("job %s has %d live tasks, wanted are %d", j.Name, live, wanted)
		}
	}
	for n := range s.Nodes() {
		if n.Alive == nil {
			say("node %s has no session", n.Name)
		}
		for _, h := range n.Holds {
			say("room on node %s is held for %s of %s", n.Name, h.GetTxn(), h.GetInstance())
		}
	}
	for q := range s.Quotas() {
		for _, share := range q.Shares {
			switch {
			case share.Tasks > 0 && !s.Registered(share.Spender):
				say("%s of %s is spent by nobody", share.Instance, q.Scope)
			case !s.Registered(share.Spender) && share.Granted() != share.Used:
				say("a share of %s is left with %s, which is gone", q.Scope, share.Instance)
			case share.Record.GetWanted() != nil:
				say("%s wants more of %s, and has no work", share.Instance, q.Scope)
			}
		}
	}
	return open
}

// machines says whether on the nodes runs exactly what stands in the store.
func (r *run) machines(ctx context.Context, s *cellstate.Snapshot) error {
	for n := range s.Nodes() {
		var want, got []string
		for _, p := range n.Placements() {
			want = append(want, p.TaskID())
		}
		tasks, err := r.cell.drivers[string(n.Name)].List(ctx)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			if !task.Ended(t.State) {
				got = append(got, t.ID)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			return fmt.Errorf("node %s runs %v, the store has %v", n.Name, got, want)
		}
	}
	return nil
}

// sees compares the mirror of a process with the store. Records of registrations and the
// like come and go also at rest, so it looks more than once.
func (r *run) sees(ctx context.Context, p *part) (err error) {
	file := filepath.Join(r.Dir, p.instance+".state")
	for range 10 {
		var s *cellstate.Snapshot
		if s, err = r.reader.Load(ctx); err != nil {
			return err
		}
		answer, asking := p.process.ask(fmt.Sprintf("state %d %s", s.Revision(), file))
		if asking != nil {
			return asking
		}
		if answer == "0" {
			return fmt.Errorf("its mirror has not come to revision %d", s.Revision())
		}
		raw, reading := os.ReadFile(file)
		if reading != nil {
			return reading
		}
		difference := Differ(Show(s), string(raw))
		if difference == "" {
			return nil
		}
		err = errors.New(difference)
		if pause(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
	return err
}

// audits compares what the audit has come to with the store.
func (r *run) audits(ctx context.Context) error {
	s, err := r.reader.Load(ctx)
	if err != nil {
		return err
	}
	if difference := Differ(Show(s), Show(r.follower.state())); difference != "" {
		return errors.New(difference)
	}
	return nil
}
