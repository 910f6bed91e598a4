package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// needsText is "0#1 2#3@n1": index, attempt and, if there is one, the node.
func needsText(d reconcile.Decision) string {
	var out []string
	for _, n := range d.Needs {
		text := fmt.Sprintf("%d#%d", n.Slot.Index, n.Attempt)
		if n.Node != "" {
			text += "@" + string(n.Node)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// countsText is a group's counts without what is zero: "3: waiting 1 running 2".
func countsText(c *ohmv1.GroupCounts) string {
	out := fmt.Sprintf("%d:", c.GetCount())
	for _, p := range []struct {
		name string
		n    int32
	}{
		{"waiting", c.GetWaiting()}, {"starting", c.GetStarting()}, {"running", c.GetRunning()}, {"crashing", c.GetCrashing()}, {"stopping", c.GetStopping()},
		{"succeeded", c.GetSucceeded()}, {"failed", c.GetFailed()}, {"stopped", c.GetStopped()},
	} {
		if p.n != 0 {
			out += fmt.Sprintf(" %s %d", p.name, p.n)
		}
	}
	return out
}

func TestJob(t *testing.T) {
	quick := func(n int) (ends []end) { // n failures in a row, the last one at second 0
		for i := range n {
			ends = append(ends, exit(1, float64(i-n+1)))
		}
		return ends
	}
	for _, row := range []struct {
		name   string
		cell   func(t *testing.T) *build
		now    float64
		needs  string
		wake   float64 // 0: never
		state  string
		done   string
		counts string
	}{
		{
			name:  "batch: new",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 3) },
			needs: "0#1 1#1 2#1", state: "Pending", counts: "3: waiting 3",
		},
		{
			name:  "batch: at most two at a time",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 5, parallel(2)) },
			needs: "0#1 1#1", state: "Pending", counts: "5: waiting 5",
		},
		{
			name: "batch: one of two places is free",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 5, parallel(2)).ended(slot(0), exit(0, 1)).live(slot(1), 1, "n1", task.Running)
			},
			needs: "2#1", state: "Running", counts: "5: waiting 3 running 1 succeeded 1",
		},
		{
			name: "batch: a task of an older version takes a place, too, and more may run than a new limit allows",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 5, parallel(2), version(2)).live(slotV(0, 1), 1, "n1", task.Running).live(slotV(2, 2), 1, "n1", task.Running).live(slotV(3, 2), 1, "n1", task.Running)
			},
			state: "Running", counts: "5: waiting 3 running 2 stopping 1",
		},
		{
			name: "batch: as many failures as are allowed",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 3, allowed(1)).ended(slot(0), exit(0, 1)).ended(slot(1), exit(1, 1)).ended(slot(2), exit(0, 1))
			},
			state: "Succeeded", done: "Succeeded", counts: "3: succeeded 2 failed 1",
		},
		{
			name: "batch: one more",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 3, allowed(1)).ended(slot(0), exit(0, 1)).ended(slot(1), exit(1, 1)).ended(slot(2), exit(1, 1))
			},
			state: "Failed", done: "Failed", counts: "3: succeeded 1 failed 2",
		},
		{
			name: "batch: an allowed failure while others go on",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 2, allowed(1)).ended(slot(0), exit(1, 1)).live(slot(1), 1, "n1", task.Running)
			},
			state: "Running", counts: "2: running 1 failed 1",
		},
		{
			name: "of a kind of a later release: held", cell: func(t *testing.T) *build { return newBuild(t, "quantum", 3) },
			state: "Pending", counts: "3:",
		},
		{
			name:  "of a kind of a later release: what runs is shown",
			cell:  func(t *testing.T) *build { return newBuild(t, "quantum", 1).live(slot(1), 1, "n1", task.Running) },
			state: "Running", counts: "1: running 1",
		},
		{
			name: "service: a crash loop",
			cell: func(t *testing.T) *build {
				return newBuild(t, "service", 2).ended(slot(0), exit(1, -2), exit(1, -1), exit(1, 0)).live(slot(1), 1, "n1", task.Running)
			},
			wake: 4, state: "Running", counts: "2: waiting 1 running 1 crashing 1",
		},
		{
			name: "service: twice is none",
			cell: func(t *testing.T) *build { return newBuild(t, "service", 1).ended(slot(0), exit(1, -1), exit(1, 0)) },
			wake: 2, state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "a task in a state of a later release is there", cell: func(t *testing.T) *build { return newBuild(t, "batch", 1).live(slot(0), 1, "n1", 99) },
			state: "Running", counts: "1: running 1",
		},
		{
			name: "batch: a live slot needs nothing, also while it stops",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 4).live(slot(0), 1, "n1", task.Unknown).live(slot(1), 1, "n1", task.Running).live(slot(2), 1, "n1", task.Stopping)
			},
			needs: "3#1", state: "Running", counts: "4: waiting 1 starting 1 running 1 stopping 1",
		},
		{
			name:  "batch: placed only is still pending",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 1).live(slot(0), 1, "n1", task.Starting) },
			state: "Pending", counts: "1: starting 1",
		},
		{
			name: "batch: all succeeded",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 2).ended(slot(0), exit(0, 1)).ended(slot(1), exit(0, 2))
			},
			now:   3,
			state: "Succeeded", done: "Succeeded", counts: "2: succeeded 2",
		},
		{
			name:  "batch: of no tasks is done",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 0) },
			state: "Succeeded", done: "Succeeded", counts: "0:",
		},
		{
			name:  "batch: a failure waits for its backoff",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 1, retries(3)).ended(slot(0), exit(1, 0)) },
			now:   0.5,
			needs: "", wake: 1, state: "Pending", counts: "1: waiting 1",
		},
		{
			name:  "batch: and is tried again after it",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 1, retries(3)).ended(slot(0), exit(1, 0)) },
			now:   1,
			needs: "0#2", state: "Pending", counts: "1: waiting 1",
		},
		{
			name:  "batch: the backoff doubles",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 1, retries(9)).ended(slot(0), quick(4)...) },
			now:   7.9,
			wake:  8,
			state: "Pending", counts: "1: waiting 1",
		},
		{
			name:  "batch: the backoff has an end",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 1, retries(90)).ended(slot(0), quick(40)...) },
			now:   59,
			wake:  60,
			state: "Pending", counts: "1: waiting 1",
		},
		{
			name:  "batch: without retries one failure is enough",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 1).ended(slot(0), exit(1, 0)) },
			state: "Failed", done: "Failed", counts: "1: failed 1",
		},
		{
			name: "batch: what the cell does to a task spends nothing and waits for nothing",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 1).ended(slot(0), because(task.NodeLost, 1), because(task.Drained, 2), because(task.Preempted, 3), because(task.Stop, 4))
			},
			now:   4,
			needs: "0#5", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "batch: every user error spends",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 1, retries(6)).ended(slot(0), exit(7, 1), because(task.Signalled, 2), because(task.OOMKilled, 3),
					because(task.StartFailed, 4), because(task.TimedOut, 5), because(task.ImageNotFound, 6), because(task.ImageDenied, 7))
			},
			now:   100,
			state: "Failed", done: "Failed", counts: "1: failed 1",
		},
		{
			name: "batch: what a node or its surroundings do to a task spends nothing, and waits longer each time",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 1).ended(slot(0), because(task.PortBusy, 1), because(task.DeviceLost, 2), because(task.DiskFull, 3),
					because(task.Refused, 4), because(task.StartDeadline, 5), because(task.UnknownExit, 6))
			},
			now:   37.5,
			state: "Pending", counts: "1: waiting 1", wake: 38,
		},
		{
			name: "batch: after the wait it is due",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 1).ended(slot(0), because(task.PortBusy, 1), because(task.Drained, 2), because(task.UnknownExit, 3))
			},
			now:   4,
			needs: "0#4", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "batch: a cause of a later release spends, so that it cannot go on for ever",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 1).ended(slot(0), because("Eaten", 1))
			},
			state: "Failed", done: "Failed", counts: "1: failed 1",
		},
		{
			name: "batch: siblings of a failed slot run on to their end",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 3).ended(slot(0), exit(1, 0)).live(slot(1), 1, "n1", task.Running)
			},
			now:   9,
			needs: "2#1", state: "Running", counts: "3: waiting 1 running 1 failed 1",
		},
		{
			name: "batch: failed once nothing is left to run",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 2).ended(slot(0), exit(1, 0)).ended(slot(1), exit(0, 0))
			},
			state: "Failed", done: "Failed", counts: "2: succeeded 1 failed 1",
		},
		{
			name: "batch: stopped with a live task is stopping",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 2, stopped).live(slot(0), 1, "n1", task.Running)
			},
			state: "Stopping", counts: "2: stopping 1 stopped 1",
		},
		{
			name: "batch: stopped",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 2, stopped).ended(slot(0), because(task.Stop, 1))
			},
			state: "Stopped", done: "Stopped", counts: "2: stopped 2",
		},
		{
			name:  "batch: stopped after its success has succeeded",
			cell:  func(t *testing.T) *build { return newBuild(t, "batch", 1, stopped).ended(slot(0), exit(0, 1)) },
			state: "Succeeded", done: "Succeeded", counts: "1: succeeded 1",
		},
		{
			name: "batch: the older version's task must go first",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 2, version(2)).live(slotV(1, 1), 1, "n1", task.Running)
			},
			needs: "0#1", state: "Pending", counts: "2: waiting 2 stopping 1",
		},
		{
			name: "batch: the older version's attempts are not counted",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 1, version(2)).ended(slotV(0, 1), exit(1, 0))
			},
			needs: "0#1", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "batch: is not done while an older task is there",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 1, version(2)).ended(slotV(0, 2), exit(0, 0)).live(slotV(7, 1), 1, "n1", task.Running)
			},
			state: "Stopping", counts: "1: stopping 1 succeeded 1",
		},
		{
			name: "service: any end leads to a replacement",
			cell: func(t *testing.T) *build {
				return newBuild(t, "service", 3).ended(slot(0), after(exit(0, 99), 0)).ended(slot(1), because(task.NodeLost, 100))
			},
			now:   100,
			needs: "0#2 1#2 2#1", state: "Pending", counts: "3: waiting 3",
		},
		{
			name: "service: an index beyond the count is not replaced",
			cell: func(t *testing.T) *build {
				return newBuild(t, "service", 1).live(slot(0), 1, "n1", task.Running).live(slot(1), 1, "n1", task.Running)
			},
			state: "Running", counts: "1: running 1 stopping 1",
		},
		{
			name:  "service: quick ends back off, longer each time",
			cell:  func(t *testing.T) *build { return newBuild(t, "service", 1).ended(slot(0), quick(3)...) },
			now:   3.5,
			wake:  4,
			state: "Pending", counts: "1: waiting 1 crashing 1",
		},
		{
			name: "service: a steady run starts the backoff afresh",
			cell: func(t *testing.T) *build {
				return newBuild(t, "service", 1).ended(slot(0), exit(1, -200), exit(1, -199), exit(1, -197), after(exit(1, 0), -100))
			},
			now:   0.5,
			wake:  1,
			state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "service: a lost node in between does not",
			cell: func(t *testing.T) *build {
				return newBuild(t, "service", 1).ended(slot(0), exit(1, -9), because(task.NodeLost, -5), exit(1, 0))
			},
			now:   0.5,
			wake:  2,
			state: "Pending", counts: "1: waiting 1",
		},
		{
			name:  "service: has no budget",
			cell:  func(t *testing.T) *build { return newBuild(t, "service", 1).ended(slot(0), quick(100)...) },
			now:   60,
			needs: "0#101", state: "Pending", counts: "1: waiting 1 crashing 1",
		},
		{
			name:  "service: with count 0 is running",
			cell:  func(t *testing.T) *build { return newBuild(t, "service", 0) },
			state: "Running", counts: "0:",
		},
		{
			name:  "service: ends only when it is stopped",
			cell:  func(t *testing.T) *build { return newBuild(t, "service", 1, stopped) },
			state: "Stopped", done: "Stopped", counts: "1: stopped 1",
		},
		{
			name:  "ml: all together",
			cell:  func(t *testing.T) *build { return newBuild(t, "ml", 3) },
			needs: "0#1 1#1 2#1", state: "Pending", counts: "3: waiting 3",
		},
		{
			name: "ml: none while one waits for its backoff; then all that are missing",
			cell: func(t *testing.T) *build {
				return newBuild(t, "ml", 4, retries(1)).ended(slot(0), exit(1, 0)).ended(slot(1), because(task.NodeLost, 0)).
					ended(slot(2), exit(1, 0.3)).live(slot(3), 1, "n1", task.Running)
			},
			now:   1.1,
			wake:  1.3,
			state: "Running", counts: "4: waiting 3 running 1",
		},
		{
			name: "ml: a lost member is replaced alone",
			cell: func(t *testing.T) *build {
				return newBuild(t, "ml", 2).ended(slot(0), because(task.NodeLost, 0)).live(slot(1), 1, "n1", task.Running)
			},
			needs: "0#2", state: "Running", counts: "2: waiting 1 running 1",
		},
		{
			name: "ml: a member that failed for good takes the gang down",
			cell: func(t *testing.T) *build {
				return newBuild(t, "ml", 3).ended(slot(0), exit(1, 0)).live(slot(1), 1, "n1", task.Running)
			},
			now:   50,
			state: "Stopping", counts: "3: stopping 1 failed 1 stopped 1",
		},
		{
			name: "ml: and then the job has failed",
			cell: func(t *testing.T) *build {
				return newBuild(t, "ml", 2).ended(slot(0), exit(1, 0)).ended(slot(1), because(task.Stop, 1))
			},
			now:   50,
			state: "Failed", done: "Failed", counts: "2: failed 1 stopped 1",
		},
		{
			name: "ml: an older task holds the whole gang back",
			cell: func(t *testing.T) *build {
				return newBuild(t, "ml", 2, version(2)).live(slotV(1, 1), 1, "n1", task.Running)
			},
			state: "Pending", counts: "2: waiting 2 stopping 1",
		},
		{
			name:  "ml: a gang that may fail by timeout says when",
			cell:  func(t *testing.T) *build { return newBuild(t, "ml", 1, gangTimeout("fail", time.Minute)) },
			now:   59,
			needs: "0#1", wake: 60, state: "Pending", counts: "1: waiting 1",
		},
		{
			name:  "ml: and fails then",
			cell:  func(t *testing.T) *build { return newBuild(t, "ml", 2, gangTimeout("fail", time.Minute)) },
			now:   60,
			state: "Failed", done: "Failed", counts: "2: stopped 2",
		},
		{
			name:  "ml: on timeout wait goes on waiting",
			cell:  func(t *testing.T) *build { return newBuild(t, "ml", 1, gangTimeout("wait", time.Minute)) },
			now:   600,
			needs: "0#1", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "ml: a gang that has started does not time out",
			cell: func(t *testing.T) *build {
				return newBuild(t, "ml", 1, gangTimeout("fail", time.Minute)).ended(slot(0), because(task.NodeLost, 1))
			},
			now:   600,
			needs: "0#2", state: "Pending", counts: "1: waiting 1",
		},
		{
			name: "done: nothing more",
			cell: func(t *testing.T) *build {
				return newBuild(t, "batch", 1, func(j *ohmv1.Job) {
					j.Done = &ohmv1.Outcome{State: "Failed", Groups: []*ohmv1.GroupCounts{{Name: "main", Count: 1, Failed: 1}}}
				})
			},
			state: "Failed", counts: "1: failed 1",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, j := row.cell(t).snapshot()
			d := reconcile.Job(s, j, at(row.now))
			if got := needsText(d); got != row.needs {
				t.Errorf("needs %q, want %q", got, row.needs)
			}
			if want := at(row.wake); row.wake == 0 && !d.Wake.IsZero() || row.wake != 0 && !d.Wake.Equal(want) {
				t.Errorf("wake %v, want %v s", d.Wake, row.wake)
			}
			if d.State != row.state || d.Done.GetState() != row.done {
				t.Errorf("state %q done %q, want %q %q", d.State, d.Done.GetState(), row.state, row.done)
			}
			if got := countsText(d.Counts[0]); got != row.counts || len(d.Counts) != 1 {
				t.Errorf("counts %q, want %q", got, row.counts)
			}
			if d.Done != nil && !d.Done.GetTime().AsTime().Equal(at(row.now)) {
				t.Errorf("done at %v", d.Done.GetTime())
			}
		})
	}
}

func TestARemovedJobOnlyStops(t *testing.T) {
	b := newBuild(t, "batch", 1).live(slot(0), 1, "n1", task.Running)
	b.records = b.records[1:] // the job's record
	s, j := b.snapshot()
	if d := reconcile.Job(s, j, at(0)); len(d.Needs) != 0 || d.Done != nil || d.State != reconcile.Stopping {
		t.Errorf("a removed job: %+v", d)
	}
}

func TestNeedsAreBySlotAcrossGroups(t *testing.T) {
	s, j := newBuild(t, "batch", 1, func(j *ohmv1.Job) {
		j.Spec.Groups = []*ohmv1.Group{{Name: "z", Count: 1}, {Name: "a", Count: 2}}
	}).snapshot()
	d := reconcile.Job(s, j, at(0))
	var got []string
	for _, n := range d.Needs {
		got = append(got, n.Slot.Task())
		if n.Group.GetName() != n.Slot.Group {
			t.Errorf("%s has group %s", n.Slot.Task(), n.Group.GetName())
		}
	}
	if want := "j/a/0 j/a/1 j/z/0"; strings.Join(got, " ") != want {
		t.Errorf("needs %v, want %v", got, want)
	}
	if d.Counts[0].GetName() != "z" || d.Counts[1].GetName() != "a" {
		t.Errorf("counts are not in the order of the job: %v", d.Counts)
	}
}
