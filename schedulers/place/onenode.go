package place

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/constraint"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// ExplainNode asks the filters of the table about one node: for each group of the work's jobs
// all that keeps its tasks off, in the order of the filters, and what would give way. See
// schedulers.NodeExplainer.
func (t *Table) ExplainNode(_ context.Context, in schedulers.Input, node cellstate.NodeName) ([]*ohmv1.NodeGroup, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follow(in.Snapshot)
	t.reservations(in.Now)
	r := &Round{t: t, home: in.Home, seed: in.Seed, requests: map[group]*Request{}, evictions: in.Evictions}
	i, known := t.index[node]
	if !known {
		return nil, fmt.Errorf("there is no node %s", node)
	}
	var groups []*ohmv1.NodeGroup
	for _, w := range in.Work {
		if len(w.Needs) > 0 && len(w.Needs[0].BusyPorts) > 0 {
			r.busy = map[*cellstate.Job][]reconcile.BusyPort{w.Job: w.Needs[0].BusyPorts}
		}
		for _, g := range w.Job.Record.GetSpec().GetGroups() {
			q := r.Request(w.Job, g)
			out := &ohmv1.NodeGroup{Group: g.GetName()}
			for _, f := range t.Filters {
				out.Refusals = append(out.Refusals, t.refusalsOf(f, q, i)...)
			}
			out.Fits = len(out.Refusals) == 0
			if !out.Fits {
				out.GivesWay = r.givesWay(q, i)
			}
			groups = append(groups, out)
		}
	}
	return groups, nil
}

// refusalsOf is all that one filter has against a candidate.
func (t *Table) refusalsOf(f Filter, q *Request, i int) (all []*ohmv1.NodeRefusal) {
	c := &t.candidates[i]
	dimension, ok := f.Check(q, c)
	if ok {
		return nil
	}
	refuse := func(dimension string) *ohmv1.NodeRefusal {
		all = append(all, &ohmv1.NodeRefusal{Reason: f.Name(), Dimension: dimension})
		return all[len(all)-1]
	}
	switch f.(type) {
	case Constraints:
		for _, want := range q.Constraints {
			if _, ok := cellstate.Matches(c.Node, []*ohmv1.Constraint{want}); !ok {
				has, _ := c.Node.Label(want.GetKey())
				w := refuse(want.GetKey())
				w.Wanted, w.Has = constraint.Text(want), cmp.Or(has, "none")
			}
		}
	case Rules:
		for n := range q.rules {
			if g := &q.rules[n]; g.Required && g.refuses(i) {
				refuse(g.Text()).Detail = ruleDetail(q, g.Text(), i, c.Node.Name)
			}
		}
	case Resources:
		has := c.Node.Facts.GetCapacity()
		for _, d := range []struct {
			name            string
			want, free, has int64
		}{
			{"cpu", q.CPUMilli, c.FreeCPU, has.GetCpuMilli()},
			{"memory", q.MemoryBytes, c.FreeMemory, has.GetMemoryBytes()},
			{"disk", q.DiskBytes, c.FreeDisk, has.GetDiskBytes()},
		} {
			if short(d.want, d.free) {
				w := refuse(d.name)
				w.Wanted, w.Free, w.Has = amountsText(d.name, d.want, max(0, d.free), d.has)
			}
		}
	default:
		w := refuse(dimension)
		w.Detail = c.against(q, w)
	}
	for _, w := range all {
		schedulers.Takers(c.Node, w)
	}
	return all
}

// amountsText writes amounts of one dimension so that they can be told apart.
func amountsText(dimension string, wanted, free, has int64) (w, f, h string) {
	if dimension == "cpu" {
		return resource.FormatCPU(wanted), resource.FormatCPU(free), resource.FormatCPU(has)
	}
	f, w = resource.RoundPair(free, wanted)
	return w, f, resource.RoundBytes(has)
}

// against says for people what one filter has against a candidate, and fills in amounts.
func (c *Candidate) against(q *Request, w *ohmv1.NodeRefusal) string {
	switch w.GetReason() {
	case ReasonNotReady:
		return "no live session"
	case string(cellstate.ReasonIneligible):
		if c.Node.Intent.GetDrain() {
			return "it is drained"
		}
		return "its operator keeps new tasks off"
	case string(cellstate.ReasonDiskFull):
		return c.Node.Facts.GetDiskFull()
	case ReasonHollow:
		return "it is simulated; a constraint with the key hollow asks for one"
	case string(cellstate.ReasonCannot):
		return "driver " + cmp.Or(c.Node.Facts.GetDriver(), "unknown")
	case string(cellstate.ReasonPort):
		return portDetail(q, c, w.GetDimension())
	case string(cellstate.ReasonHold):
		return "it has the room, which is held"
	}
	if w.GetDimension() == "gpus" {
		return c.devicesAgainst(q, w)
	}
	return ""
}

// devicesAgainst says of each GPU of a candidate why it is not for a request.
func (c *Candidate) devicesAgainst(q *Request, w *ohmv1.NodeRefusal) string {
	if len(c.GPUs) == 0 {
		w.Wanted, w.Free, w.Has = fmt.Sprint(q.GPUs), "0", "0"
		if broken := c.Node.Facts.GetDeviceError(); broken != "" {
			return "its devices cannot be told: " + broken
		}
		return "it has no GPU"
	}
	var parts []string
	for i, d := range c.Node.Facts.GetGpus() {
		g := &c.GPUs[i]
		about := fmt.Sprintf("%s (%s) ", g.ID, g.Model)
		_, why := cellstate.ShareOn(d, q.gpus)
		switch {
		case why != "":
			parts = append(parts, about+"is one "+why)
		case d.GetHealth() != cellstate.DeviceHealthy:
			parts = append(parts, about+"is not usable: "+cellstate.HealthText(d))
		case q.takes(g):
			parts = append(parts, about+"is free")
		case g.Free <= 0:
			parts = append(parts, about+"is taken")
		default:
			parts = append(parts, fmt.Sprintf("%shas %s left of %s wanted", about, resource.FormatShare(g.Free), resource.FormatShare(q.on(g))))
		}
	}
	w.Wanted, w.Free, w.Has = fmt.Sprint(q.GPUs), fmt.Sprint(freeDevices(q, c)), fmt.Sprint(len(c.GPUs))
	if q.SameModel {
		w.Wanted += " of one model"
	}
	return strings.Join(parts, ", ")
}

// givesWay says what would give way for a request on a candidate, or why nothing does; "" where
// nothing of lower precedence stands there.
func (r *Round) givesWay(q *Request, i int) string {
	c := &r.t.candidates[i]
	lower := slices.ContainsFunc(c.Node.Unsorted(), func(p *cellstate.Placement) bool {
		return int(p.GetPrecedence()) < q.Precedence && p.GetEvictedBy() == ""
	})
	switch {
	case !lower:
		return ""
	case r.evictions.Now.IsZero():
		return "nothing: this scheduler evicts nobody"
	case !r.keeps(q, i):
		return "nothing: a rule keeps it off all the same"
	case c.reservedAgainst(q):
		return "nothing: room is reserved here for another"
	}
	r.rigid = rigid{}
	e := r.evictOn(q, i, q.Precedence)
	switch {
	case e == nil && r.rigid.young > 0:
		return fmt.Sprintf("nothing: what is of lower precedence has not run for %v", r.evictions.MinRun)
	case e == nil && r.rigid.tired > 0:
		return fmt.Sprintf("nothing: what is of lower precedence was evicted %d times before", r.evictions.PerTask)
	case e == nil && r.rigid.spent > 0:
		return fmt.Sprintf("nothing: the disruption budget of job %s is used up", r.rigid.budget.Job.Name)
	case e == nil:
		return fmt.Sprintf("nothing: even without all tasks of a precedence below %d that may give way it would not do", q.Precedence)
	case len(e.victims) > r.evictions.Most:
		return "nothing: this scheduler has evicted as many tasks of late as it may"
	}
	var names []string
	for _, v := range e.victims {
		names = append(names, v.Slot.Task())
	}
	return strings.Join(names, ", ")
}
