package keeper

import (
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What a job counts against its retries is kept, and nothing else that is old.
func TestKeepsWhatSpendsRetries(t *testing.T) {
	spec := &ohmv1.JobSpec{Kind: "batch", Retries: 20, Retry: &ohmv1.RetryPolicy{Spend: []string{"nodeLoss", "drain"}}}
	for cause, want := range map[string]bool{
		task.NodeLost: true, task.Drained: true, task.Preempted: false, task.OOMKilled: true, task.Exited: true, task.DiskFull: false, task.Stop: false,
	} {
		e := &cellstate.Ended{Ended: &ohmv1.Ended{Status: &ohmv1.Status{Cause: cause}}}
		if got := counts(&cellstate.Job{Record: &ohmv1.Job{Spec: spec, Version: 2}}, cellstate.Slot{Version: 2}, e); got != want {
			t.Errorf("%s: kept %v, want %v", cause, got, want)
		}
	}
}
