package keeper

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// update is a service of three running tasks to which a new version has just come, of which
// no task ever starts.
func (h *house) update(onFailure string) (name cellstate.JobName) {
	h.nodes(1)
	name = h.Job(celltest.Job{Name: "svc", Kind: "service", Count: 3})
	h.Mark(name, func(j *ohmv1.Job) {
		j.Spec.Update = &ohmv1.UpdatePolicy{
			MaxUnavailable: &ohmv1.Amount{Number: 1}, Steady: durationpb.New(time.Second),
			ProgressDeadline: durationpb.New(time.Minute), OnFailure: onFailure,
		}
	})
	for i := range 3 {
		h.Status(h.Place("svc", i, "n0").Slot, task.Running)
	}
	j := h.Snapshot().Job(name)
	spec := proto.CloneOf(j.Record.GetSpec())
	spec.Groups[0].Env = map[string]string{"A": "b"}
	record, rollout := reconcile.Next(j, spec, time.Now())
	h.Put(cellstate.JobRecords(j, name, record, rollout)...)
	return name
}

// The keeper takes the steps of an update, and its deadline fires though nothing happens; a new
// leader goes on where the one before was.
func TestUpdateComesForward(t *testing.T) {
	inHouse(t, func(h *house) {
		name := h.update("pause")
		stop := h.run(h.keeper("s1", Limits{}))
		h.pass(30 * time.Second)
		first := h.Snapshot().Job(name).Rollout
		if r := first.GetRetired(); len(r) != 1 || r[0].GetIndex() != 0 || first.GetState() != "Running" {
			t.Fatalf("after a while: %v", first)
		}
		stop()
		h.run(h.keeper("s1", Limits{}))
		h.pass(29 * time.Second)
		if r := h.Snapshot().Job(name).Rollout; !proto.Equal(r, first) {
			t.Errorf("under another leader: %v", r)
		}
		h.pass(2 * time.Second)
		if r := h.Snapshot().Job(name).Rollout; r.GetState() != "Failed" || len(r.GetRetired()) != 1 || r.GetMessage() == "" {
			t.Errorf("after the deadline: %v", r)
		}
	})
}

// An update that has failed is reverted in one write, if its job wants that.
func TestFailedUpdateIsReverted(t *testing.T) {
	inHouse(t, func(h *house) {
		name := h.update("revert")
		h.run(h.keeper("s1", Limits{}))
		h.pass(62 * time.Second)
		j := h.Snapshot().Job(name)
		if j.Record.GetVersion() != 3 || j.VersionOf("main") != 1 || len(j.Record.GetSpec().GetGroups()[0].GetEnv()) != 0 {
			t.Errorf("the job: %v", j.Record)
		}
		if r := j.Rollout; !r.GetReverts() || r.GetVersion() != 3 || r.GetMessage() == "" {
			t.Errorf("its rollout: %v", r)
		}
	})
}
