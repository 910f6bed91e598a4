package cellstate_test

import (
	"maps"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
)

// TestJobChanges holds the changes between any two snapshots of one line, and of two lines
// that part, against a comparison of all rows.
func TestJobChanges(t *testing.T) {
	c := newSteadyCell(t, 50, 2, 10)
	var line []*cellstate.Snapshot
	for range 300 {
		line = append(line, c.snapshot)
		c.apply(t, c.submit())
		if c.chance.IntN(3) > 0 {
			c.apply(t, c.remove())
		}
	}
	now := c.snapshot
	c.snapshot = line[290]
	c.apply(t, c.submit())
	other := c.snapshot
	type change struct{ was, is *cellstate.Job }
	check := func(name string, then, now *cellstate.Snapshot) {
		want := map[cellstate.JobName]change{}
		for j := range then.Jobs() {
			want[j.Name] = change{j, now.Job(j.Name)}
		}
		for j := range now.Jobs() {
			want[j.Name] = change{then.Job(j.Name), j}
		}
		maps.DeleteFunc(want, func(_ cellstate.JobName, c change) bool { return c.was == c.is })
		got := map[cellstate.JobName]change{}
		for was, is := range now.JobChanges(then) {
			job := is
			if is == nil {
				job = was
			}
			if _, twice := got[job.Name]; twice {
				t.Errorf("%s: %v comes twice", name, job.Name)
			}
			got[job.Name] = change{was, is}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %d changes, want %d", name, len(got), len(want))
		}
	}
	for i, then := range line {
		check("in line", then, now)
		check("next", line[max(0, i-1)], then)
	}
	check("another line", other, now)
	check("another line", now, other)
	check("nothing", now, now)
}
