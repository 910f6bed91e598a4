package place

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
)

// Of identical tasks, so many nodes take no more than Pack places on them: the sum of the
// largest numbers that a node alone takes.
func TestPackPlacesAllThatSoManyNodesTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			fmt.Fprintf(&text, "node n%02d cpu=%d memory=%dGi gpus=%s\n", i, rapid.IntRange(0, 9).Draw(t, "cpu"), rapid.IntRange(0, 9).Draw(t, "memory"),
				rapid.SampledFrom([]string{"", "T4", "T4,T4"}).Draw(t, "gpus"))
		}
		fmt.Fprintf(&text, "home %d/2\nseed %d\njob j kind=ml\ngroup main count=%d cpu=%d memory=1Gi %s\n", rapid.IntRange(0, 1).Draw(t, "home"), rapid.IntRange(0, 20).Draw(t, "seed"),
			rapid.IntRange(1, 30).Draw(t, "count"), rapid.IntRange(1, 3).Draw(t, "asks"), rapid.SampledFrom([]string{"", "gpus=1 share=400m"}).Draw(t, "gpu"))
		in := placetest.Input(t, text.String())
		in.InFlight = map[cellstate.NodeName]bool{"n03": true}
		most := rapid.IntRange(1, 6).Draw(t, "most")
		_, err := NewTable().Each(context.Background(), in, func(r *Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
			var takes []int
			for node := range in.Snapshot.Nodes() {
				mark, n := r.Mark(), 0
				for ; n < len(w.Needs); n++ {
					i, ok := r.Only(r.Request(w.Job, w.Needs[n].Group), node.Name)
					if !ok {
						break
					}
					r.Claim(w.Job, w.Needs[n], i)
				}
				r.Undo(mark)
				takes = append(takes, n)
			}
			slices.SortFunc(takes, func(a, b int) int { return b - a })
			want := 0
			for _, n := range takes[:min(most, len(takes))] {
				want += n
			}
			want = min(want, len(w.Needs))
			claims, left := r.Pack(w.Job, w.Needs, most)
			on := map[cellstate.NodeName]bool{}
			for _, c := range claims {
				on[c.Node] = true
			}
			if len(claims) != want || len(left) != len(w.Needs)-want || len(on) > most || on["n03"] {
				t.Fatalf("%d claims on %v, %d left; want %d of %d on %d nodes", len(claims), on, len(left), want, len(w.Needs), most)
			}
			if len(claims) == 0 {
				return nil, nil
			}
			txn := &cellstate.Txn{ID: "t", Scheduler: "ml", Mode: cellstate.Atomic, Snapshot: in.Snapshot.Revision(), Claims: claims}
			if _, conflicts := cellstate.Validate(in.Snapshot, txn); len(conflicts) > 0 {
				t.Fatalf("what Pack claims does not fit: %+v", conflicts)
			}
			return txn, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkPack is a gang of 500 tasks that would spread over 500 of 5,000 nodes.
func BenchmarkPack(b *testing.B) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "node n%04d cpu=%d memory=64Gi\n", i, 4+i%60)
	}
	text.WriteString("job j kind=ml\ngroup main count=500 cpu=4 memory=1Gi\n")
	in := placetest.Input(b, text.String())
	_, _ = NewTable().Each(context.Background(), in, func(r *Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		for b.Loop() {
			mark := r.Mark()
			if claims, _ := r.Pack(w.Job, w.Needs, 111); len(claims) != 500 {
				b.Fatalf("%d claims", len(claims))
			}
			r.Undo(mark)
		}
		return nil, nil
	})
}
