package cellstate

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Namespaces share the cell by weights as soon as any of them has one: dominant-resource
// fairness (Ghodsi et al., NSDI 2011, section 4.3). What follows is derived from the records of
// quotas, jobs, nodes and placements alone, so whoever has the same snapshot comes to the same
// answer: every scheduler about the order, and the commit about who may be evicted for whom.

// Queue is how a namespace stands among those that share the cell.
type Queue struct {
	Namespace string
	Weight    int32   // that was set; 0: none, which counts as 1
	Used      Amounts // by its live placements, without those that are evicted
	Jobs      int     // that are not done
	Average   float64 // of its share of late, as the keeper has last noted it
}

// Counts is the weight as it counts.
func (q Queue) Counts() float64 { return float64(max(1, q.Weight)) }

// active says whether the namespace takes part: it has work, or holds something.
func (q Queue) active() bool { return q.Jobs > 0 || q.Used != (Amounts{}) }

// Fair is how the namespaces of a cell stand. It is never written to once published.
type Fair struct {
	queues  map[string]Queue
	cell    Amounts // capacity of all nodes
	weights float64 // of all that are active
	set     int     // queues with a weight of their own
	stamp   uint64
}

// Fair is how namespaces share the cell; nil where none has a weight: then nothing of it
// costs anything.
func (s *Snapshot) Fair() *Fair { return s.fair }

// Queue is the row of a namespace, empty if nothing is known of it.
func (f *Fair) Queue(namespace string) Queue {
	q := f.queues[namespace]
	q.Namespace = namespace
	return q
}

// Queues are those that take part or have a weight, by name.
func (f *Fair) Queues() iter.Seq[Queue] {
	return func(yield func(Queue) bool) {
		for _, name := range slices.Sorted(maps.Keys(f.queues)) {
			if q := f.queues[name]; (q.active() || q.Weight > 0) && !yield(f.Queue(name)) {
				return
			}
		}
	}
}

// Share is the part of the cell that amounts are, 0 to 1, in the dimension in which it is
// largest: the dominant share. What no node has counts as all of the cell.
func (f *Fair) Share(a Amounts) float64 {
	share, _ := f.dominant(a)
	return share
}

func (f *Fair) dominant(a Amounts) (share float64, dimension int) {
	dimension = -1
	for d, amount := range a {
		if amount <= 0 {
			continue
		}
		part := 1.0
		if f.cell[d] > 0 {
			part = float64(amount) / float64(f.cell[d])
		}
		if part > share {
			share, dimension = part, d
		}
	}
	return share, dimension
}

// Due is the part of the cell that is due to a namespace: its weight among those of all that
// have work or hold something, and itself.
func (f *Fair) Due(namespace string) float64 {
	q, all := f.Queue(namespace), f.weights
	if !q.active() {
		all += q.Counts()
	}
	return q.Counts() / all
}

// Turn is by what namespaces are ordered, the lowest first: what a namespace would hold with
// amounts beyond what the snapshot shows, and what it held of late, by its weight.
func (f *Fair) Turn(namespace string, beyond Amounts) float64 {
	q := f.Queue(namespace)
	const grain = 1e12 // so that what is rounded makes no difference
	return math.Round((f.Share(q.Used.Plus(beyond))+q.Average)/q.Counts()*grain) / grain
}

// Within says whether a namespace with amounts beyond what the snapshot shows is within its due.
func (f *Fair) Within(namespace string, beyond Amounts) bool {
	return f.Share(f.Queue(namespace).Used.Plus(beyond)) <= f.Due(namespace)
}

// View is how a namespace stands, for people and programs.
func (f *Fair) View(namespace string) *ohmv1.FairShare {
	q := f.Queue(namespace)
	share, d := f.dominant(q.Used)
	v := &ohmv1.FairShare{
		Namespace: namespace, Weight: max(1, q.Weight), Share: share, Due: f.Due(namespace), Average: q.Average,
		Borrowed: max(0, share-f.Due(namespace)), Code: FairBelow,
	}
	if d >= 0 {
		v.Dimension = DimensionName(d)
	}
	switch {
	case share > v.Due:
		v.Code = FairBorrowing
	case share == v.Due:
		v.Code = FairAtDue
	}
	for name, o := range f.queues {
		if o.Jobs == 0 {
			continue
		}
		v.Of++
		if q.Jobs > 0 && cmp.Or(cmp.Compare(f.Turn(name, Amounts{}), f.Turn(namespace, Amounts{})), cmp.Compare(name, namespace)) <= 0 {
			v.Position++
		}
	}
	v.Text = fairText(v)
	return v
}

// fairText says how a namespace stands, for people: "namespace b holds 62% of the cell (cpu), of
// cell (cpu), 50% are due to it: …".
func fairText(v *ohmv1.FairShare) string {
	text := fmt.Sprintf("namespace %s holds %s of the cell", v.Namespace, percent(v.Share))
	if v.Dimension != "" {
		text += " (" + v.Dimension + ")"
	}
	text += fmt.Sprintf(", %s are due to it", percent(v.Due))
	switch v.Code {
	case FairBorrowing:
		text += fmt.Sprintf(": %s are borrowed, until others want what is due to them", percent(v.Borrowed))
	case FairBelow:
		text += ": what others hold beyond their due gives way to it"
	}
	if v.Position > 0 {
		text += fmt.Sprintf("; of %d namespaces with work its turn is number %d", v.Of, v.Position)
	}
	return text
}

func percent(part float64) string {
	if part > 0 && part < 0.01 {
		return "less than 1%"
	}
	return fmt.Sprintf("%.0f%%", 100*part)
}

// What FairShare.code says.
const (
	FairBelow     = "BelowDue"
	FairAtDue     = "AtDue"
	FairBorrowing = "Borrowing"
)

// AveragesMeta names the meta record that holds the averages of what namespaces have held.
const AveragesMeta = "averages"

// Averages are those of what namespaces hold, some time after the last ones were noted, in which
// they have held what the snapshot shows: what is past counts half after each half-life. Changed
// says whether they are worth noting. Of nothing a trace is kept until it does not matter.
func (f *Fair) Averages(passed, halfLife time.Duration) (averages []*ohmv1.Average, changed bool) {
	past := math.Exp2(-passed.Seconds() / halfLife.Seconds())
	for _, name := range slices.Sorted(maps.Keys(f.queues)) {
		q := f.queues[name]
		now := f.Share(q.Used)
		next := q.Average*past + now*(1-past)
		if math.Abs(next-now) < trace { // so that a cell at rest is written once and not again
			next = now
		}
		changed = changed || next != q.Average
		if next > 0 {
			averages = append(averages, &ohmv1.Average{Namespace: name, Share: next})
		}
	}
	return averages, changed
}

// trace is a difference between shares that is none.
const trace = 1e-4
