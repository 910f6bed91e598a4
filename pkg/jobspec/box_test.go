package jobspec

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
)

const command = "    command: [sh, -c, \"echo hello\"]\n"

func TestParseBox(t *testing.T) {
	got := accepted(t, `job: boxed
kind: batch
groups:
  - name: plain
    image: example.org/train:1
    user: "1000:50"
    dir: /srv
    mounts:
      - {target: /data, source: /srv/data, readOnly: true}
      - {target: /cache, tmpfs: 64Mi}
    readOnlyRoot: true
    capabilities: {add: [CAP_NET_ADMIN], drop: [ALL]}
    confined: false
    cpu: 1
    cpuMax: 1.5
    memory: 64Mi
    pids: 100
    startDeadline: 5m
  - name: several
    cpu: 1
    memory: 0
    env: {A: all}
    containers:
      - {name: fetch, role: init, image: "oci:/srv/fetch", command: [fetch], env: {B: 1}}
      - {name: proxy, role: sidecar, image: "tar:/srv/proxy.tar", confined: true}
      - {name: app, image: app}
`)
	want := &ohmv1.JobSpec{
		Name: "boxed", Kind: "batch", Precedence: new(int32(100)),
		Groups: []*ohmv1.Group{{
			Name: "plain", Count: 1, Resources: &ohmv1.Resources{CpuMilli: 1000, MemoryBytes: 64 << 20},
			Box: &ohmv1.Box{
				Image: "example.org/train:1", User: "1000:50", Dir: "/srv", ReadOnlyRoot: true,
				Mounts:          []*ohmv1.Mount{{Target: "/data", Source: "/srv/data", ReadOnly: true}, {Target: "/cache", TmpfsBytes: 64 << 20}},
				AddCapabilities: []string{"CAP_NET_ADMIN"}, DropCapabilities: []string{"ALL"},
			},
			CpuMaxMilli: 1500, Pids: 100, StartDeadline: durationpb.New(5 * time.Minute),
		}, {
			Name: "several", Count: 1, Resources: &ohmv1.Resources{CpuMilli: 1000}, Env: map[string]string{"A": "all"},
			Containers: []*ohmv1.Container{
				{Name: "fetch", Role: "init", Command: []string{"fetch"}, Env: map[string]string{"B": "1"}, Box: &ohmv1.Box{Image: "oci:/srv/fetch"}},
				{Name: "proxy", Role: "sidecar", Box: &ohmv1.Box{Image: "tar:/srv/proxy.tar", Confined: true}},
				{Name: "app", Box: &ohmv1.Box{Image: "app"}},
			},
		}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	Defaults(got)
	if role := got.Groups[1].Containers[2].Role; role != "main" {
		t.Errorf("the last container's role is %q", role)
	}
	if ps := Validate(got); len(ps) > 0 {
		t.Errorf("with defaults: %v", ps)
	}
}

func TestBoxRefused(t *testing.T) {
	for _, c := range []struct {
		lines string // of the group, from line 8, in place of its command
		want  []string
	}{
		{"    image: \"\"\n", []string{"8:12: image is empty"}},
		{"    image: Train:1\n", []string{`8:12: image "Train:1" is not a reference such as example.org/train:1: invalid reference format: repository name (library/Train) must be lowercase`}},
		{"    image: oci:images/train\n", []string{`8:12: image "oci:images/train" names no absolute path of the node, such as oci:/srv/image`}},
		{"    image: \"tar:\"\n", []string{`8:12: image "tar:" names no absolute path of the node, such as tar:/srv/image`}},
		{"    user: nobody\n", []string{`4:5: command is missing; say what each task runs, e.g. command: [sh, -c, "echo hello"]`}},
		{command + "    user: a b\n    dir: srv\n", []string{
			`9:11: user "a b" is not a user's name or number, with or without a group, e.g. 1000:1000`,
			`10:10: dir "srv" is not absolute; begin it with /`}},
		{command + "    dir: /srv/../etc/\n", []string{`9:10: dir "/srv/../etc/" is not in its shortest form; did you mean /etc?`}},
		{command + "    workdir: /srv\n", []string{`9:5: unknown key "workdir"; did you mean "dir"?`}},
		{command + "    mounts:\n      - {target: data}\n      - {target: /a, source: /b, tmpfs: 1Mi}\n      - {source: b}\n      - {target: /a, tmpfs: 0}\n      - {target: /, source: /b, size: 1Mi}\n", []string{
			`10:18: target "data" is not absolute; begin it with /`,
			"11:9: a mount has exactly one of source, a path of the node, and tmpfs, a size",
			"12:9: target is missing; it says where the mount appears, e.g. target: /data",
			`12:18: source "b" is not absolute; begin it with /`,
			`13:18: two mounts have the target "/a"`,
			"13:29: tmpfs is 0; say how large it may get, e.g. tmpfs: 64Mi",
			"14:18: target / would hide the root; name a folder in it",
			`14:33: unknown key "size"; did you mean "tmpfs"?`}},
		{command + "    readOnlyRoot: yes\n    confined: 1\n", []string{
			`9:19: readOnlyRoot "yes" is not true or false; did you mean true?`,
			`10:15: confined "1" is not true or false; did you mean true?`}},
		{command + "    capabilities: {add: [net_raw, ALL], drop: [CAP_NET_RAV, no], keep: []}\n", []string{
			`9:26: "net_raw" is not a capability of Linux; did you mean CAP_NET_RAW?`,
			`9:35: "ALL" is not a capability of Linux, such as CAP_NET_RAW`,
			`9:48: "CAP_NET_RAV" is not a capability of Linux; did you mean CAP_NET_RAW?`,
			`9:61: "no" is not a capability of Linux, such as CAP_NET_RAW`,
			`9:66: unknown key "keep"; the keys here are add, drop`}},
		{command + "    cpuMax: 50m\n    pids: 0\n    startDeadline: 10\n", []string{
			"9:13: cpuMax 50m is less than the 100m of cpu that each task is given",
			"10:11: pids 0 is not at least 1; leave it out for the usual limit",
			`11:20: startDeadline "10" has no unit; did you mean 10s?`}},
		{command + "    cpuMax: 0\n    pids: -1\n    startDeadline: 1ms\n", []string{
			"9:13: cpuMax is 0; leave it out for no limit",
			"10:11: pids -1 is not between 1 and 4194304",
			"11:20: startDeadline is less than 1s"}},
		{"    containers: []\n", []string{
			"8:17: containers is empty; leave it out for a task of one command"}},
		{command + "    image: a\n    containers:\n      - {name: a, image: a}\n", []string{
			"8:14: command goes to each of the containers where a group has several",
			"9:12: image goes to each of the containers where a group has several"}},
		{"    containers:\n      - {role: init, image: a}\n      - {name: b, role: Sidecar, image: a}\n      - {name: b, image: a}\n      - {name: c, command: [a]}\n", []string{
			"9:9: name is missing; every container has one, e.g. name: main",
			`10:25: role "Sidecar" is not one of main, init, sidecar; did you mean sidecar?`,
			"11:9: a second main container; a group has one, and the others are init or sidecar",
			`11:16: two containers are named "b"`}},
		{"    containers:\n      - {name: a, command: [a]}\n      - {name: b, role: sidecar, image: a}\n", []string{
			"9:9: the main container is the last one: what stands after it would never start"}},
		{"    containers:\n      - {name: a, role: init, command: [a], env: {OHM_X: 1}, ports: {}}\n", []string{
			"9:51: env name \"OHM_X\" is not allowed; names that begin with OHM_ are set by Ohm",
			"9:62: unknown key \"ports\"; it belongs in a group"}},
		{"    containers:\n      - {name: a, role: init, command: [a]}\n", []string{
			"9:7: none of the containers is the main one, whose end is the task's; the last one must be"}},
		{"    containers:\n      - {name: a, mounts: [{target: /x, tmpfs: 1Mi}, {target: /x, source: /y}]}\n", []string{
			`9:9: command is missing; say what each task runs, e.g. command: [sh, -c, "echo hello"]`,
			`9:63: two mounts have the target "/x"`}},
	} {
		want := make([]string, len(c.want))
		for i, w := range c.want {
			want[i] = "job.yaml:" + w
		}
		refused(t, with(t, command, c.lines), want...)
	}
}

// TestImageIsEnough: an image names the command.
func TestImageIsEnough(t *testing.T) {
	for _, image := range []string{"train", "example.org:5000/a/b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "tar:/srv/a.tar", "oci:/srv/a"} {
		if got := accepted(t, with(t, command, "    image: \""+image+"\"\n")).Groups[0].Box.Image; got != image {
			t.Errorf("image %q is %q", image, got)
		}
	}
}
