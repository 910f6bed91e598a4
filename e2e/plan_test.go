package e2e

import (
	"strings"
	"testing"
)

// planView is what `ohm plan -o json` says.
type planView struct {
	Token string
	Jobs  []struct {
		Was, Version int64
		Unchanged    bool
		Changes      []struct{ Field, Was, Is string }
		Effects      []struct {
			Group, Action string
			Tasks         int
		}
		Placement struct {
			Problem string
			Groups  []struct {
				Wanted, Placed int
				Message        string
			}
		}
	}
}

// Field cases 117 and 82, the whole way: a plan tells what an apply does, which with its token does that or
// nothing; the same applied twice is one version, also of a batch job that has ended.
func TestPlanAndApply(t *testing.T) {
	t.Parallel()
	d, notes := startDev(t, shortDir(t)), shortDir(t)
	file := d.job(service("web", 2, notes))
	p := read[planView](d.client, "plan", file)
	if j := p.Jobs[0]; j.Was != 0 || len(j.Effects) != 1 || j.Effects[0].Action != "start" || j.Placement.Problem != "" || j.Placement.Groups[0].Placed != 2 {
		t.Errorf("of a new job: %+v", j)
	}
	if a := d.try("status", "web"); a.code != 4 {
		t.Errorf("after a plan: exit code %d, %s", a.code, a.stdout)
	}
	changed := d.job(strings.Replace(service("web", 3, notes), "cpu:", "env: {A: x}\n    cpu:", 1))
	if a := d.try("apply", changed, "--token", p.Token); a.code != 5 || !strings.Contains(a.stderr, "the content of job default/web is not the one that was planned") {
		t.Errorf("other content: exit code %d, %s", a.code, a.stderr)
	}
	d.ohm("apply", file, "--token", p.Token, "--wait", "--timeout", patience.String())
	if out := d.ohm("apply", file); !strings.Contains(out, "version 1  unchanged") {
		t.Errorf("applied twice: %s", out)
	}
	p = read[planView](d.client, "plan", changed)
	j := p.Jobs[0]
	if j.Was != 1 || j.Version != 2 || len(j.Changes) != 2 || j.Changes[1].Field != "groups[main].env.A" || len(j.Effects) != 2 ||
		j.Effects[0].Action != "update" || j.Effects[0].Tasks != 2 || j.Effects[1].Action != "start" || j.Effects[1].Tasks != 1 || j.Placement.Groups[0].Placed != 3 {
		t.Errorf("of a change: %+v", j)
	}
	d.ohm("job", "scale", "web", "1")
	if a := d.try("apply", changed, "--token", p.Token); a.code != 5 || !strings.Contains(a.stderr, "it was version 1, and is version 2") {
		t.Errorf("scaled meanwhile: exit code %d, %s", a.code, a.stderr)
	}
	d.ohm("apply", changed, "--token", strings.TrimSpace(d.ohm("plan", changed, "-o", "name")), "--wait", "--timeout", patience.String())
	if g := d.groups("web"); g[0].Running != 3 {
		t.Errorf("applied: %+v", g)
	}
	huge := d.job(strings.Replace(service("huge", 1, notes), "cpu: 10m", "cpu: 5000", 1))
	if j := read[planView](d.client, "plan", huge).Jobs[0]; j.Placement.Groups[0].Placed != 0 || !strings.Contains(j.Placement.Groups[0].Message, "it can never run on the nodes of this cell") {
		t.Errorf("of what fits nowhere: %+v", j.Placement)
	}

	sum := d.job("job: sum\nkind: batch\ngroups:\n  - {name: main, cpu: 10m, memory: 16Mi, command: [\"true\"]}\n")
	d.ohm("apply", sum, "--wait", "--timeout", patience.String())
	if out := d.ohm("apply", sum, "--wait"); !strings.Contains(out, "1/1 succeeded") {
		t.Errorf("applied twice: %s", out)
	}
	if v := read[struct{ Version int }](d.client, "status", "sum"); v.Version != 1 {
		t.Errorf("applied twice it is of version %d", v.Version)
	}
	d.ohm("run", sum, "--wait", "--timeout", patience.String())
	if v := read[struct{ Version int }](d.client, "status", "sum"); v.Version != 2 {
		t.Errorf("run again it is of version %d", v.Version)
	}
}
