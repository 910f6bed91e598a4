package schedulers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// namespaced submits a job of count tasks, each of so much cpu (milli) and memory (GiB).
func (q *testQueue) namespaced(namespace, name string, precedence, count int32, cpu, gib int64) {
	q.put(cellstate.Change{Key: cellstate.JobKey(cellstate.JobName{Namespace: namespace, Name: name}), Value: &ohmv1.Job{
		Spec: &ohmv1.JobSpec{
			Namespace: namespace, Name: name, Kind: "batch", Scheduler: "s", Precedence: proto.Int32(precedence),
			Groups: []*ohmv1.Group{{Name: "main", Count: count, Resources: &ohmv1.Resources{CpuMilli: cpu, MemoryBytes: gib << 30}}},
		},
		Version: 1, SubmitTime: timestamppb.New(start),
	}})
}

func (q *testQueue) weight(namespace string, weight int32) {
	q.put(cellstate.Change{Key: cellstate.QuotaKey(cellstate.Scope{Kind: cellstate.NamespaceScope, Name: namespace}), Value: &ohmv1.Quota{Kind: "namespace", Name: namespace, Weight: weight}})
}

func (q *testQueue) node(cpu, gib int64) {
	q.put(cellstate.Change{Key: cellstate.NodeKey("n"), Value: &ohmv1.Node{Name: "n", Capacity: &ohmv1.Resources{CpuMilli: cpu, MemoryBytes: gib << 30}}})
}

// served is in which order tasks are tried, one letter for each.
func (q *testQueue) served() string {
	work, _ := q.next()
	var out strings.Builder
	for _, w := range work {
		out.WriteString(strings.Repeat(w.Job.Name.Namespace, len(w.Needs)))
	}
	return out.String()
}

// The example of the paper (Ghodsi et al., NSDI 2011, section 4.1): 9 cores and 18 GB, tasks of 1
// core and 4 GB against those of 3 cores and 1 GB. Three of the first run and two of the second.
func TestTurnsAreThoseOfThePaper(t *testing.T) {
	q := newTestQueue(t)
	q.node(9000, 18)
	q.weight("a", 1)
	q.namespaced("a", "j", 0, 10, 1000, 4)
	q.namespaced("b", "j", 0, 10, 3000, 1)
	if got := q.served(); !strings.HasPrefix(got, "ababa") {
		t.Errorf("tried in the order %s, want ababa first", got)
	}
}

func TestTurns(t *testing.T) {
	q := newTestQueue(t)
	q.node(100_000, 1000)
	q.namespaced("a", "old", 0, 4, 10_000, 1)
	q.namespaced("b", "j", 0, 4, 10_000, 1)
	if got := q.served(); got != "aaaabbbb" {
		t.Errorf("without weights tried in the order %s, want by age", got)
	}
	q = newTestQueue(t)
	q.node(100_000, 1000)
	q.namespaced("a", "old", 0, 4, 10_000, 1)
	q.namespaced("b", "j", 0, 4, 10_000, 1)
	q.weight("b", 2)
	q.namespaced("a", "urgent", 100, 2, 10_000, 1)
	if got := q.served(); got != "aabbbbaaaa" {
		t.Errorf("tried in the order %s: precedence comes first, and b is due twice as much", got)
	}
}

// Of two that hold the same it is the turn of the one that has held less of late.
func TestTurnsLookBack(t *testing.T) {
	q := newTestQueue(t)
	q.node(100_000, 1000)
	q.weight("a", 1)
	q.namespaced("a", "old", 0, 4, 10_000, 1)
	q.namespaced("b", "j", 0, 4, 10_000, 1)
	q.put(cellstate.Change{Key: cellstate.MetaKey(cellstate.AveragesMeta), Value: &ohmv1.Meta{Averages: []*ohmv1.Average{{Namespace: "a", Share: 0.25}}}})
	if got := q.served(); got != "bbbabaaa" {
		t.Errorf("tried in the order %s, want three of b first, which has held a quarter of the cell less than a", got)
	}
}

// The order is that of a reference that looks at every task anew: who is next is the namespace of
// which share of the cell by weight is the smallest, and what it takes then counts.
func TestTurnsAreThoseOfAReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := newTestQueue(t)
		cpu, gib := rapid.Int64Range(10, 100).Draw(rt, "cores")*1000, rapid.Int64Range(10, 100).Draw(rt, "GiB")
		q.node(cpu, gib)
		type party struct {
			name          string
			weight        int64
			cpu, gib      int64
			left, granted int
		}
		var parties []*party
		for i := range rapid.IntRange(2, 4).Draw(rt, "namespaces") {
			p := &party{
				string(rune('a' + i)), int64(rapid.IntRange(1, 4).Draw(rt, "weight")),
				rapid.Int64Range(1, 10).Draw(rt, "cpu") * 1000, rapid.Int64Range(1, 10).Draw(rt, "memory"), rapid.IntRange(1, 20).Draw(rt, "tasks"), 0,
			}
			parties = append(parties, p)
			q.weight(p.name, int32(p.weight))
			q.namespaced(p.name, "j", 0, int32(p.left), p.cpu, p.gib)
		}
		// Shares as fractions over one denominator, so that nothing is rounded.
		share := func(p *party) int64 { return int64(p.granted) * max(p.cpu*gib, p.gib*cpu) }
		got := q.served()
		for i := range got {
			var next *party
			served := parties[got[i]-'a']
			for _, p := range parties {
				if p.left > 0 && (next == nil || share(p)*next.weight < share(next)*p.weight) {
					next = p
				}
			}
			if served.left == 0 || share(served)*next.weight != share(next)*served.weight { // of equals any may be next
				rt.Fatalf("tried in the order %s: number %d is to be %s", got, i, next.name)
			}
			served.left--
			served.granted++
		}
		for _, p := range parties {
			if p.left > 0 {
				rt.Fatalf("%d tasks of %s are not tried in %s", p.left, p.name, got)
			}
		}
	})
}

// The line that people are told of is the order in which the queue hands out work, with weights
// and without.
func TestLineIsTheOrderOfTheQueue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := newTestQueue(t)
		q.node(100_000, 100)
		for i := range rapid.IntRange(1, 12).Draw(rt, "jobs") {
			namespace := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "namespace")
			q.namespaced(namespace, fmt.Sprintf("j%d", i), 100*rapid.Int32Range(0, 1).Draw(rt, "precedence"), 1, rapid.Int64Range(1, 9).Draw(rt, "cpu")*1000, rapid.Int64Range(1, 9).Draw(rt, "memory"))
		}
		for _, namespace := range []string{"a", "b", "c"} {
			if w := rapid.Int32Range(0, 3).Draw(rt, "weight"); w > 0 {
				q.weight(namespace, w)
			}
		}
		var want, got []string
		work, _ := q.next()
		for _, w := range work {
			want = append(want, w.Job.Name.String())
		}
		for _, e := range lineUp(q.snapshot, start) {
			got = append(got, e.name.String())
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("the line is %v, the queue tries %v", got, want)
		}
	})
}
