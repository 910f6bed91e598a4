package schedulers

import (
	"cmp"
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
)

// startSlack is what is allowed for beside a task's maxRuntime, which begins when it starts.
const startSlack = 2 * time.Second

// Runs is how long an attempt of the job may take from its claim on; 0: nobody knows.
func Runs(job *cellstate.Job) time.Duration {
	if most := job.Record.GetSpec().GetMaxRuntime(); most != nil {
		return most.AsDuration() + startSlack
	}
	return 0
}

// ends is when an attempt that is claimed now is over at the latest; zero: nobody knows.
func ends(job *cellstate.Job, now time.Time) time.Time {
	if runs := Runs(job); runs > 0 {
		return now.Add(runs)
	}
	return time.Time{}
}

// ahead is where and when there will be room.
type ahead struct {
	starts  time.Time // zero: nobody knows
	awaits  map[cellstate.NodeName]cellstate.Awaited
	gathers bool // it takes more than the end of one placement
	never   bool // there would be none if nobody else had reserved room either
}

// gathers says whether what was found ahead takes more than the end of one placement.
func (u *starving) gathers(s *cellstate.Snapshot, a ahead, gone func(*cellstate.Placement) bool) bool {
	ends := 0
	for _, on := range a.awaits {
		ends += on.Ends
	}
	if ends < 2 || len(a.awaits) > 1 {
		return ends > 1
	}
	trial := &starving{job: u.job, needs: u.needs, least: u.least, txn: &cellstate.Txn{ID: u.txn.ID}}
	for name := range a.awaits {
		row := []*cellstate.Node{s.Node(name)}
		for _, p := range s.Node(name).Unsorted() {
			if gone(p) && trial.fillAll(s, row, func(o *cellstate.Placement) bool { return o == p }, 0) {
				return false
			}
		}
	}
	return true
}

// ahead finds the nodes on which there will be room for the needs at the earliest, by the
// latest ends of what stands there, and makes the transaction's claims of them. What has no end
// counts as standing for ever, unless there is no room ahead otherwise: then the nodes where
// the least of that stands are taken. What should be over by now will be any moment. False
// if there is no room even where nothing stands.
func (u *starving) ahead(s *cellstate.Snapshot, now time.Time, most int) (ahead, bool) {
	nodes := u.able(s)
	times := []time.Time{now}
	for _, n := range nodes {
		for _, p := range n.Unsorted() {
			if end := p.GetLatestEnd().AsTime(); p.GetLatestEnd() != nil && end.After(now) {
				times = append(times, end)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)
	at := func(t time.Time) func(*cellstate.Placement) bool {
		return func(p *cellstate.Placement) bool {
			return p.GetLatestEnd() != nil && !p.GetLatestEnd().AsTime().After(t)
		}
	}
	first, _ := slices.BinarySearchFunc(times, true, func(t time.Time, _ bool) int {
		if u.fillAll(s, nodes, at(t), most) {
			return 1
		}
		return -1
	})
	if first < len(times) {
		u.fillAll(s, nodes, at(times[first]), most)
		return u.aheadAt(s, times[first], at(times[first])), true
	}
	all := func(*cellstate.Placement) bool { return true }
	endless := func(n *cellstate.Node) (gpus int64, cpu int64) {
		for _, p := range n.Unsorted() {
			if p.GetLatestEnd() == nil {
				cpu += p.GetResources().GetCpuMilli()
				for _, g := range p.GetGpus() {
					gpus += int64(g.GetMilli())
				}
			}
		}
		return gpus, cpu
	}
	slices.SortStableFunc(nodes, func(a, b *cellstate.Node) int {
		ag, ac := endless(a)
		bg, bc := endless(b)
		return cmp.Or(cmp.Compare(ag, bg), cmp.Compare(ac, bc))
	})
	if !u.fillAll(s, nodes, all, most) {
		u.alone = true
		never := !u.fillAll(s, nodes, all, most)
		u.alone = false
		return ahead{never: never}, false
	}
	return u.aheadAt(s, time.Time{}, all), true
}

func (u *starving) aheadAt(s *cellstate.Snapshot, starts time.Time, gone func(*cellstate.Placement) bool) ahead {
	a := ahead{starts: starts, awaits: u.awaited(s, gone)}
	a.gathers = u.gathers(s, a, gone)
	return a
}

// able are the nodes that may take one of the needs at all.
func (u *starving) able(s *cellstate.Snapshot) (nodes []*cellstate.Node) {
	for n := range s.Nodes() {
		if n.Facts == nil {
			continue
		}
		for i, need := range u.needs {
			if (i == 0 || need.Group != u.needs[i-1].Group) && (need.Node == "" || need.Node == n.Name) && holdsEmpty(n, need) {
				nodes = append(nodes, n)
				break
			}
		}
	}
	return nodes
}

// fillAll claims for the needs on nodes without what is gone, first come first served, on at
// most so many nodes (0: any number). False if too few of them find room.
func (u *starving) fillAll(s *cellstate.Snapshot, nodes []*cellstate.Node, gone func(*cellstate.Placement) bool, most int) bool {
	return u.fillOne(s, nodes, most, func(n *cellstate.Node) *cellstate.Node { return n.Without(gone, u.own) })
}

// own says whether a hold does not keep the job off: it is a reservation for it.
func (u *starving) own(h *cellstate.Hold) bool {
	return u.alone || h.GetReserves() && cellstate.SlotOf(h.GetSlot()).JobName() == u.job.Name
}

// awaited is what has to end on the nodes that are claimed.
func (u *starving) awaited(s *cellstate.Snapshot, gone func(*cellstate.Placement) bool) map[cellstate.NodeName]cellstate.Awaited {
	out := map[cellstate.NodeName]cellstate.Awaited{}
	for _, c := range u.txn.Claims {
		if _, known := out[c.Node]; known {
			continue
		}
		var a cellstate.Awaited
		for _, p := range s.Node(c.Node).Placements() {
			if !gone(p) {
				continue
			}
			a.Ends++
			if a.Last == nil || a.Last.GetLatestEnd() != nil && (p.GetLatestEnd() == nil || a.Last.GetLatestEnd().AsTime().Before(p.GetLatestEnd().AsTime())) {
				a.Last = p
			}
		}
		out[c.Node] = a
	}
	return out
}
