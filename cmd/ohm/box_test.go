package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestShapeForPeople(t *testing.T) {
	var said []string
	for _, p := range shapePairs(&ohmv1.Group{
		Box: &ohmv1.Box{
			Image: "example.org/a:1", User: "1:2", Dir: "/d", ReadOnlyRoot: true, Confined: true,
			Mounts:          []*ohmv1.Mount{{Target: "/t", Source: "/s", ReadOnly: true}, {Target: "/tmp", TmpfsBytes: 64 << 20}},
			AddCapabilities: []string{"CAP_KILL"}, DropCapabilities: []string{"ALL"},
		},
		CpuMaxMilli: 1500, Pids: 9, StartDeadline: durationpb.New(time.Minute),
		Containers: []*ohmv1.Container{{Name: "i", Role: "init", Command: []string{"sh", "-c", "true; x"}, Box: &ohmv1.Box{Image: "tar:/i"}}},
	}) {
		if p[1] != "" {
			said = append(said, p[0]+": "+p[1])
		}
	}
	want := `  image: example.org/a:1
  user: 1:2
  dir: /d
  mounts: /t from /s, read-only; /tmp, a tmpfs of 64Mi
  capabilities: -ALL +CAP_KILL
  box: read-only root, confined
  cpu max: 1.5
  pids: 9
  start deadline: 1m
  container: i, init
    command: sh -c 'true; x'
    image: tar:/i`
	if got := strings.Join(said, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
