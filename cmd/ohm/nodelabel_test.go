package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestNodeLabel(t *testing.T) {
	f := startFake(t, fullCell())
	for _, c := range []struct {
		args   string
		want   *ohmv1.SetIntentRequest // nil: refused
		code   exitCode
		stdout string
		stderr string
	}{
		{args: "dev zone=a example.org/rack=r_7", want: &ohmv1.SetIntentRequest{Node: "dev", Labels: map[string]string{"zone": "a", "example.org/rack": "r_7"}},
			stdout: "NODE  LABEL             VALUE\ndev   example.org/rack  r_7\ndev   zone              a\n"},
		{args: "dev zone=b=c example.org/rack-", want: &ohmv1.SetIntentRequest{Node: "dev", Labels: map[string]string{"zone": "b=c"}, RemoveLabels: []string{"example.org/rack"}},
			stdout: "NODE  LABEL  VALUE\ndev   zone   b=c\n"},
		{args: "dev zone=", want: &ohmv1.SetIntentRequest{Node: "dev", Labels: map[string]string{"zone": ""}},
			stdout: "NODE  LABEL  VALUE\ndev   zone\n"},
		{args: "dev zone- none-", want: &ohmv1.SetIntentRequest{Node: "dev", RemoveLabels: []string{"zone", "none"}},
			stdout: "node dev has no labels\n"},
		{args: "dve zone=a", want: &ohmv1.SetIntentRequest{Node: "dve", Labels: map[string]string{"zone": "a"}},
			code: exitNotFound, stderr: `there is no node "dve"; did you mean "dev"?`},
		{args: "dev", code: exitUsage, stderr: "`ohm node label` needs the name of a node and labels: KEY=VALUE to set one, KEY- to remove it"},
		{args: "dev zone", code: exitUsage, stderr: `"zone" is not KEY=VALUE, which sets a label, or KEY-, which removes it`},
		{args: "dev =a", code: exitUsage, stderr: `label "" is not allowed; use 1 to 63 letters`},
		{args: "dev a-=b", code: exitUsage, stderr: `label "a-" is not allowed; use 1 to 63 letters`},
		{args: "dev _-", code: exitUsage, stderr: `label "_" is not allowed; use 1 to 63 letters`},
		{args: "dev a=\t", code: exitUsage, stderr: `label "a": its value must be at most 256 bytes of printable text`},
		{args: "dev a=1 a-", code: exitUsage, stderr: `label "a" is given twice`},
	} {
		f.intents = nil
		r := ohm(t, f.address, call{args: append([]string{"node", "label"}, strings.Split(c.args, " ")...)})
		if r.code != c.code || r.stdout != c.stdout || !strings.Contains(r.stderr, c.stderr) || (r.stderr == "") != (c.stderr == "") {
			t.Errorf("%s: %s", c.args, r.text(f.address))
		}
		var want []*ohmv1.SetIntentRequest
		if c.want != nil {
			want = append(want, c.want)
		}
		if diff := cmp.Diff(want, f.intents, protocmp.Transform()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.args, diff)
		}
	}
}
