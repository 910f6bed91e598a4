package cellstate

import (
	"maps"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// sharing is the next snapshot's Fair, to be written to; nil while no namespace has a weight.
func (a *applier) sharing() *Fair {
	f := a.next.fair
	if f != nil && f.stamp != a.stamp {
		copied := *f
		copied.queues, copied.stamp = maps.Clone(f.queues), a.stamp
		f = &copied
		a.next.fair = f
	}
	return f
}

func (f *Fair) edit(namespace string, change func(*Queue)) {
	q := f.queues[namespace]
	change(&q)
	if q == (Queue{}) {
		delete(f.queues, namespace)
	} else {
		f.queues[namespace] = q
	}
}

// hold counts a placement, times 1, or takes it off, times -1. Whoever is evicted holds
// nothing any more, so that it is nobody's reason to evict another one.
func (f *Fair) hold(p *Placement, times int64) {
	if p.GetEvictedBy() == "" {
		f.edit(p.Slot.Namespace, func(q *Queue) { q.Used = q.Used.times(amountsOf(p.GetResources(), p.GetGpus()), times) })
	}
}

// work counts the record of a job that is not done, or takes it off.
func (f *Fair) work(j *ohmv1.Job, times int) {
	if j != nil && j.GetDone() == nil {
		f.edit(j.GetSpec().GetNamespace(), func(q *Queue) { q.Jobs += times })
	}
}

func (f *Fair) node(n *ohmv1.Node, times int64) { f.cell = f.cell.times(Capacity(n), times) }

// Capacity is all that a node has.
func Capacity(n *ohmv1.Node) Amounts {
	c := n.GetCapacity()
	return Amounts{c.GetCpuMilli(), c.GetMemoryBytes(), c.GetDiskBytes(), 1000 * int64(len(n.GetGpus()))}
}

func (f *Fair) averages(m *ohmv1.Meta) {
	for name := range f.queues {
		f.edit(name, func(q *Queue) { q.Average = 0 })
	}
	for _, of := range m.GetAverages() {
		f.edit(of.GetNamespace(), func(q *Queue) { q.Average = of.GetShare() })
	}
}

// weigh takes in the weights of the quotas that the batch has touched, and begins to count
// when the first one is there.
func (a *applier) weigh() {
	for scope, q := range a.quotas {
		weight := int32(0)
		if q != nil {
			weight = q.Record.GetWeight()
		}
		if scope.Kind != NamespaceScope || a.next.fair == nil && weight == 0 {
			continue
		}
		if a.next.fair == nil {
			a.count()
		}
		if a.next.fair.queues[scope.Name].Weight == weight {
			continue
		}
		f := a.sharing()
		f.edit(scope.Name, func(q *Queue) {
			f.set += sign(weight) - sign(q.Weight)
			q.Weight = weight
		})
	}
	f := a.next.fair
	if f == nil || f.stamp != a.stamp {
		return
	}
	if f.set == 0 {
		a.next.fair = nil
		return
	}
	f.weights = 0
	for _, q := range f.queues {
		if q.active() {
			f.weights += q.Counts()
		}
	}
}

func sign(weight int32) int { return int(min(1, weight)) }

// count makes the Fair of the next snapshot from all its rows.
func (a *applier) count() {
	f := &Fair{queues: map[string]Queue{}, stamp: a.stamp}
	for n := range a.next.nodes.all() {
		f.node(n.Facts, 1)
		for _, p := range n.Unsorted() {
			f.hold(p, 1)
		}
	}
	for _, j := range a.next.jobs.sorted(func(*Job) bool { return true }) {
		f.work(j.Record, 1)
	}
	if m := (&Snapshot{db: a.next.db}); a.txn == nil {
		averages, _ := m.Meta(AveragesMeta)
		f.averages(averages)
	} else if raw, err := a.txn.First("meta", "id", AveragesMeta); err == nil && raw != nil {
		f.averages(raw.(*metaRow).record)
	}
	a.next.fair = f
}
