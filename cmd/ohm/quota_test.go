package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestQuotaSet(t *testing.T) {
	f := startFake(t, fullCell())
	r := ohm(t, f.address, call{args: []string{"quota", "set", "prod", "--cpu", "10", "--gpus", "0", "--disk", "1Ti"}})
	want := &ohmv1.SetQuotaRequest{Kind: "namespace", Name: "prod", Limit: &ohmv1.Amounts{
		CpuMilli: proto.Int64(10_000), GpuMilli: proto.Int64(0), DiskBytes: proto.Int64(1 << 40)}}
	if diff := cmp.Diff(want, f.requests[len(f.requests)-1], protocmp.Transform()); diff != "" || r.code != exitDone {
		t.Error(r.text(f.address), diff)
	}
}

func TestQuotaErrors(t *testing.T) {
	f := startFake(t, fullCell())
	for _, c := range []struct {
		args []string
		code exitCode
		says string
	}{
		{[]string{"set", "prod"}, exitUsage, "at least one of --cpu, --memory, --disk and --gpus"},
		{[]string{"set", "prod", "--cpu", "many"}, exitUsage, `--cpu: "many"`},
		{[]string{"set", "prod", "--memory", "64"}, exitUsage, `--memory: "64" has no unit`},
		{[]string{"set"}, exitUsage, "the name of a namespace or a scheduler"},
		{[]string{"set", "nobody", "--scheduler", "--cpu", "1"}, exitNotFound, `there is no scheduler "nobody"`},
		{[]string{"get", "prdo"}, exitNotFound, `did you mean "prod"?`},
		{[]string{"get", "batch"}, exitNotFound, "scheduler batch has one"},
		{[]string{"delete", "prod", "--scheduler"}, exitNotFound, "namespace prod has one"},
		{[]string{"delete", "other"}, exitNotFound, `namespace "other" has no quota`},
		{[]string{"delete", "prod"}, exitDone, "the quota of namespace prod is removed"},
	} {
		if r := ohm(t, f.address, call{args: append([]string{"quota"}, c.args...)}); r.code != c.code || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
			t.Errorf("%v: %s", c.args, r.text(f.address))
		}
	}
}
