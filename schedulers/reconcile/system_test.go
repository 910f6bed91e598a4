package reconcile_test

import (
	"testing"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

func TestSystemJob(t *testing.T) {
	system := func(t *testing.T, change ...func(*ohmv1.Job)) *build { return newBuild(t, "system", 0, change...) }
	onlyHollow := func(j *ohmv1.Job) {
		j.Spec.Groups[0].Constraints = []*ohmv1.Constraint{{Key: "hollow", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"true"}}}
	}
	for _, row := range []struct {
		name   string
		cell   func(t *testing.T) *build
		now    float64
		needs  string
		wake   float64
		state  string
		counts string
	}{
		{
			name:  "one task for each node",
			cell:  func(t *testing.T) *build { return system(t).up("n1", "n2", "n3") },
			needs: "0#1@n1 1#1@n2 2#1@n3", state: "Pending", counts: "3: waiting 3",
		},
		{
			name:  "no nodes, nothing wanted",
			cell:  func(t *testing.T) *build { return system(t) },
			state: "Running", counts: "0:",
		},
		{
			name: "nodes that may take nothing are left out",
			cell: func(t *testing.T) *build {
				return system(t).up("n1", "n2", "n3").node(&ohmv1.Node{Name: "dead"}).
					intent(&ohmv1.Intent{Node: "n1", Drain: true}).intent(&ohmv1.Intent{Node: "n2", Ineligible: true})
			},
			needs: "0#1@n3", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "constraints choose",
			cell: func(t *testing.T) *build {
				return system(t, func(j *ohmv1.Job) {
					j.Spec.Groups[0].Constraints = []*ohmv1.Constraint{{Key: "node", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"n2"}}}
				}).up("n1", "n2")
			},
			needs: "0#1@n2", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "hollow nodes want to be asked for",
			cell: func(t *testing.T) *build {
				return system(t).up("n1", "n2").node(&ohmv1.Node{Name: "n1", Attributes: map[string]string{"hollow": "true"}})
			},
			needs: "0#1@n2", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "and are taken then",
			cell: func(t *testing.T) *build {
				return system(t, onlyHollow).up("n1", "n2").node(&ohmv1.Node{Name: "n1", Attributes: map[string]string{"hollow": "true"}})
			},
			needs: "0#1@n1", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "indexes stay with their nodes, new nodes take the smallest free ones",
			cell: func(t *testing.T) *build {
				return system(t).up("n1", "n2", "n3", "n4").live(slot(1), 1, "n4", task.Running).live(slot(3), 1, "n1", task.Running)
			},
			needs: "0#1@n2 2#1@n3", state: "Running", counts: "4: waiting 2 running 2",
		},
		{
			name: "a node that may take nothing keeps what it has, until it drains",
			cell: func(t *testing.T) *build {
				return system(t).up("n1", "n2").live(slot(0), 1, "n1", task.Running).live(slot(1), 1, "n2", task.Running).
					intent(&ohmv1.Intent{Node: "n1", Drain: true}).intent(&ohmv1.Intent{Node: "n2", Ineligible: true})
			},
			state: "Running", counts: "2: running 1 stopping 1",
		},
		{
			name: "an ended task's node gets its index again, after the backoff",
			cell: func(t *testing.T) *build {
				return system(t).up("n1", "n2").endedOn("n2", slot(0), exit(1, 0))
			},
			now:   0.5,
			needs: "1#1@n1", wake: 1, state: "Pending", counts: "2: waiting 2",
		},
		{
			name: "another node takes the index of one that is gone, and not its backoff",
			cell: func(t *testing.T) *build {
				return system(t).up("n1").endedOn("gone", slot(0), exit(1, 0))
			},
			now:   0.5,
			needs: "0#2@n1", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "a node waits until the older version's task has gone",
			cell: func(t *testing.T) *build {
				return system(t, version(2)).up("n1", "n2").live(slotV(0, 1), 1, "n2", task.Running)
			},
			needs: "1#1@n1", state: "Pending", counts: "2: waiting 2 stopping 1",
		},
		{
			name: "stopped",
			cell: func(t *testing.T) *build {
				return system(t, stopped).up("n1", "n2").live(slot(0), 1, "n2", task.Running)
			},
			state: "Stopping", counts: "2: stopping 1 stopped 1",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, j := row.cell(t).snapshot()
			d := reconcile.Job(s, j, at(row.now))
			if got := needsText(d); got != row.needs {
				t.Errorf("needs %q, want %q", got, row.needs)
			}
			if row.wake == 0 && !d.Wake.IsZero() || row.wake != 0 && !d.Wake.Equal(at(row.wake)) {
				t.Errorf("wake %v, want %v s", d.Wake, row.wake)
			}
			if got := countsText(d.Counts[0]); got != row.counts || d.State != row.state {
				t.Errorf("state %q counts %q, want %q %q", d.State, got, row.state, row.counts)
			}
		})
	}
}
