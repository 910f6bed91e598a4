package reconcile_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// What a plan says of a change is what the rules make of it: each slot and each live task is told of
// once, those that are said to stop are those that are told to, and as many start as are needed.
func TestEffectsAreWhatHappens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := func(what string, most int) int { return rapid.IntRange(0, most).Draw(r, what) }
		kind := rapid.SampledFrom([]string{"service", "batch"}).Draw(r, "kind")
		b := newBuild(t, kind, int32(n("count", 4)), func(j *ohmv1.Job) { j.Spec.Update = &ohmv1.UpdatePolicy{} }).up("n1")
		lives := 0
		for i := range b.spec.Groups[0].Count {
			if rapid.Bool().Draw(r, "live") {
				b.live(slot(int(i)), 1, "n1", task.Running)
				lives++
			}
		}
		s, was := b.snapshot()
		spec := proto.CloneOf(b.spec)
		g := spec.Groups[0]
		g.Count = int32(n("count then", 4))
		if rapid.Bool().Draw(r, "changed") {
			g.Env = map[string]string{"A": "b"}
		}
		if n("another group", 4) == 0 {
			g.Name = "other"
		}
		next, rollout := reconcile.Next(was, spec, at(1))
		would, err := s.With(cellstate.JobRecords(was, was.Name, next, rollout)...)
		if err != nil {
			t.Fatal(err)
		}
		j := would.Job(was.Name)
		of := map[string]int{}
		for _, e := range reconcile.Effects(was, would, j, at(1)) {
			of[e.GetAction()] += int(e.GetTasks())
		}
		if got := of["stay"] + of["update"] + of["restart"] + of["start"] + of["over"]; got != int(g.Count) {
			r.Errorf("of %d slots it says %v", g.Count, of)
		}
		if got := of["stay"] + of["update"] + of["restart"] + of["stop"]; got != lives {
			r.Errorf("of %d live tasks it says %v", lives, of)
		}
		stops := 0
		for _, tk := range j.Tasks {
			if tk.Placement != nil && reconcile.StopCause(j, tk.Placement, would.Node("n1")) != "" {
				stops++
			}
		}
		if needs := len(reconcile.Job(would, j, at(1)).Needs); of["start"] != needs || of["restart"]+of["stop"] != stops {
			r.Errorf("%d are needed and %d are to stop; it says %v", needs, stops, of)
		}
	})
}

// How late a job was placed is told once all of its tasks have had a node, by their first attempts; and
// with which codes the tasks of a failed one have ended.
func TestStatusOfEnds(t *testing.T) {
	placed := func(b *build, i, attempt int, seconds float64) *build {
		p := placement(slot(i), attempt, "n1")
		p.Time = stamp(seconds)
		return b.put(slot(i).PlacementKey(), p)
	}
	for _, c := range []struct {
		what  string
		cell  *build
		after float64 // placedAfter; -1: not told
		codes []int32 // of the failed tasks
	}{
		{"one waits", placed(newBuild(t, "batch", 2), 0, 1, 3), -1, nil},
		{"both had a node", placed(placed(newBuild(t, "batch", 2), 0, 1, 3), 1, 1, 9), 9, nil},
		{"the first attempt is not kept", placed(newBuild(t, "batch", 1), 0, 4, 9), -1, nil},
		{"failed", newBuild(t, "batch", 2).ended(slot(0), exit(7, 0)).ended(slot(1), exit(0, 0)), 0, []int32{7}},
		{"failed, and tried again", newBuild(t, "batch", 1, retries(1)).ended(slot(0), exit(7, 0)), 0, nil},
		{"no tasks", newBuild(t, "service", 0), -1, nil},
	} {
		s, j := c.cell.snapshot()
		st := reconcile.Status(s, j, at(20))
		after := -1.0
		if st.PlacedAfter != nil {
			after = st.PlacedAfter.AsDuration().Seconds()
		}
		var codes []int32
		for _, f := range st.Failed {
			codes = append(codes, f.ExitCode)
		}
		if after != c.after || len(codes) != len(c.codes) || len(codes) > 0 && codes[0] != c.codes[0] {
			t.Errorf("%s: placed after %v, codes %v; want %v, %v", c.what, after, codes, c.after, c.codes)
		}
	}
}
