package jobspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ohmcell/ohm/pkg/constraint"
	"github.com/ohmcell/ohm/pkg/names"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func checkGroups(ps *problems, spec *ohmv1.JobSpec, kindKnown bool) {
	if len(spec.Groups) == 0 {
		ps.add("groups", "the job has no groups of tasks; it needs at least one, e.g. groups: [{name: main, …}]")
	}
	seen := map[string]bool{}
	for i, g := range spec.Groups {
		at := fmt.Sprintf("groups[%d]", i)
		if g == nil {
			ps.add(at, "the group is empty")
			continue
		}
		ps.check(at+".name", names.Check("group name", g.Name))
		if g.Name != "" && seen[g.Name] {
			ps.add(at+".name", "two groups are named %s", quote(g.Name))
		}
		seen[g.Name] = true
		switch {
		case g.Count < 0:
			ps.add(at+".count", "count %d is negative", g.Count)
		case kindKnown && spec.Kind == "system" && g.Count > 0:
			ps.add(at+".count", "%s", onlyFor("count", "service, batch, ml", spec.Kind))
		}
		if kindKnown {
			checkGroupMin(ps, at, g, spec.Kind)
		}
		checkCommand(ps, at, g.Command, g.Env, len(g.Containers) > 0 || g.GetBox().GetImage() != "")
		checkTasksShape(ps, at, g)
		checkResources(ps, at, g.Resources)
		checkGPUs(ps, at+".gpus", g.Gpus)
		checkPorts(ps, at+".ports", g.Ports)
		checkHealth(ps, at+".health", g)
		if n := g.GetNetwork(); n != "" && !slices.Contains(networks(), n) {
			ps.add(at+".network", "network %s %s", quote(n), oneOf(n, networks()))
		}
		checkDeviceNodes(ps, at+".deviceNodes", g, spec.Kind, kindKnown)
		for j, c := range g.Constraints {
			checkConstraint(ps, fmt.Sprintf("%s.constraints[%d]", at, j), c)
		}
		checkRules(ps, at, spec, g, kindKnown)
	}
	if n := tasks(spec); n > maxTasks {
		ps.add("groups", "the job has %d tasks, more than the limit of %d", n, maxTasks)
	}
}

// checkCommand judges a program and its environment; without one is whether it may name none.
func checkCommand(ps *problems, at string, command []string, env map[string]string, without bool) {
	switch {
	case len(command) > 0 && command[0] == "":
		ps.add(at+".command", "command begins with an empty word; the first one names the program")
	case len(command) == 0 && !without:
		ps.add(at+".command", `command is missing; say what each task runs, e.g. command: [sh, -c, "echo hello"]`)
	}
	for i, word := range command {
		if !passable(word) {
			ps.add(fmt.Sprintf("%s.command[%d]", at, i), "command has a zero byte or text that is not UTF-8 in it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		field := at + ".env." + name
		switch {
		case name == "" || isDigit(name[0]) || !only(name, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' }):
			ps.add(field, `env name %s is not allowed; use letters, digits and "_", with no digit first`, quote(name))
		case strings.HasPrefix(name, "OHM_"):
			ps.add(field, "env name %s is not allowed; names that begin with OHM_ are set by Ohm", quote(name))
		case !passable(value):
			ps.add(field, "env %s has a zero byte or text that is not UTF-8 in it", name)
		default:
			_, err := ExpandEndpoints(value, func(string, string, string) string { return "" })
			ps.check(field, err)
		}
	}
}

// passable text can be an argument or a variable of a process.
func passable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func checkResources(ps *problems, at string, r *ohmv1.Resources) {
	switch cpu := r.GetCpuMilli(); {
	case cpu == 0:
		ps.add(at+".cpu", "cpu is missing; say how much each task needs, e.g. cpu: 100m")
	case cpu < 0:
		ps.add(at+".cpu", "cpu %s is negative", resource.FormatCPU(cpu))
	case cpu > resource.MaxCPU:
		ps.add(at+".cpu", "cpu %s is too much; the most is %s", resource.FormatCPU(cpu), resource.FormatCPU(resource.MaxCPU))
	}
	for _, b := range []struct {
		name  string
		bytes int64
	}{{"memory", r.GetMemoryBytes()}, {"disk", r.GetDiskBytes()}} {
		switch {
		case b.bytes < 0:
			ps.add(at+"."+b.name, "%s %s is negative", b.name, resource.FormatBytes(b.bytes))
		case b.bytes > resource.MaxBytes:
			ps.add(at+"."+b.name, "%s %s is too much; the most is %s", b.name, resource.FormatBytes(b.bytes), resource.FormatBytes(resource.MaxBytes))
		}
	}
}

func checkGPUs(ps *problems, at string, g *ohmv1.GPURequest) {
	if g == nil {
		return
	}
	switch {
	case g.Count < 1:
		ps.add(at+".count", "gpus.count %d is not at least 1; leave gpus out for none", g.Count)
	case g.Count > maxGPUs:
		ps.add(at+".count", "gpus.count %d is more than the limit of %d", g.Count, maxGPUs)
	case g.ShareMilli < 0 || g.ShareMilli > resource.MaxShare:
		ps.add(at+".share", "gpus.share %dm is not between 1m and 1000m", g.ShareMilli)
	case (g.ShareMilli > 0 || g.ShareBytes > 0) && g.Count != 1:
		ps.add(at+".share", "gpus.share goes only with count 1, and count is %d", g.Count)
	case g.ShareMilli > 0 && g.ShareBytes > 0:
		ps.add(at+".share", "gpus.share is given twice, as %s and as %s", resource.FormatShare(g.ShareMilli), resource.FormatBytes(g.ShareBytes))
	}
	for _, b := range []struct {
		name  string
		bytes int64
	}{{"memory", g.MemoryBytes}, {"share", g.ShareBytes}} {
		if b.bytes < 0 || b.bytes > resource.MaxBytes {
			ps.add(at+"."+b.name, "gpus.%s %s is not between 0 and %s", b.name, resource.FormatBytes(b.bytes), resource.FormatBytes(resource.MaxBytes))
		}
	}
	for i, model := range g.Models {
		if model == "" || len(model) > maxText || !printable(model) {
			ps.add(fmt.Sprintf("%s.models[%d]", at, i), "gpus.models: %s is not a model's name", quote(model))
		}
	}
}

// deviceNodes are when a task without GPUs may go to nodes that have some.
func deviceNodes() []string { return []string{"last", "any"} }

func checkDeviceNodes(ps *problems, at string, g *ohmv1.Group, kind string, kindKnown bool) {
	switch when := g.GetDeviceNodes(); {
	case when == "":
	case !slices.Contains(deviceNodes(), when):
		ps.add(at, "deviceNodes %s %s", quote(when), oneOf(when, deviceNodes()))
	case g.GetGpus() != nil:
		ps.add(at, "deviceNodes does not go with gpus; it is about tasks without any")
	case kindKnown && kind == "system":
		ps.add(at, "%s", onlyFor("deviceNodes", "service, batch, ml", kind))
	}
}

func checkConstraint(ps *problems, at string, c *ohmv1.Constraint) {
	if c.GetKey() == "" {
		ps.add(at+".key", "key is missing; it names a label or attribute of nodes, e.g. key: zone")
	} else {
		ps.check(at+".key", names.CheckKey("constraint key", c.Key))
	}
	if wrong := constraint.Check(c); wrong != "" {
		where := at
		if name := constraint.Name(c.GetOp()); name != "" {
			where += "." + name
		}
		ps.add(where, "%s", wrong)
	}
	for _, value := range c.GetValues() {
		if len(value) > maxText || !printable(value) {
			ps.add(at+"."+constraint.Name(c.Op), "a value must be at most %d bytes of printable text", maxText)
			break
		}
	}
}
