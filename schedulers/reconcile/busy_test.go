package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Field case 112: an attempt that found its port busy is not charged and replaced at once;
// what it found is known to all slots of the job for a while; and who finds it busy again
// and again is not fast at it.
func TestCase112(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	l := reconcile.Defaults()
	type end struct {
		ago   time.Duration
		cause string
		node  string
		ports []int32
	}
	busy := func(ago time.Duration, node string, ports ...int32) end { return end{ago, task.PortBusy, node, ports} }
	for name, c := range map[string]struct {
		ends  []end // of slot 0
		ports bool
		needs int
		busy  []reconcile.BusyPort
		wake  time.Duration // 0: never
	}{
		"none":           {nil, true, 2, nil, 0},
		"once":           {[]end{busy(time.Second, "n1", 80, 443)}, true, 2, []reconcile.BusyPort{{"n1", 80}, {"n1", 443}}, l.PortBusy - time.Second},
		"on two nodes":   {[]end{busy(5*time.Second, "n1", 80), busy(3*time.Second, "n2", 80)}, true, 2, []reconcile.BusyPort{{"n2", 80}, {"n1", 80}}, l.PortBusy - 5*time.Second},
		"twice, just":    {[]end{busy(time.Second, "n1", 80), busy(0, "n1", 80)}, true, 1, []reconcile.BusyPort{{"n1", 80}}, l.BackoffFirst},
		"long ago":       {[]end{busy(l.PortBusy, "n1", 80)}, true, 2, nil, 0},
		"some long ago":  {[]end{busy(2*l.PortBusy, "n1", 80), busy(2*time.Second, "n2", 80)}, true, 2, []reconcile.BusyPort{{"n2", 80}}, l.PortBusy - 2*time.Second},
		"other ends too": {[]end{busy(3*time.Second, "n1", 80), {ago: 2 * time.Second, cause: task.Drained, node: "n1"}}, true, 2, []reconcile.BusyPort{{"n1", 80}}, l.PortBusy - 3*time.Second},
		"asks for none":  {[]end{busy(time.Second, "n1", 80)}, false, 2, nil, 0},
	} {
		for _, kind := range []string{"batch", "service"} {
			slot := cellstate.Slot{Namespace: "default", Job: "web", Group: "main", Index: 0, Version: 1}
			job := &ohmv1.Job{Version: 1, Spec: &ohmv1.JobSpec{Namespace: "default", Name: "web", Kind: kind, Scheduler: kind,
				Groups: []*ohmv1.Group{{Name: "main", Count: 2}}}}
			if c.ports {
				job.Spec.Groups[0].Ports = []*ohmv1.Port{{Name: "http", Number: 80}}
			}
			records := []cellstate.Change{{Key: cellstate.JobKey(slot.JobName()), Value: job, Revision: 1}}
			for i, e := range c.ends {
				records = append(records, cellstate.Change{Key: slot.EndedKey(i + 1), Revision: 1, Value: &ohmv1.Ended{
					Placement: &ohmv1.Placement{Slot: slot.Proto(), Attempt: int32(i + 1), Node: e.node},
					Status:    &ohmv1.Status{State: task.Failed, Cause: e.cause, BusyPorts: e.ports, Ended: timestamppb.New(now.Add(-e.ago))},
				}})
			}
			s, err := cellstate.NewSnapshot(1, records, nil)
			if err != nil {
				t.Fatal(err)
			}
			needs, wake := l.Needs(s, s.Job(slot.JobName()), now)
			got := ""
			if len(needs) != c.needs {
				got = fmt.Sprintf("%d needs; ", len(needs))
			}
			for _, n := range needs {
				for _, b := range c.busy {
					if !n.Busy(b.Node, b.Port) {
						got += fmt.Sprintf("%v is not busy; ", b)
					}
				}
				if len(n.BusyPorts) != len(c.busy) {
					got += fmt.Sprintf("busy are %v; ", n.BusyPorts)
				}
			}
			if want := now.Add(c.wake); c.wake == 0 && !wake.IsZero() || c.wake != 0 && !wake.Equal(want) {
				got += fmt.Sprintf("wakes after %v", wake.Sub(now))
			}
			if got != "" {
				t.Errorf("%s, %s: %s", name, kind, got)
			}
			if slices.ContainsFunc(reconcile.Job(s, s.Job(slot.JobName()), now).Counts, func(g *ohmv1.GroupCounts) bool { return g.Failed > 0 }) {
				t.Errorf("%s, %s: a slot has failed", name, kind)
			}
		}
	}
}
