package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

func word(b *build, version int64, message string) *build {
	return b.put(cellstate.WaitingKey(jobName()), &ohmv1.Waiting{Namespace: "default", Job: "j", JobVersion: version, Message: message})
}

func seen(b *build, seconds float64) *build {
	return b.put(cellstate.MetaKey(reconcile.SeenMeta(b.spec.Scheduler)), &ohmv1.Meta{Value: "a", Time: stamp(seconds)})
}

func TestStatusSaysWhy(t *testing.T) {
	for _, row := range []struct {
		name string
		cell func(t *testing.T) *build
		now  float64
		want string
	}{
		{"just submitted", func(t *testing.T) *build { return newBuild(t, "batch", 1).registered("a") }, 29, "waiting for scheduler batch"},
		{"the scheduler's word", func(t *testing.T) *build { return word(newBuild(t, "batch", 1).registered("a"), 1, "no room") }, 99, "no room"},
		{"a word on an older version is none", func(t *testing.T) *build {
			return word(newBuild(t, "batch", 1, version(2)).registered("a"), 1, "no room")
		}, 5, "waiting for scheduler batch"},
		{"running needs no words", func(t *testing.T) *build {
			return newBuild(t, "batch", 1).live(slot(0), 1, "n1", task.Running)
		}, 99, ""},
		{"backoff", func(t *testing.T) *build {
			return newBuild(t, "batch", 1, retries(3)).registered("a").ended(slot(0), exit(3, 0), exit(3, 10))
		}, 10.2, "main/0 ended (exited 3), attempt 3 follows in 2 s"},
		{"a crash loop, before the next attempt", func(t *testing.T) *build {
			return newBuild(t, "service", 1).registered("a").ended(slot(0), exit(3, 0), exit(3, 10), exit(4, 20))
		}, 20.2, "main/0 is in a crash loop: it ended 3 times in a row soon after its start, at last so: exited 4; attempt 4 follows in 4 s"},
		{"a crash loop, in an attempt", func(t *testing.T) *build {
			return newBuild(t, "service", 1).ended(slot(0), exit(3, -30), exit(3, -20), exit(3, -10)).live(slot(0), 4, "n1", task.Running)
		}, 59, "main/0 is in a crash loop: it ended 3 times in a row soon after its start, at last so: exited 3"},
		{"a crash loop is over with a steady run", func(t *testing.T) *build {
			return newBuild(t, "service", 1).ended(slot(0), exit(3, -30), exit(3, -20), exit(3, -10)).live(slot(0), 4, "n1", task.Running)
		}, 60, ""},
		{"moved again and again is no crash loop", func(t *testing.T) *build {
			return newBuild(t, "service", 1).ended(slot(0), because(task.Drained, -30), because(task.Preempted, -20), because(task.NodeLost, -10)).live(slot(0), 4, "n1", task.Running)
		}, 1, ""},
		{"others of the job are to end first", func(t *testing.T) *build {
			return newBuild(t, "batch", 5, parallel(2)).live(slot(0), 1, "n1", task.Running).live(slot(1), 1, "n1", task.Running)
		}, 99, "3 tasks to follow: maxParallel is 2"},
		{"failures that are allowed", func(t *testing.T) *build {
			return newBuild(t, "batch", 2, allowed(1)).ended(slot(0), exit(3, 0)).ended(slot(1), exit(0, 0))
		}, 1, "1 of 2 tasks failed, which allowedFailures allows"},
		{"the older version", func(t *testing.T) *build {
			return newBuild(t, "batch", 1, version(2)).registered("a").live(slotV(0, 1), 1, "n1", task.Running)
		}, 1, "main/0 waits until the task of the older version has ended"},
		{"failed", func(t *testing.T) *build { return newBuild(t, "batch", 1).ended(slot(0), exit(3, 0)) }, 1, "main/0 failed (exited 3) in attempt 1"},
		{"stopping", func(t *testing.T) *build {
			return newBuild(t, "batch", 2, stopped).live(slot(0), 1, "n1", task.Running).live(slot(1), 1, "n1", task.Running)
		}, 1, "2 tasks still to stop"},
		{"gang timeout", func(t *testing.T) *build { return newBuild(t, "ml", 1, gangTimeout("fail", time.Minute)) }, 60, "the gang found no room within 1m0s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, j := row.cell(t).snapshot()
			if got := reconcile.Status(s, j, at(row.now)).GetMessage(); got != row.want {
				t.Errorf("message %q, want %q", got, row.want)
			}
		})
	}
}

// Field case 111: a job whose scheduler is not there, or does not answer, says so.
func TestCase111SchedulerNotSeen(t *testing.T) {
	short := reconcile.Defaults()
	short.Unanswered = 2 * time.Second
	for _, row := range []struct {
		name   string
		limits reconcile.Limits
		cell   func(t *testing.T) *build
		now    float64
		want   string
	}{
		{"never registered", reconcile.Defaults(), func(t *testing.T) *build { return newBuild(t, "batch", 1) }, 1, "scheduler batch is not registered"},
		{"stopped", reconcile.Defaults(), func(t *testing.T) *build { return seen(newBuild(t, "batch", 1).registered(), -20) }, 20, "scheduler batch has not been seen for 40 s"},
		{"stopped, though it had spoken", reconcile.Defaults(), func(t *testing.T) *build {
			return word(seen(newBuild(t, "batch", 1).registered(), 1), 1, "no room")
		}, 6, "scheduler batch has not been seen for 5 s"},
		{"registered and never seen at work", reconcile.Defaults(), func(t *testing.T) *build { return newBuild(t, "batch", 1).registered() }, 0, "scheduler batch has not been seen for 1000 s"},
		{"silent", reconcile.Defaults(), func(t *testing.T) *build { return newBuild(t, "batch", 1).registered("a") }, 30, "scheduler batch has not answered for 30 s"},
		{"silent about a new version", reconcile.Defaults(), func(t *testing.T) *build {
			return word(newBuild(t, "batch", 1, version(2)).registered("a"), 1, "no room")
		}, 31, "scheduler batch has not answered for 31 s"},
		{"silent since its task was lost", reconcile.Defaults(), func(t *testing.T) *build {
			return newBuild(t, "batch", 1).registered("a").ended(slot(0), because(task.NodeLost, 100))
		}, 129, "waiting for scheduler batch"},
		{"the limit is a setting", short, func(t *testing.T) *build { return newBuild(t, "batch", 1).registered("a") }, 2, "scheduler batch has not answered for 2 s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, j := row.cell(t).snapshot()
			got := row.limits.Status(s, j, at(row.now))
			if got.GetMessage() != row.want || got.GetState() != reconcile.Pending {
				t.Errorf("%s: %q, want Pending: %q", got.GetState(), got.GetMessage(), row.want)
			}
		})
	}
}

func TestStatusFields(t *testing.T) {
	s, j := newBuild(t, "batch", 1, func(j *ohmv1.Job) { j.RequestId = "r" }).ended(slot(0), exit(0, 7)).snapshot()
	got := reconcile.Status(s, j, at(100))
	if got.GetNamespace() != "default" || got.GetJob() != "j" || got.GetKind() != "batch" || got.GetScheduler() != "batch" ||
		got.GetVersion() != 1 || got.GetPrecedence() != 100 || got.GetRequestId() != "r" || got.GetRevision() != int64(s.Revision()) {
		t.Errorf("status %v", got)
	}
	if got.GetState() != "Succeeded" || !got.GetEnded().AsTime().Equal(at(7)) || got.GetElapsed().AsDuration() != 7*time.Second {
		t.Errorf("%s ended %v after %v, want Succeeded after 7 s", got.GetState(), got.GetEnded().AsTime(), got.GetElapsed().AsDuration())
	}
	s, j = newBuild(t, "batch", 1, func(j *ohmv1.Job) {
		j.Done = &ohmv1.Outcome{State: "Stopped", Time: stamp(9), Groups: []*ohmv1.GroupCounts{{Name: "main", Count: 1, Stopped: 1}}}
	}).snapshot()
	got = reconcile.Status(s, j, at(100))
	if got.GetState() != "Stopped" || !got.GetEnded().AsTime().Equal(at(9)) || got.GetGroups()[0].GetStopped() != 1 {
		t.Errorf("a done job is not as its outcome says: %v", got)
	}
}

func TestTasks(t *testing.T) {
	s, j := newBuild(t, "batch", 5, version(2), retries(2)).registered("a").
		live(slotV(4, 1), 1, "n1", task.Running).
		ended(slotV(0, 1), exit(1, 0)).
		ended(slotV(0, 2), exit(1, 0), exit(0, 5)).
		ended(slotV(1, 2), exit(9, 6)).
		live(slotV(2, 2), 1, "n2", task.Unknown).
		snapshot()
	text := func(views []*ohmv1.TaskView) string {
		var out []string
		for _, v := range views {
			out = append(out, fmt.Sprintf("%s@%d #%d %s node=%s cause=%s since=%v", v.GetTask(), v.GetVersion(), v.GetAttempt(), v.GetState(),
				v.GetNode(), v.GetCause(), v.GetSince().AsTime().Sub(t0).Seconds()))
		}
		return strings.Join(out, "\n")
	}
	want := `j/main/4@1 #1 Running node=n1 cause= since=0
j/main/0@2 #2 Succeeded node=n1 cause=exited 0 since=5
j/main/1@2 #1 Pending node= cause=exited 9 since=6
j/main/2@2 #1 Assigned node=n2 cause= since=0
j/main/3@2 #0 Pending node= cause= since=0
j/main/4@2 #0 Pending node= cause= since=0`
	if got := text(reconcile.Tasks(s, j, at(6.5), false)); got != want {
		t.Errorf("tasks:\n%s\nwant:\n%s", got, want)
	}
	want = `j/main/0@1 #1 Failed node=n1 cause=exited 1 since=0
j/main/4@1 #1 Running node=n1 cause= since=0
j/main/0@2 #1 Failed node=n1 cause=exited 1 since=0
j/main/0@2 #2 Succeeded node=n1 cause=exited 0 since=5
j/main/1@2 #1 Failed node=n1 cause=exited 9 since=6
j/main/1@2 #1 Pending node= cause=exited 9 since=6
j/main/2@2 #1 Assigned node=n2 cause= since=0
j/main/3@2 #0 Pending node= cause= since=0
j/main/4@2 #0 Pending node= cause= since=0`
	if got := text(reconcile.Tasks(s, j, at(6.5), true)); got != want {
		t.Errorf("attempts:\n%s\nwant:\n%s", got, want)
	}
	s, j = newBuild(t, "batch", 2, stopped).ended(slot(0), because(task.Stop, 1)).snapshot()
	want = "j/main/0@1 #1 Failed node=n1 cause=Stopped since=1" // the builder's state; a slot that never began is not there
	if got := text(reconcile.Tasks(s, j, at(6), false)); got != want {
		t.Errorf("of a stopped job:\n%s\nwant:\n%s", got, want)
	}
}
