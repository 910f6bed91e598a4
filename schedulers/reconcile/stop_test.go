package reconcile_test

import (
	"testing"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

func TestStopCause(t *testing.T) {
	running := func(b *build) *build { return b.live(slot(0), 1, "n1", task.Running) }
	drain := &ohmv1.Intent{Node: "n1", Drain: true}
	for _, row := range []struct {
		name string
		cell func(t *testing.T) *build
		want string
	}{
		{"wanted", func(t *testing.T) *build { return running(newBuild(t, "batch", 1)) }, ""},
		{"stopped", func(t *testing.T) *build { return running(newBuild(t, "batch", 1, stopped)) }, task.Stop},
		{"done", func(t *testing.T) *build {
			return running(newBuild(t, "batch", 1, func(j *ohmv1.Job) { j.Done = &ohmv1.Outcome{State: "Failed"} }))
		}, task.Stop},
		{"another version", func(t *testing.T) *build { return running(newBuild(t, "batch", 1, version(2))) }, task.Stop},
		{"beyond the count", func(t *testing.T) *build { return running(newBuild(t, "service", 0)) }, task.Stop},
		{"no such group", func(t *testing.T) *build {
			return running(newBuild(t, "service", 1, func(j *ohmv1.Job) { j.Spec.Groups[0].Name = "other" }))
		}, task.Stop},
		{"evicted", func(t *testing.T) *build {
			b := newBuild(t, "batch", 1)
			p := placement(slot(0), 1, "n1")
			p.EvictedBy = "OTHER"
			return b.put(slot(0).PlacementKey(), p)
		}, task.Preempted},
		{"draining", func(t *testing.T) *build { return running(newBuild(t, "batch", 1)).intent(drain) }, task.Drained},
		{"a constraint that must always hold, and does not any more", func(t *testing.T) *build {
			return running(newBuild(t, "batch", 1, constraint(true))).intent(&ohmv1.Intent{Node: "n1", Labels: map[string]string{"zone": "b"}})
		}, task.Drained},
		{"one that must hold at the start", func(t *testing.T) *build {
			return running(newBuild(t, "batch", 1, constraint(false))).intent(&ohmv1.Intent{Node: "n1", Labels: map[string]string{"zone": "b"}})
		}, ""},
		{"one that must always hold, and does", func(t *testing.T) *build {
			return running(newBuild(t, "batch", 1, constraint(true))).intent(&ohmv1.Intent{Node: "n1", Labels: map[string]string{"zone": "a"}})
		}, ""},
		{"one that must always hold, of a later release", func(t *testing.T) *build {
			return running(newBuild(t, "batch", 1, constraint(true), func(j *ohmv1.Job) { j.Spec.Groups[0].Constraints[0].Op = 99 }))
		}, ""},
		{"of a kind of a later release, which may count otherwise", func(t *testing.T) *build { return running(newBuild(t, "quantum", 0)).intent(drain) }, ""},
		{"of a kind of a later release, stopped", func(t *testing.T) *build { return running(newBuild(t, "quantum", 1, stopped)) }, task.Stop},
		{"ineligible keeps what it has", func(t *testing.T) *build {
			return running(newBuild(t, "batch", 1)).intent(&ohmv1.Intent{Node: "n1", Ineligible: true})
		}, ""},
		{"a system task has no count", func(t *testing.T) *build { return running(newBuild(t, "system", 0)) }, ""},
		{"a system task drains, too", func(t *testing.T) *build { return running(newBuild(t, "system", 0)).intent(drain) }, task.Drained},
		{"but as the last", func(t *testing.T) *build {
			b := running(newBuild(t, "system", 0)).intent(drain)
			other := placement(slot(0), 1, "n1")
			other.Slot.Job, other.Precedence = "other", 99
			s := slot(0)
			s.Job = "other"
			return b.put(s.PlacementKey(), other)
		}, ""},
		{"its equals do not hold it", func(t *testing.T) *build {
			b := running(newBuild(t, "system", 0)).intent(drain)
			other := placement(slot(0), 1, "n1")
			other.Slot.Job = "other"
			s := slot(0)
			s.Job = "other"
			return b.put(s.PlacementKey(), other)
		}, task.Drained},
		{"ml: a sibling failed for good", func(t *testing.T) *build {
			return running(newBuild(t, "ml", 2, retries(1))).ended(slot(1), exit(1, 0), exit(1, 1))
		}, task.Stop},
		{"ml: a sibling failed with budget left", func(t *testing.T) *build {
			return running(newBuild(t, "ml", 2, retries(1))).ended(slot(1), exit(1, 0))
		}, ""},
		{"batch: a sibling failed for good", func(t *testing.T) *build {
			return running(newBuild(t, "batch", 2)).ended(slot(1), exit(1, 0))
		}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, j := row.cell(t).up("n1").snapshot()
			got := reconcile.StopCause(j, j.Tasks[0].Placement, s.Node("n1"))
			if got != row.want {
				t.Errorf("cause %q, want %q", got, row.want)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		_, j := running(newBuild(t, "batch", 1)).snapshot()
		if got := reconcile.StopCause(nil, j.Tasks[0].Placement, nil); got != task.Stop {
			t.Errorf("cause %q, want %q", got, task.Stop)
		}
	})
}

// constraint wants zone a, also while a task runs or not.
func constraint(always bool) func(*ohmv1.Job) {
	return func(j *ohmv1.Job) {
		j.Spec.Groups[0].Constraints = []*ohmv1.Constraint{{Key: "zone", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"a"}, Always: always}}
	}
}
