package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// bent is a policy with something wrong.
type bent struct {
	bend func(in schedulers.Input, out *schedulers.Proposal)
}

func (b bent) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	out, err := schedtest.FirstFit{}.Schedule(ctx, in)
	b.bend(in, &out)
	return out, err
}

// Anybody's scheduler can be tried out where it runs. The custom scheduler of the examples, a
// process of its own, does all that a scheduler owes; of others that do not it is told what.
func TestSchedulerCheck(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t), "--schedulers", "batch")
	type result struct {
		Rule, Kind, Problem string
		Kept                bool
	}
	check := func(t *testing.T, code int, args ...string) (broken []string) {
		t.Helper()
		a := client{t, d.address}.try(append([]string{"scheduler", "check", "-o", "json"}, args...)...)
		if a.code != code {
			t.Errorf("check %v: exit code %d, not %d:\n%s%s", args, a.code, code, a.stdout, a.stderr)
		}
		results := decode[[]result](t, a.stdout)
		for _, r := range results {
			if !r.Kept {
				broken = append(broken, r.Rule+"/"+r.Kind)
			}
		}
		if len(results) == 0 {
			t.Errorf("check %v tried nothing", args)
		}
		return broken
	}
	if a := d.try("scheduler", "check", "first-fit"); a.code != 4 || !strings.Contains(a.stderr, "no process of scheduler first-fit is there; live are batch") {
		t.Errorf("before there is such a scheduler: exit code %d: %s", a.code, a.stderr)
	}
	custom := start(t, "customscheduler", "--address", d.address)
	within(t, patience, "it is registered", func() bool { return strings.Contains(custom.stderr(), `"registered"`) })
	t.Cleanup(func() { d.ohm("audit") }) // after all of them, each of which has its own nodes
	t.Run("first-fit", func(t *testing.T) {
		t.Parallel()
		if broken := check(t, 0, "first-fit"); len(broken) > 0 {
			t.Errorf("the scheduler of the examples breaks %v", broken)
		}
	})
	for _, c := range []struct {
		name, kind string
		policy     bent
		breaks     []string
	}{
		{"torn", "ml", bent{func(_ schedulers.Input, out *schedulers.Proposal) {
			for _, txn := range out.Txns {
				txn.Mode = cellstate.Incremental
			}
		}}, []string{"gang/ml"}},
		{"silent", "batch", bent{func(_ schedulers.Input, out *schedulers.Proposal) { out.Unplaced = nil }}, []string{"waits/batch", "passes-over/batch", "room/batch", "answers/batch"}},
		{"blocked", "batch", bent{func(in schedulers.Input, out *schedulers.Proposal) {
			level := func(j *cellstate.Job) int32 { return j.Record.GetSpec().GetPrecedence() }
			for j := range in.Snapshot.JobsOf("blocked") { // the most important one holds up all others
				out.Txns = slices.DeleteFunc(out.Txns, func(txn *cellstate.Txn) bool {
					return j.Live() && len(j.Tasks) == 0 && level(j) > level(in.Snapshot.Job(txn.Claims[0].Slot.JobName()))
				})
			}
		}}, []string{"passes-over/batch"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at := client{t, d.address}
			at.schedule(c.name, c.policy)
			if broken := check(t, 1, c.name, "--kind", c.kind, "--patience", "5s"); !slices.Equal(broken, c.breaks) {
				t.Errorf("it breaks %v; want %v", broken, c.breaks)
			}
			if left := at.ohm("status", "--namespace", "check-"+c.name); strings.Contains(left, "Running") || strings.Contains(left, "Pending") {
				t.Errorf("the check has left behind:\n%s", left)
			}
		})
	}
}
