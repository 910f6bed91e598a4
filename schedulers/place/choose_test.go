package place

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// wideCell has enough nodes for classes to be kept up to date change by change.
func wideCell(t *rapid.T) string {
	var b strings.Builder
	sizes := rapid.SliceOfN(rapid.IntRange(0, 4), 80, 80).Draw(t, "cores")
	for i, cores := range sizes {
		fmt.Fprintf(&b, "node n%02d cpu=%d memory=8Gi gpus=%s\n", i, cores, []string{"", "", "", "T4", "T4,V100"}[(i*7+cores)%5])
	}
	for j := range 3 {
		fmt.Fprintf(&b, "job j%d kind=service\ngroup a count=12 cpu=1 memory=1Gi\ngroup b count=4 cpu=2 devices=any\ngroup c count=3 cpu=1 gpus=1 share=400m\n", j)
		for i := range rapid.IntRange(0, 2).Draw(t, "live") {
			fmt.Fprintf(&b, "live j%d/a/%d n%02d\n", j, i, rapid.IntRange(0, 79).Draw(t, "on"))
		}
	}
	return b.String()
}

// walk is what Choose must find, by the rule alone: of the nodes that are not in flight,
// fit, and may have another task of the job, one without devices where none is asked for,
// then the one with fewest tasks of it (no fewer than the load's first count as fewer), of
// those the one with the best score, and of equal ones the first in the circle that begins at
// the seed. In a large cell that is the rule in each part, and the first part from the job's
// own on is taken in which the score is good enough, else the best of all.
func walk(r *Round, q *Request, job cellstate.JobName, load *Load) (best int, ok bool) {
	t := r.t
	level := func(i int) int32 {
		if load == nil {
			return 0
		}
		return max(t.counts[i], load.first)
	}
	score := func(i int) float64 {
		return t.Scorer.Score(q, t.candidates[i].without(q)) - price(r.home, i)
	}
	last := func(i int) int { // a task without devices leaves nodes with some to others
		if !q.Anywhere && len(t.candidates[i].GPUs) > 0 {
			return 1
		}
		return 0
	}
	better := func(i, best int) bool {
		return best < 0 || cmp.Or(cmp.Compare(last(i), last(best)), cmp.Compare(level(i), level(best)), cmp.Compare(score(best), score(i))) < 0
	}
	best = -1
	for turn := range t.parts() {
		part := (t.partOf(job) + turn) % t.parts()
		first, size, here := t.begins(part), t.begins(part+1)-t.begins(part), -1
		for turn := range size {
			i := first + (int(r.seed%uint64(size))+turn)%size
			if !t.inFlight[i] && t.fits(q, &t.candidates[i]) && (load == nil || t.counts[i] <= load.last) && better(i, here) {
				here = i
			}
		}
		if here >= 0 && better(here, best) {
			best = here
		}
		if best >= 0 && last(best) == 0 && score(best) >= goodEnough && (load == nil || level(best) == load.first) {
			break
		}
	}
	return best, best >= 0
}

// In any order of claims, returns, loads, snapshots and nodes in flight, Choose finds
// what a walk over all nodes finds, and the load counts what stands.
func TestChooseFindsWhatAWalkFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := placetest.Input(t, wideCell(t))
		table := NewTable()
		if rapid.Bool().Draw(t, "large") {
			table.whole, table.part = 20, 20
		}
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			in.Seed, in.Home = rapid.Uint64().Draw(t, "seed"), schedulers.Home{Index: rapid.IntRange(0, 1).Draw(t, "home"), Of: 2}
			in.InFlight = map[cellstate.NodeName]bool{}
			for _, i := range rapid.SliceOfN(rapid.IntRange(0, 79), 0, 30).Draw(t, "in flight") {
				in.InFlight[cellstate.NodeName(fmt.Sprintf("n%02d", i))] = true
			}
			r := table.begin(in)
			txn := &cellstate.Txn{Mode: cellstate.Incremental, Scheduler: "service"}
			for _, w := range in.Work {
				var load *Load
				switch rapid.IntRange(0, 2).Draw(t, "load") {
				case 1:
					load = r.Spread(w)
				case 2:
					load = r.AtMost(w, rapid.Int32Range(1, 3).Draw(t, "most"))
				}
				for _, need := range w.Needs {
					mark, q := r.Mark(), r.Request(w.Job, need.Group)
					want, wantOK := walk(r, q, w.Job.Name, load)
					got, ok := r.Choose(q, load)
					if ok != wantOK || (ok && got != want) {
						t.Fatalf("%s: node %d, %v; a walk finds %d, %v", need.Slot, got, ok, want, wantOK)
					}
					if !ok {
						continue
					}
					claim := r.Claim(w.Job, need, got)
					if rapid.IntRange(0, 4).Draw(t, "undo") == 0 {
						r.Undo(mark)
					} else if rapid.Bool().Draw(t, "commit") {
						txn.Claims = append(txn.Claims, claim)
					}
				}
				if load != nil {
					checkCounts(t, r, w)
				}
				r.unload()
			}
			r.end(in)
			for i, n := range table.counts {
				if n != 0 {
					t.Fatalf("after the round node %d has %d tasks of no job", i, n)
				}
			}
			if rapid.Bool().Draw(t, "another snapshot") && len(txn.Claims) > 0 {
				in.Snapshot = placetest.Commit(t, in.Snapshot, txn)
				in.Work = placetest.Work(in.Snapshot, "j0", "j1", "j2")
			}
		}
	})
}

func checkCounts(t *rapid.T, r *Round, w schedulers.Work) {
	want := make([]int32, len(r.t.candidates))
	for _, task := range w.Job.Tasks {
		if task.Placement != nil {
			want[r.t.index[cellstate.NodeName(task.Placement.GetNode())]]++
		}
	}
	for _, k := range r.taken {
		if k.job == w.Job {
			want[k.candidate]++
		}
	}
	for i, n := range r.t.counts {
		if n != want[i] {
			t.Fatalf("the load of node %d is %d; %d tasks of the job stand there", i, n, want[i])
		}
	}
}

// A load that ends leaves nothing masked, one that begins masks its own nodes alone, and
// at most so many tasks of a job come to a node, the best one first.
func TestLoads(t *testing.T) {
	const cell = "node n1 cpu=8\nnode n2 cpu=32\njob a kind=batch\ngroup g count=5 cpu=1\njob b kind=batch\ngroup g count=1 cpu=1\nlive a/g/0 n2"
	for _, c := range []struct {
		name string
		load func(*Round, schedulers.Work) *Load
		want string // nodes of a's needs, then of b's
	}{
		{"none", func(*Round, schedulers.Work) *Load { return nil }, "n1 n1 n1 n1 n1"},
		{"spread", (*Round).Spread, "n1 n1 n2 n1 n1"},
		{"one on a node", func(r *Round, w schedulers.Work) *Load { return r.AtMost(w, 1) }, "n1 - - - n1"},
		{"two on a node", func(r *Round, w schedulers.Work) *Load { return r.AtMost(w, 2) }, "n1 n1 n2 - n1"},
		{"less than one means one", func(r *Round, w schedulers.Work) *Load { return r.AtMost(w, 0) }, "n1 - - - n1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := placetest.Input(t, cell)
			var got []string
			_, err := NewTable().Each(t.Context(), in, func(r *Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
				load := c.load(r, w)
				for _, need := range w.Needs {
					node, ok := r.Choose(r.Request(w.Job, need.Group), load)
					if !ok {
						got = append(got, "-")
						continue
					}
					got = append(got, string(r.Claim(w.Job, need, node).Node))
				}
				return nil, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("%s; want %s", got, c.want)
			}
		})
	}
}

// What is given back lowers the load again: the node with fewest tasks comes first, also
// if a round has been beyond it before.
func TestSpreadAfterUndo(t *testing.T) {
	in := placetest.Input(t, "node n1 cpu=3\nnode n2 cpu=5\njob a kind=service\ngroup g count=3 cpu=2\nlive a/g/0 n2")
	_, err := NewTable().Each(t.Context(), in, func(r *Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		load := r.Spread(w)
		for range 2 {
			mark := r.Mark()
			for i, want := range []cellstate.NodeName{"n1", "n2"} {
				node, ok := r.Choose(r.Request(w.Job, w.Needs[i].Group), load)
				if !ok {
					t.Fatalf("no node; want %s", want)
				}
				if got := r.Claim(w.Job, w.Needs[i], node).Node; got != want {
					t.Errorf("%s; want %s", got, want)
				}
			}
			r.Undo(mark)
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A node in flight that has as many tasks of the job as it may have is nothing to wait for.
func TestAwaitsNoLoadedNode(t *testing.T) {
	for _, c := range []struct {
		most int32
		want string
	}{
		{1, "incremental\n  a/g/1 n2\nunplaced a/g 2 of 2 nodes\n  2 NotAsked -: has its task, or is not to have one\n"},
		{2, "incremental\n  a/g/1 n2\n  a/g/2 n2\n"},
		{3, "incremental\n  a/g/1 n2\n  a/g/2 n2\n"},
	} {
		in := placetest.Input(t, "node n1 cpu=8\nnode n2 cpu=8\njob a kind=batch\ngroup g count=3 cpu=1\nlive a/g/0 n1")
		in.InFlight = map[cellstate.NodeName]bool{"n1": true}
		p, err := NewTable().Each(t.Context(), in, func(r *Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
			load := r.AtMost(w, c.most)
			return r.Incremental(w, func(q *Request, _ reconcile.Need) (int, bool) { return r.Choose(q, load) })
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := placetest.Print(p); got != c.want {
			t.Errorf("at most %d on a node: proposed\n%swant\n%s", c.most, got, c.want)
		}
	}
}
