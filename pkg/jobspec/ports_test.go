package jobspec

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestPortsAndHealth(t *testing.T) {
	spec := accepted(t, with(t, "count: 4", `ports: {http: 8080, debug: 0}
    health:
      ready: {http: {port: http, path: /ready}, interval: 1s}
      live: {exec: {command: [test, -e, alive]}, startPeriod: 1m, timeout: 500ms, failures: 1}`))
	if diff := cmp.Diff([]*ohmv1.Port{{Name: "debug"}, {Name: "http", Number: 8080}}, spec.Groups[0].Ports, protocmp.Transform()); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	spec.Groups[0].Health.Ready.Http.Path = ""
	Defaults(spec)
	want := &ohmv1.Health{
		Ready: &ohmv1.Check{Http: &ohmv1.HTTPCheck{Port: "http", Path: "/"}, StartPeriod: durationpb.New(defaultStartPeriod),
			Interval: durationpb.New(time.Second), Timeout: durationpb.New(defaultTimeout), Failures: defaultFailures},
		Live: &ohmv1.Check{Exec: &ohmv1.ExecCheck{Command: []string{"test", "-e", "alive"}}, StartPeriod: durationpb.New(time.Minute),
			Interval: durationpb.New(defaultInterval), Timeout: durationpb.New(500 * time.Millisecond), Failures: 1},
	}
	if diff := cmp.Diff(want, spec.Groups[0].Health, protocmp.Transform()); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}

func TestWrongPortsAndHealth(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"ports: {http: 65536}", "job.yaml:5:19: port http is 65536, which is not from 1 to 65535, or 0 for a dynamic one"},
		{"ports: {http: -1}", "job.yaml:5:19: port http is -1, which is not from 1 to 65535, or 0 for a dynamic one"},
		{"ports: {a: 80, b: 80}", "job.yaml:5:23: port b is 80, and so is port a"},
		{"ports: {http: web}", "job.yaml:5:19: ports.http \"web\" is not a whole number; write digits, e.g. http: 3"},
		{"ports: {my_port: 80}", `job.yaml:5:22: port name "my_port" is not allowed; use 1 to 63 lower-case letters, digits and "-", with a letter or digit at both ends`},
		{"ports: [80]", "job.yaml:5:12: ports must be a map of keys and values, not a list"},
		{"network: bridge", `job.yaml:5:14: network "bridge" is not one of host, own`},
		{"health: {}", "job.yaml:5:13: health has neither a check ready nor one live"},
		{"health: {ready: {}}", "job.yaml:5:21: check ready has 0 of http, tcp and exec; it takes exactly one"},
		{"health: {live: {tcp: {port: web}}}", `job.yaml:5:33: port "web" is none of the group's ports`},
		{"health: {live: {exec: {command: []}}}", "job.yaml:5:37: command is missing, begins with an empty word or has a zero byte in it"},
		{"health: {live: {exec: {command: [a]}, interval: 1ms}}", "job.yaml:5:53: interval is less than 100ms"},
		{"health: {live: {exec: {command: [a]}, failures: 0}}", "job.yaml:5:53: failures 0 is not at least 1"},
		{"health: {livenessProbe: {}}", `job.yaml:5:14: unknown key "livenessProbe"; did you mean "live"?`},
	} {
		refused(t, with(t, "count: 4", c.line), c.want)
	}
}
