package schedulers

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Codes of an Estimate.
const (
	EstimateRoom      = "Room"
	EstimateReserved  = "Reserved"
	EstimateLimits    = "Limits"
	EstimateNoLimit   = "NoLimit"
	EstimateFragments = "Fragments"
	EstimateNoRoom    = "NoRoom"
	EstimateTooMany   = "TooMany"
)

// looks bounds how often an estimate asks whether a task fits on a node: some 0.1 s.
const looks = 2_000_000

// ending is room that comes free.
type ending struct {
	at   time.Time
	node int
	free cellstate.Amounts
}

// endings is a heap, the first to come on top.
type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// forecast plays what will be: whoever is first in line takes what room there is, on the first
// node that has it, and gives it back after the longest that it may run. Room is amounts;
// devices and ports one by one are for the policy to fit, and it may do better.
type forecast struct {
	nodes   []*cellstate.Node
	free    []cellstate.Amounts
	ends    endings
	endless []string // jobs of tasks that stand, or will stand, for nobody knows how long
	left    int      // looks
}

// estimate is when the first task of self, or its gang, has room, after those before it.
func estimate(s *cellstate.Snapshot, before []*entry, self *entry, now time.Time) *ohmv1.Estimate {
	for n := range s.Nodes() {
		for _, h := range n.Holds {
			if h.GetReserves() && h.GetStarts() != nil && cellstate.SlotOf(h.GetSlot()).JobName() == self.name {
				return &ohmv1.Estimate{Start: h.GetStarts(), Code: EstimateReserved, Basis: fmt.Sprintf("room is reserved for it on node %s from then on", n.Name)}
			}
		}
	}
	f := newForecast(s)
	line := append(slices.Clip(before), self)
	all := make([]int, len(f.nodes))
	for i := range all {
		all[i] = i
	}
	for at, on := now, all; ; {
		for i, e := range line {
			if e == nil {
				continue
			}
			left, placed := f.place(e, on, at)
			switch {
			case f.left <= 0:
				return &ohmv1.Estimate{Code: EstimateTooMany, Basis: fmt.Sprintf("%d jobs ahead of it are too many to play through", len(before))}
			case placed && e == self && at.Equal(now) && !refused(self.job):
				return &ohmv1.Estimate{Start: timestamppb.New(now), Code: EstimateRoom, Basis: "there is room for it, and its scheduler has not come to it yet"}
			case placed && e == self && at.Equal(now):
				return &ohmv1.Estimate{Code: EstimateFragments, Basis: "after those ahead of it nodes have all that it asks for, in sum: what keeps it off is among the reasons"}
			case placed && e == self:
				return &ohmv1.Estimate{Start: timestamppb.New(at), Code: EstimateLimits, Basis: f.basis(len(before))}
			case len(left) == 0:
				line[i] = nil
			case placed:
				rest := *e
				rest.needs = left
				line[i] = &rest
			}
		}
		if len(f.ends) == 0 {
			return f.never(self)
		}
		at, on = f.ends[0].at, nil
		for len(f.ends) > 0 && f.ends[0].at.Equal(at) {
			e := heap.Pop(&f.ends).(ending)
			on = append(on, e.node)
			f.free[e.node] = f.free[e.node].Plus(e.free)
		}
		slices.Sort(on)
		on = slices.Compact(on)
		if at.Before(now) { // what should be over by now will be any moment
			at = now.Add(time.Nanosecond)
		}
		if gangs(line) {
			on = all
		}
	}
}

// refused says whether the scheduler of a job has found no room for it.
func refused(j *cellstate.Job) bool {
	return j.Waiting.GetJobVersion() == j.Record.GetVersion() && len(j.Waiting.GetGroups()) > 0
}

func gangs(line []*entry) bool {
	return slices.ContainsFunc(line, func(e *entry) bool { return e != nil && gang(e.job) })
}

func newForecast(s *cellstate.Snapshot) *forecast {
	f := &forecast{left: looks}
	for n := range s.Nodes() {
		if n.Facts == nil {
			continue
		}
		free := cellstate.Capacity(n.Facts)
		for _, p := range n.Placements() {
			if p.GetEvictedBy() != "" { // its room is its heir's already
				continue
			}
			free = free.Minus(p.Amounts())
			if p.GetLatestEnd() == nil {
				f.endless = append(f.endless, p.Slot.JobName().String())
			} else {
				f.ends = append(f.ends, ending{p.GetLatestEnd().AsTime(), len(f.nodes), p.Amounts()})
			}
		}
		f.nodes, f.free = append(f.nodes, n), append(f.free, free)
	}
	heap.Init(&f.ends)
	return f
}

// place takes room for what finds it of an entry's needs, on some nodes; a gang all together
// or not at all. It returns those that are left.
func (f *forecast) place(e *entry, on []int, at time.Time) (left []reconcile.Need, placed bool) {
	type claim struct {
		node int
		free cellstate.Amounts
	}
	var claims []claim
	from := 0 // of the nodes before it none has room for the like of the last need
	var like *ohmv1.Group
	for _, need := range e.needs {
		f.left--
		want := cellstate.GroupAmounts(need.Group)
		if need.Group != like || need.Node != "" {
			from, like = 0, need.Group
		}
		for from < len(on) && !f.fits(on[from], need, want) {
			from++
		}
		if from == len(on) {
			left = append(left, need)
			continue
		}
		f.free[on[from]] = f.free[on[from]].Minus(want)
		claims = append(claims, claim{on[from], want})
	}
	if gang(e.job) && len(claims) < e.least() {
		for _, c := range claims {
			f.free[c.node] = f.free[c.node].Plus(c.free)
		}
		return e.needs, false
	}
	end := ends(e.job, at)
	for _, c := range claims {
		if end.IsZero() {
			f.endless = append(f.endless, e.name.String())
			continue
		}
		heap.Push(&f.ends, ending{end, c.node, c.free})
	}
	return left, len(claims) > 0
}

func (f *forecast) fits(node int, need reconcile.Need, want cellstate.Amounts) bool {
	f.left--
	n := f.nodes[node]
	for d, amount := range want {
		if amount > 0 && f.free[node][d] < amount {
			return false
		}
	}
	return (need.Node == "" || need.Node == n.Name) && holdsEmpty(n, need)
}

func (f *forecast) basis(ahead int) string {
	text := "by the maxRuntime of what stands there"
	if ahead > 0 {
		text += fmt.Sprintf(" and of the %d %s ahead of it", ahead, plural(int32(ahead), "job"))
	}
	return text + ": it may well be sooner"
}

// never is the answer where nothing more ends.
func (f *forecast) never(self *entry) *ohmv1.Estimate {
	for i := range f.nodes {
		if holdsEmpty(f.nodes[i], self.needs[0]) && len(f.endless) > 0 {
			slices.Sort(f.endless)
			names := slices.Compact(f.endless)
			more := ""
			if len(names) > 3 {
				more = fmt.Sprintf(" and %d others", len(names)-3)
			}
			return &ohmv1.Estimate{Code: EstimateNoLimit, Basis: fmt.Sprintf("what stands there or is ahead of it has declared no maxRuntime: %s%s", strings.Join(names[:min(3, len(names))], ", "), more)}
		}
	}
	return &ohmv1.Estimate{Code: EstimateNoRoom, Basis: "not even if all that has an end is over"}
}
