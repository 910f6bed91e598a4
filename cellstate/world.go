package cellstate

import (
	"cmp"
	"slices"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// member is what a claim of a gang becomes in its world.
type member struct {
	world      string
	size, rank int32
}

// world gives the claims of a gang's transaction their ranks. They join the world of the
// members that live, where a slot that was in it has the rank it had and others come after
// those; where none lives, they found one. nil: they are no gang's.
func (p *planner) world(txn *Txn, fit []accepted) map[Slot]member {
	if txn.Mode != Atomic || len(fit) == 0 {
		return nil
	}
	members := make(map[Slot]member, len(fit))
	jobs := map[JobName][]Slot{} // nearly always one
	for _, a := range fit {
		s := txn.Claims[a.claim].Slot
		jobs[s.JobName()] = append(jobs[s.JobName()], s)
	}
	for name, slots := range jobs {
		job := p.valid.snapshot.Job(name)
		if job.Record.GetSpec().GetGang() == nil {
			continue
		}
		world := livingWorld(job)
		ranks, size := ranksIn(job, world)
		if world == "" {
			world = string(txn.ID)
		}
		byRank(job, slots)
		for _, s := range slots {
			rank, known := ranks[placeOf(s)]
			if !known {
				rank = size
				size++
			}
			members[s] = member{world: world, rank: rank}
		}
		for _, s := range slots {
			m := members[s]
			m.size = size
			members[s] = m
		}
	}
	return members
}

// livingWorld is the newest world of which a member lives that is of the job's present
// version; empty: none.
func livingWorld(j *Job) (world string) {
	for _, t := range j.Tasks {
		if t.Placement != nil && j.Current(t.Slot) {
			world = max(world, t.Placement.GetWorld()) // ids of transactions sort by time
		}
	}
	return world
}

// place is where a slot stands in its job, whatever the version.
type place struct {
	group string
	index int
}

func placeOf(s Slot) place { return place{s.Group, s.Index} }

// ranksIn are the ranks of a world that are known, and how many it has.
func ranksIn(j *Job, world string) (ranks map[place]int32, size int32) {
	if world == "" {
		return nil, 0
	}
	ranks = map[place]int32{}
	for p := range worldOf(j, world) {
		ranks[placeOf(SlotOf(p.GetSlot()))] = p.GetRank()
		size = max(size, p.GetWorldSize(), p.GetRank()+1)
	}
	return ranks, size
}

// worldOf are the placements of a world: of each slot those that have ended, the oldest
// first, and then the live one.
func worldOf(j *Job, world string) func(yield func(*ohmv1.Placement) bool) {
	return func(yield func(*ohmv1.Placement) bool) {
		for _, t := range j.Tasks {
			for _, e := range t.Ended {
				if e.GetPlacement().GetWorld() == world && !yield(e.GetPlacement()) {
					return
				}
			}
			if t.Placement.GetWorld() == world && !yield(t.Placement.Record()) {
				return
			}
		}
	}
}

// byRank sorts slots by their groups, in the order of the job, and index.
func byRank(j *Job, slots []Slot) {
	order := map[string]int{}
	for i, g := range j.Record.GetSpec().GetGroups() {
		order[g.GetName()] = i
	}
	slices.SortFunc(slots, func(a, b Slot) int {
		return cmp.Or(cmp.Compare(order[a.Group], order[b.Group]), cmp.Compare(a.Index, b.Index))
	})
}

// Members are the placements of the world that p is in, a live member of a gang, by rank: as
// many as there were when it came. Those that came in the same transaction stay the members
// that they are when they end, so what each of them is told is the same, and stays true; of
// another rank it is the one that came last. One of whom nothing is stored any more is nil.
// A placement that has no world is alone.
func Members(j *Job, p *Placement) []*ohmv1.Placement {
	me := p.Record()
	if p.GetWorld() == "" {
		return []*ohmv1.Placement{me}
	}
	members := make([]*ohmv1.Placement, me.GetWorldSize())
	for m := range worldOf(j, p.GetWorld()) {
		rank := int(m.GetRank())
		if rank < len(members) && (m.GetTxn() == me.GetTxn() || members[rank].GetTxn() != me.GetTxn()) {
			members[rank] = m
		}
	}
	return members
}
