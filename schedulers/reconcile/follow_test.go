package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Follow says what Needs says, whatever happens to a job, or nothing; and of what happens to
// most jobs it does say it.
func TestFollow(t *testing.T) {
	followed, placed, ended := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom([]string{"batch", "batch", "batch", "ml", "service"}).Draw(rt, "kind")
		s, was := newBuild(t, kind, 4, retries(1)).live(slotV(3, 0), 1, "n1", task.Running).snapshot()
		needs, wake := reconcile.Defaults().Needs(s, was, t0)
		for step := range 12 {
			var changes []cellstate.Change
			at := s.Revision() + 1
			change := func(key cellstate.Key, value proto.Message) {
				changes = append(changes, cellstate.Change{Key: key, Value: value, Deleted: value == nil, Revision: at})
			}
			for range rapid.IntRange(1, 3).Draw(rt, "changes") {
				of := slotV(rapid.IntRange(0, 4).Draw(rt, "slot"), rapid.SampledFrom([]int64{1, 1, 1, 0}).Draw(rt, "version"))
				now := was.Task(of)
				attempt := now.Attempts() + 1
				switch rapid.IntRange(0, 9).Draw(rt, "what") {
				case 0:
					record := proto.CloneOf(was.Record)
					record.Stopped = !record.Stopped
					change(cellstate.JobKey(jobName()), record)
				case 1:
					change(of.EndedKey(1), nil)
				case 2, 3, 4:
					if now != nil && now.Placement != nil {
						change(of.StatusKey(), &ohmv1.Status{Slot: of.Proto(), State: task.Running})
					}
				default:
					if now == nil || now.Placement == nil {
						change(of.PlacementKey(), placement(of, attempt, "n1"))
						placed++
						break
					}
					cause := rapid.SampledFrom([]string{task.Exited, task.Exited, task.Signalled, task.Drained}).Draw(rt, "cause")
					change(of.PlacementKey(), nil)
					change(of.StatusKey(), nil)
					change(of.EndedKey(int(now.Placement.GetAttempt())), &ohmv1.Ended{
						Placement: now.Placement.Record(), Status: &ohmv1.Status{Slot: of.Proto(), Cause: cause, Ended: stamp(0)},
					})
				}
			}
			seen := map[cellstate.Key]bool{}
			for i := len(changes) - 1; i >= 0; i-- { // a key changes once in a revision
				if seen[changes[i].Key] {
					changes = append(changes[:i], changes[i+1:]...)
					continue
				}
				seen[changes[i].Key] = true
			}
			next, _, err := s.Apply(cellstate.Batch{Revision: at, Changes: changes})
			if err != nil {
				rt.Fatal(err)
			}
			is := next.Job(jobName())
			want, wakes := reconcile.Defaults().Needs(next, is, t0)
			if got, ok := reconcile.Follow(was, is, needs); ok && wake.IsZero() {
				followed++
				for i := range is.Tasks {
					if len(is.Tasks[i].Ended) > 0 {
						ended++
						break
					}
				}
				if text(got) != text(want) || !wakes.IsZero() {
					rt.Fatalf("step %d: follows %s, needs %s, wakes %v: %s", step, text(got), text(want), wakes, cmp.Diff(text(got), text(want)))
				}
			}
			s, was, needs, wake = next, is, want, wakes
		}
	})
	if followed < 20 || ended < 5 {
		t.Errorf("followed %d times, %d of jobs with ended tasks, of %d placements", followed, ended, placed)
	}
}

func text(needs []reconcile.Need) (out string) {
	for _, n := range needs {
		out += fmt.Sprintf("%d@%d#%d ", n.Slot.Index, n.Slot.Version, n.Attempt)
	}
	return out
}
