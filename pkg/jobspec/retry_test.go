package jobspec

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestParseRetry(t *testing.T) {
	got := accepted(t, with(t, "kind: batch", "kind: batch\nretries: 3\nretry: {fatal: [42, 2], spend: [nodeLoss, drain, preemption], first: 2s, most: 5m}"))
	want := &ohmv1.RetryPolicy{Fatal: []int32{42, 2}, Spend: []string{"nodeLoss", "drain", "preemption"},
		First: durationpb.New(2 * time.Second), Most: durationpb.New(5 * time.Minute)}
	if diff := cmp.Diff(want, got.Retry, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := accepted(t, with(t, "kind: batch", "kind: batch\nretries: 1\nretry: {only: [75]}")); len(got.Retry.Only) != 1 || got.Retry.Only[0] != 75 {
		t.Errorf("only: %v", got.Retry)
	}
	if got := accepted(t, with(t, "kind: batch", "kind: ml\nretries: never")); !got.StartOnce || got.Retries != 0 {
		t.Errorf("never: %v", got)
	}
	accepted(t, with(t, "kind: batch", "kind: batch\nretry: {spend: [drain]}"))
}

func TestRetryRefused(t *testing.T) {
	for fields, want := range map[string][]string{
		"batch\nretries: Never":   {`3:10: retries "Never" is not a whole number; write digits, e.g. retries: 3`},
		"service\nretries: never": {"3:1: retries is only for batch and ml jobs, and this is a service job"},
		"batch\nretries: never\nretry: {spend: [drain]}\nstop: {replace: atOnce}": {
			"4:8: retry has no effect with retries: never",
			"5:17: stop.replace atOnce does not go with retries: never, which lets nothing replace a task"},
		"batch\nretry: {fatal: [1], most: 2s}": {
			"3:16: retry.fatal has no effect without retries; add e.g. retries: 3",
			"3:27: retry.most has no effect without retries; add e.g. retries: 3"},
		"batch\nretries: 1\nretry: {fatal: [0, 7, 7], only: [25]}": {
			"4:17: retry.fatal 0 is not an exit code of a failure, 1 to 255",
			"4:23: retry.fatal has 7 twice",
			"4:33: retry.only does not go with retry.fatal; any other exit code is fatal already"},
		"batch\nretries: 1\nretry: {only: [256]}": {"4:16: retry.only 256 is not an exit code of a failure, 1 to 255"},
		"batch\nretry: {spend: [drains, drain, drain]}": {
			`3:17: retry.spend "drains" is not one of nodeLoss, drain, preemption; did you mean drain?`,
			"3:32: retry.spend has drain twice"},
		"batch\nretries: 1\nretry: {first: 10s, most: 5s, spend: [], only: []}": {
			"4:27: retry.most is less than retry.first, 10s",
			"4:38: retry.spend is empty; leave it out for none",
			"4:48: retry.only is empty; leave it out for any exit code"},
		"batch\nretries: 1\nretry: {first: 1ms}": {"4:16: retry.first is less than 100ms"},
	} {
		for i := range want {
			want[i] = "job.yaml:" + want[i]
		}
		file := with(t, "kind: batch", "kind: "+fields)
		refused(t, file, want...)
	}
}
