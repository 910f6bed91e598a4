package place

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

const gpuCell = `
node n1 cpu=16 memory=64Gi gpus=T4,T4,T4
node n2 cpu=16 memory=64Gi gpus=V100,V100
node n3 cpu=16 memory=64Gi gpus=T4,V100
node n4 cpu=16 memory=64Gi
job a kind=batch
group g0 count=3 cpu=2 memory=1Gi gpus=1 share=300m
group g1 count=2 cpu=1 memory=9Gi gpus=1
group g2 count=1 cpu=3 memory=1Gi gpus=2 models=V100
group g3 count=3 cpu=1 memory=1Gi
job b kind=batch
group g0 count=2 cpu=1 memory=1Gi gpus=1 share=700m models=T4
live b/g0/0 n1 gpus=0:700
`

// After any claims and returns, in any number of rounds, no score, verdict or count is a
// remembered one that a fresh table would not find.
func TestNothingStaleIsRemembered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := placetest.Input(t, gpuCell)
		worn := NewTable()
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			in.Work = placetest.Work(in.Snapshot, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "job"))
			r := worn.begin(in)
			for range rapid.IntRange(0, 6).Draw(t, "claims") {
				w := in.Work[0]
				need := w.Needs[rapid.IntRange(0, len(w.Needs)-1).Draw(t, "need")]
				mark := r.Mark()
				if node, ok := r.Choose(r.Request(w.Job, need.Group), nil); ok {
					r.Claim(w.Job, need, node)
				}
				if rapid.Bool().Draw(t, "undo") {
					r.Undo(mark)
				}
				fresh := NewTable()
				f := fresh.begin(in)
				for _, k := range r.taken {
					fresh.candidates[k.candidate].take(k.cost, 1)
					fresh.touch(k.candidate)
				}
				for _, w := range placetest.Work(in.Snapshot, "a", "b") {
					for _, g := range w.Job.Record.GetSpec().GetGroups() {
						q := NewRequest(w.Job, g, nil)
						for i := range worn.candidates {
							if got, want := scores(r, q)[i], scores(f, q)[i]; got != want {
								t.Fatalf("%s/%s on %s: score %v; a fresh table says %v", w.Job.Name, g.GetName(), worn.candidates[i].Node.Name, got, want)
							}
						}
					}
				}
			}
			r.end(in)
			if bare := NewTable(); true {
				bare.follow(in.Snapshot)
				if got, want := worn.census, bare.census; got.cpu != want.cpu || got.memory != want.memory || got.gpu != want.gpu || len(got.shapes) != len(want.shapes) {
					t.Fatalf("after the round the census is %+v; want %+v", got, want)
				}
			}
		}
	})
}

// scores are what the candidates are worth to a request now.
func scores(r *Round, q *Request) []float64 {
	return r.t.scoresOf(r.class(q), r.home)
}

// A table follows to a snapshot of another origin, which may be alike in all but its nodes.
func TestFollowsToOtherNodes(t *testing.T) {
	table := NewTable()
	for _, node := range []string{"n1", "m1", "n1"} {
		in := placetest.Input(t, "node "+node+" cpu=4 gpus=T4\njob a kind=batch\ngroup g count=2 cpu=1 gpus=1 share=500m\nlive a/g/0 "+node+" gpus=0:500")
		table.follow(in.Snapshot)
		if got := table.candidates[0].Node.Name; string(got) != node || len(table.index) != 1 {
			t.Errorf("the table holds %s; the snapshot %s", got, node)
		}
		if _, known := table.index[cellstate.NodeName(node)]; !known {
			t.Errorf("the index does not know %s", node)
		}
		if got := table.census.gpu; got != 500 {
			t.Errorf("the census counts %d thousandths of a GPU; 500 are in use", got)
		}
	}
}

// A class that was explained is explained anew once a node has changed, whoever looked at
// the change before.
func TestExplainsWhatIsNow(t *testing.T) {
	in := placetest.Input(t, "node n1 cpu=3\njob a kind=batch\ngroup small count=2 cpu=1\ngroup large count=1 cpu=3")
	_, err := NewTable().Each(t.Context(), in, func(r *Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		large := r.Request(w.Job, w.Job.Group("large"))
		var small []reconcile.Need
		for _, need := range w.Needs {
			if need.Slot.Group == "small" {
				small = append(small, need)
			}
		}
		for i, want := range []string{"largest free: 2 of 3 cores on node n1", "largest free: 1 of 3 cores on node n1"} {
			r.Claim(w.Job, small[i], 0)
			if why := r.Explain(large, nil, &ohmv1.Reason{}); len(why) != 1 || why[0].GetDetail() != want {
				t.Errorf("after %d claims: %v; want %q", i+1, why, want)
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEachEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	in := placetest.Input(t, gpuCell)
	_, err := NewTable().Each(ctx, in, func(*Round, schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		t.Error("called although the context has ended")
		return nil, nil
	})
	if err != context.Canceled {
		t.Errorf("error %v", err)
	}
}

// Two requests are of one class if and only if nothing that a filter, a scorer or a hold
// looks at differs.
func TestClasses(t *testing.T) {
	base := "cpu=1 memory=1Gi disk=1Gi gpus=1 share=500m models=T4|V100 in=zone:a,b"
	request := func(group, precedence string) *Request {
		in := placetest.Input(t, "job a kind=batch precedence="+precedence+"\ngroup g count=1 "+group)
		return NewRequest(in.Work[0].Job, in.Work[0].Needs[0].Group, nil)
	}
	if !request(base, "100").Same(request(base, "100")) {
		t.Error("equal requests are of two classes")
	}
	for _, other := range [][2]string{
		{"cpu=1", "cpu=2"}, {"memory=1Gi", "memory=2Gi"}, {"disk=1Gi", "disk=2Gi"}, {"share=500m", "share=501m"}, {"gpus=1 share=500m", "gpus=2"},
		{"T4|V100", "T4"}, {"T4|V100", "T4V100"}, {"zone:a,b", "zone:ab"}, {"zone:a,b", "rack:a,b"}, {"in=zone:a,b", "exists=zone"},
	} {
		if request(base, "100").Same(request(strings.Replace(base, other[0], other[1], 1), "100")) {
			t.Errorf("%s and %s are of one class", other[0], other[1])
		}
	}
	if request(base, "100").Same(request(base, "101")) {
		t.Error("two precedences are of one class")
	}
}

// odd refuses every second candidate by name.
type odd struct{}

func (odd) Name() string { return "Odd" }
func (odd) Check(_ *Request, c *Candidate) (string, bool) {
	return "name", (c.Node.Name[1]-'0')%2 == 0
}

// emptiest prefers most free CPU.
type emptiest struct{}

func (emptiest) Name() string                           { return "emptiest" }
func (emptiest) Score(_ *Request, c *Candidate) float64 { return float64(c.FreeCPU) }

func TestOwnFilterAndScorer(t *testing.T) {
	in := placetest.Input(t, "node n1 cpu=9\nnode n2 cpu=2\nnode n3 cpu=8\nnode n4 cpu=4\njob a kind=batch\ngroup g count=3 cpu=2")
	table := NewTable()
	table.Filters = append(table.Filters, odd{})
	table.Scorer = emptiest{}
	p, err := table.Each(context.Background(), in, func(r *Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		return r.Incremental(w, func(q *Request, _ reconcile.Need) (int, bool) { return r.Choose(q, nil) })
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "incremental\n  a/g/0 n4\n  a/g/1 n2\n  a/g/2 n4\n"
	if got := placetest.Print(p); got != want {
		t.Errorf("proposed\n%swant\n%s", got, want)
	}
	in = placetest.Input(t, "node n1 cpu=9\nnode n2 cpu=2\nnode n3 cpu=8\njob a kind=batch\ngroup g count=1 cpu=4")
	p, err = table.Each(context.Background(), in, func(r *Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		return r.Incremental(w, func(q *Request, _ reconcile.Need) (int, bool) { return r.Choose(q, nil) })
	})
	if err != nil {
		t.Fatal(err)
	}
	want = "unplaced a/g 0 of 3 nodes\n  2 Odd name: such as node n1\n  1 Resources cpu: largest free: 2 of 4 cores on node n2\n"
	if got := placetest.Print(p); got != want {
		t.Errorf("proposed\n%swant\n%s", got, want)
	}
}
