package reconcile_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

func once(j *ohmv1.Job) { j.Spec.StartOnce = true }

func retry(p *ohmv1.RetryPolicy) func(*ohmv1.Job) { return func(j *ohmv1.Job) { j.Spec.Retry = p } }

// Field case 83: a slot that is never retried has one start, whatever ended it, and what has
// succeeded stays so. Only what its node refused before it ran is tried elsewhere.
func TestCase83NeverIsOneStart(t *testing.T) {
	for _, kind := range []string{"batch", "ml"} {
		for _, row := range []struct {
			ends  []end
			state string
			needs string
		}{
			{nil, "Pending", "0#1"},
			{[]end{exit(0, 1)}, "Succeeded", ""},
			{[]end{exit(1, 1)}, "Failed", ""},
			{[]end{because(task.NodeLost, 1)}, "Failed", ""},
			{[]end{{cause: task.NodeLost, at: 1, started: never}}, "Failed", ""},
			{[]end{because(task.Drained, 1)}, "Failed", ""},
			{[]end{because(task.Preempted, 1)}, "Failed", ""},
			{[]end{because(task.Stop, 1)}, "Failed", ""},
			{[]end{because(task.UnknownExit, 1)}, "Failed", ""},
			{[]end{because(task.StartDeadline, 1)}, "Failed", ""},
			{[]end{because("OfALaterRelease", 1)}, "Failed", ""},
			{[]end{because(task.PortBusy, 1)}, "Failed", ""}, // with a start all the same
			{[]end{{cause: task.PortBusy, at: 1, started: never}}, "Pending", "0#2"},
			{[]end{{cause: task.Refused, at: 1, started: never}}, "Pending", "0#2"},
			{[]end{{cause: task.Refused, at: 1, started: never}, because(task.NodeLost, 2)}, "Failed", ""},
		} {
			s, j := newBuild(t, kind, 1, once).ended(slot(0), row.ends...).snapshot()
			d := reconcile.Job(s, j, at(3600))
			if d.State != row.state || needsText(d) != row.needs || (d.Done != nil) != (row.needs == "") {
				t.Errorf("%s after %v: %s, needs %q, done %v; want %s, needs %q", kind, row.ends, d.State, needsText(d), d.Done, row.state, row.needs)
			}
		}
	}
}

// Field case 84: what has been spent is told from what is stored, however long nothing had
// room in between, and a job that always fails is slow at it.
func TestCase84AttemptsAreCounted(t *testing.T) {
	for _, row := range []struct {
		retries int32
		policy  *ohmv1.RetryPolicy
		starts  int // within ten minutes, of a job that always fails at once
	}{
		{0, nil, 1},
		{1, nil, 2},
		{6, nil, 7},
		{1000, nil, 15}, // at 0, 1, 3, 7, 15, 31 and 63 s, then every minute
		{1000, &ohmv1.RetryPolicy{First: durationpb.New(10 * time.Second), Most: durationpb.New(5 * time.Minute)}, 6},
		{1000, &ohmv1.RetryPolicy{First: durationpb.New(2 * time.Minute)}, 5},
		{1000, &ohmv1.RetryPolicy{Most: durationpb.New(time.Second)}, 600},
	} {
		var ends []end
		now := t0
		for now.Before(t0.Add(10 * time.Minute)) {
			s, j := newBuild(t, "batch", 1, retries(row.retries), retry(row.policy)).ended(slot(0), ends...).snapshot()
			d := reconcile.Job(s, j, now)
			if d.Done != nil {
				break
			}
			if len(d.Needs) == 0 {
				now = d.Wake
				continue
			}
			ends = append(ends, exit(1, now.Sub(t0).Seconds()))
		}
		if len(ends) != row.starts {
			t.Errorf("retries %d, %v: %d starts in ten minutes; want %d", row.retries, row.policy, len(ends), row.starts)
		}
	}
	s, j := newBuild(t, "batch", 1, retries(1)).ended(slot(0), exit(1, 0)).snapshot()
	if d := reconcile.Job(s, j, at(1e6)); needsText(d) != "0#2" {
		t.Errorf("after a long time without room: needs %q", needsText(d))
	}
	if v := reconcile.Tasks(s, j, at(10), false)[0]; v.GetRetriesSpent() != 1 || v.GetRetries() != 1 {
		t.Errorf("shown: %d of %d spent", v.GetRetriesSpent(), v.GetRetries())
	}
}

// Field case 85: each class of ends costs what the job says, and no more.
func TestCase85RetriesByClass(t *testing.T) {
	disrupted := []end{because(task.Drained, 1), because(task.Preempted, 2), because(task.NodeLost, 3)}
	for name, row := range map[string]struct {
		retries int32
		policy  *ohmv1.RetryPolicy
		ends    []end
		state   string
	}{
		"disruptions are free":            {0, nil, disrupted, "Pending"},
		"and it can succeed":              {0, nil, append(disrupted[:3:3], exit(0, 4)), "Succeeded"},
		"a drain that spends":             {0, &ohmv1.RetryPolicy{Spend: []string{"drain"}}, disrupted, "Failed"},
		"a preemption that spends":        {0, &ohmv1.RetryPolicy{Spend: []string{"preemption"}}, disrupted, "Failed"},
		"a loss that spends":              {0, &ohmv1.RetryPolicy{Spend: []string{"nodeLoss"}}, disrupted, "Failed"},
		"two of them of two":              {2, &ohmv1.RetryPolicy{Spend: []string{"nodeLoss", "drain"}}, disrupted, "Pending"},
		"three of them of two":            {2, &ohmv1.RetryPolicy{Spend: []string{"nodeLoss", "drain", "preemption"}}, disrupted, "Failed"},
		"a fatal exit":                    {9, &ohmv1.RetryPolicy{Fatal: []int32{42}}, []end{exit(42, 1)}, "Failed"},
		"one that is not":                 {9, &ohmv1.RetryPolicy{Fatal: []int32{42}}, []end{exit(41, 1)}, "Pending"},
		"one that may be retried":         {9, &ohmv1.RetryPolicy{Only: []int32{75}}, []end{exit(75, 1)}, "Pending"},
		"one that may not":                {9, &ohmv1.RetryPolicy{Only: []int32{75}}, []end{exit(75, 1), exit(1, 5)}, "Failed"},
		"the only ones, and no exit":      {9, &ohmv1.RetryPolicy{Only: []int32{75}}, []end{because(task.OOMKilled, 1)}, "Pending"},
		"the only ones, and a success":    {9, &ohmv1.RetryPolicy{Only: []int32{75}}, []end{exit(0, 1)}, "Succeeded"},
		"retries limit the only ones":     {1, &ohmv1.RetryPolicy{Only: []int32{75}}, []end{exit(75, 1), exit(75, 9)}, "Failed"},
		"lack of memory is its own doing": {0, nil, []end{because(task.OOMKilled, 1)}, "Failed"},
	} {
		s, j := newBuild(t, "batch", 1, retries(row.retries), retry(row.policy)).ended(slot(0), row.ends...).snapshot()
		if d := reconcile.Job(s, j, at(100)); d.State != row.state || (d.Done != nil) != (row.state != "Pending") {
			t.Errorf("%s: %s, done %v; want %s", name, d.State, d.Done, row.state)
		}
	}
}
