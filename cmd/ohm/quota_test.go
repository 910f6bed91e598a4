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

func TestQuotaWeight(t *testing.T) {
	f := startFake(t, fullCell())
	r := ohm(t, f.address, call{args: []string{"quota", "set", "prod", "--weight", "3"}})
	want := &ohmv1.SetQuotaRequest{Kind: "namespace", Name: "prod", Limit: &ohmv1.Amounts{}, Weight: 3}
	if diff := cmp.Diff(want, f.requests[len(f.requests)-1], protocmp.Transform()); diff != "" || r.code != exitDone {
		t.Error(r.text(f.address), diff)
	}
	for _, q := range f.quotas {
		if q.Kind == "namespace" {
			q.Fair = &ohmv1.FairShare{Namespace: q.Name, Weight: 3, Share: 0.9, Due: 0.75, Borrowed: 0.15, Code: "Borrowing", Text: "it borrows"}
		}
	}
	for verb, says := range map[string][]string{"list": {"WEIGHT", "HOLDS", "DUE", "BORROWED", " 90% ", " 75% ", " 15% "}, "get": {"it borrows"}} {
		args := []string{"quota", verb}
		if verb == "get" {
			args = append(args, "prod")
		}
		r := ohm(t, f.address, call{args: args})
		for _, s := range says {
			if !strings.Contains(r.stdout, s) {
				t.Errorf("%s does not say %q: %s", verb, s, r.text(f.address))
			}
		}
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
		{[]string{"set", "prod", "--weight", "0"}, exitUsage, "--weight: 0 is less than 1"},
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
