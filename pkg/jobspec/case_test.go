package jobspec

import (
	"strings"
	"testing"

	"github.com/ohmcell/ohm/pkg/resource"
)

// The field cases of job files: what users of such systems wrote, and what they
// should have been told.

func TestCase1MemoryInMilli(t *testing.T) {
	for value, message := range map[string]string{
		"512m":    `memory "512m" is less than a byte; did you mean 512M or 512Mi?`,
		"0.5":     `memory "0.5" is less than a byte; did you mean 0.5G or 0.5Gi?`,
		"400mi":   `memory "400mi" has an unknown unit "mi"; did you mean 400Mi?`,
		"1e-3":    `memory "1e-3" is less than a byte; did you mean 1M or 1Mi?`,
		"-1Gi":    `memory "-1Gi" is negative; did you mean 1Gi?`,
		`"1Gi "`:  `memory "1Gi " has spaces in it; did you mean 1Gi?`,
		"9e30":    `memory "9e30" is too much; the most is 1024Ti`,
		"NaN":     `memory "NaN" is not a number; write a number and a unit, such as 512Mi, 1.5Gi or 2G`,
		".nan":    `memory ".nan" is not a number; write a number and a unit, such as 512Mi, 1.5Gi or 2G`,
		"-.inf":   `memory "-.inf" is negative; write a number and a unit, such as 512Mi, 1.5Gi or 2G`,
		"1048576": `memory "1048576" has no unit; did you mean 1Mi?`,
	} {
		refused(t, with(t, "64Mi", value), "job.yaml:7:13: "+message)
	}
}

func TestCase2WhatWasWrittenComesBackReadable(t *testing.T) {
	for _, text := range []string{"1.2Gi", "2.85Gi", "512Mi", "2G"} {
		g := accepted(t, with(t, "64Mi", text)).Groups[0]
		if got := resource.FormatBytes(g.Resources.MemoryBytes); got != text {
			t.Errorf("memory %s comes back as %s", text, got)
		}
	}
	for text, want := range map[string]string{"0.1": "100m", "1500m": "1.5", "4": "4"} {
		g := accepted(t, with(t, "100m", text)).Groups[0]
		got := resource.FormatCPU(g.Resources.CpuMilli)
		if got != want {
			t.Errorf("cpu %s comes back as %s, want %s", text, got, want)
		}
		if again := accepted(t, with(t, "100m", got)).Groups[0]; again.Resources.CpuMilli != g.Resources.CpuMilli {
			t.Errorf("cpu %s and %s are not the same", text, got)
		}
	}
}

func TestCase3NamesThatAreMissing(t *testing.T) {
	const rule = `; use 1 to 63 lower-case letters, digits and "-", with a letter or digit at both ends`
	second := strings.TrimPrefix(good, "job: hello\nkind: batch\ngroups:\n")
	refused(t, with(t, "job: hello", `job: ""`), `job.yaml:1:6: job name is empty`+rule)
	refused(t, with(t, "job: hello\n", ""), `job.yaml:1:1: job is missing; every job has a name, e.g. job: hello`)
	refused(t, with(t, "job: hello", "job:"), `job.yaml:1:1: job has no value`)
	refused(t, with(t, "name: main\n    count: 4", "count: 4"), `job.yaml:4:5: name is missing; every group has one, e.g. name: main`)
	refused(t, with(t, "name: main", `name: ""`), `job.yaml:4:11: group name is empty`+rule)
	refused(t, good+second, `job.yaml:9:11: two groups are named "main"`)
	refused(t, "job: a\nkind: batch\ngroups: []\n", `job.yaml:3:9: the job has no groups of tasks; it needs at least one, e.g. groups: [{name: main, …}]`)
	refused(t, "job: a\nkind: batch\n", `job.yaml:1:1: the job has no groups of tasks; it needs at least one, e.g. groups: [{name: main, …}]`)
	refused(t, good+strings.Replace(second, "name: main\n    count: 4", "count: 4", 1)+second,
		`job.yaml:9:5: name is missing; every group has one, e.g. name: main`,
		`job.yaml:13:11: two groups are named "main"`)
	if n := accepted(t, with(t, "count: 4", "count: 0")).Groups[0].Count; n != 0 {
		t.Errorf("count: 0 became %d", n)
	}
}

func TestCase4OneRootCauseOneMessage(t *testing.T) {
	refused(t, with(t, "kind: batch", "kind: sfdsavice"), `job.yaml:2:7: kind "sfdsavice" is not one of service, batch, ml, system`)
	refused(t, with(t, "kind: batch", "kind: sfdsavice\ngang: {min: 1}\nretries: 3"), `job.yaml:2:7: kind "sfdsavice" is not one of service, batch, ml, system`)
	refused(t, with(t, "kind: batch", "type: batch"), `job.yaml:2:1: unknown key "type"; did you mean "kind"?`)
	// Independent faults are all there, in the order of the file.
	refused(t, "job: why?\nkind: btach\ngroups:\n  - name: main\n    cpus: 1\n    memory: 1g\n    command: [a]\n",
		`job.yaml:1:6: job name "why?" is not allowed; use 1 to 63 lower-case letters, digits and "-", with a letter or digit at both ends`,
		`job.yaml:2:7: kind "btach" is not one of service, batch, ml, system; did you mean batch?`,
		`job.yaml:5:5: unknown key "cpus"; did you mean "cpu"?`,
		`job.yaml:6:13: memory "1g" has an unknown unit "g"; did you mean 1G or 1Gi?`)
}

func TestCase5KeysAndKindsOfFile(t *testing.T) {
	refused(t, with(t, "count", "cout"), `job.yaml:5:5: unknown key "cout"; did you mean "count"?`)
	refused(t, with(t, "groups:", "resources: {cpu: 4}\ngroups:"),
		`job.yaml:3:1: unknown key "resources"; write cpu, memory, disk and gpus directly in a group`)
	refused(t, with(t, "    cpu: 100m\n    memory: 64Mi\n", "    resources: {cpu: 4}\n"),
		`job.yaml:6:5: unknown key "resources"; write cpu, memory, disk and gpus directly in a group`)
	refused(t, "cpu: 4\n"+with(t, "    cpu: 100m\n", ""), `job.yaml:1:1: unknown key "cpu"; it belongs in a group`)
	refused(t, with(t, "count: 4", "kind: ml"), `job.yaml:5:5: unknown key "kind"; it belongs in the job`)
	refused(t, "address: 10.0.0.1:7400\ndata-dir: /var/lib/ohm\n",
		`job.yaml:1:1: this does not look like a job file: no key "job"; with "address" it looks like a configuration of ohm server, scheduler or agent; its keys are "address", "data-dir"`)
	refused(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n",
		`job.yaml:1:1: this does not look like a job file: no key "job"; its keys are "apiVersion", "kind", "metadata", "spec"`)
	refused(t, "[1, 2]", `job.yaml:1:1: this does not look like a job file: it is a list, not a map with the key "job"`)
	refused(t, "#!/bin/sh\necho hello\n", `job.yaml:2:1: this does not look like a job file: it is text, not a map with the key "job"`)
	refused(t, `{"name": "web", "port": 80}`, `job.yaml:1:1: this does not look like a job file: no key "job"; its keys are "name", "port"`)
	accepted(t, `{"job": "a", "kind": "batch", "groups": [{"name": "m", "cpu": "1", "memory": "1Gi", "command": ["true"]}]}`)
	refused(t, good+"---\n"+good,
		`job.yaml:10:1: the file holds 2 documents; a job file holds one, so put each job into a file of its own`)
	refused(t, good+"    count: 5\nkind: ml\n",
		`job.yaml:9:5: duplicate key "count"; it stands on line 5 already`,
		`job.yaml:10:1: duplicate key "kind"; it stands on line 2 already`)
	refused(t, with(t, "    cpu", "\tcpu"), `job.yaml:6:1: a tab in the indentation; YAML is indented with spaces only`)
	refused(t, good+strings.Repeat("#\n", 5<<19), `job.yaml:1:1: the file has 5243006 bytes, more than the limit of 1Mi`)
	refused(t, with(t, "count: 4", "count: yes"), `job.yaml:5:12: count "yes" is not a whole number; write digits, e.g. count: 3`)
	refused(t, with(t, "count: 4", `count: "3"`), `job.yaml:5:12: count "3" is text; did you mean 3, without quotes?`)
	refused(t, with(t, "count: 4", "count: 3.5"), `job.yaml:5:12: count 3.5 is not a whole number; did you mean 3 or 4?`)
}

func TestCase6NamesThatCannotStandInAKey(t *testing.T) {
	const rule = `; use 1 to 63 lower-case letters, digits and "-", with a letter or digit at both ends`
	long := strings.Repeat("a", 300)
	for name, message := range map[string]string{
		"/a/b":    `"/a/b" is not allowed`,
		"why?":    `"why?" is not allowed`,
		"a b":     `"a b" is not allowed`,
		"..":      `".." is not allowed`,
		"a%2Fb":   `"a%2Fb" is not allowed`,
		"größe":   `"größe" is not allowed`,
		"作业":      `"作业" is not allowed`,
		"-a":      `"-a" is not allowed`,
		"a-":      `"a-" is not allowed`,
		"Web":     `"Web" is not allowed`,
		"a.b":     `"a.b" is not allowed`,
		long:      `"` + long[:60] + `"… is 300 characters long`,
		"a\u200b": `"a\u200b" is not allowed`,
	} {
		refused(t, with(t, "hello", name), "job.yaml:1:6: job name "+message+rule)
		refused(t, with(t, "name: main", "name: "+name), "job.yaml:4:11: group name "+message+rule)
		refused(t, with(t, "kind: batch", "kind: batch\nnamespace: "+name), "job.yaml:3:12: namespace "+message+rule)
		spec := accepted(t, good)
		spec.Name = name
		if ps := Validate(spec); len(ps) != 1 || ps[0] != (Problem{"job", "job name " + message + rule}) {
			t.Errorf("Validate of the name %q: %v", name, ps)
		}
	}
	for _, name := range []string{"a", "web1", "a-b", "0", "123", "yes", "true", strings.Repeat("a", 63)} {
		if got := accepted(t, with(t, "hello", name)).Name; got != name {
			t.Errorf("job: %s became %q", name, got)
		}
	}
}
