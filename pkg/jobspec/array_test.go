package jobspec

import (
	"fmt"
	"slices"
	"testing"
)

func TestArrayIsRefused(t *testing.T) {
	file := func(kind, text string) string {
		return fmt.Sprintf("job: a\nkind: %s\n%sgroups:\n  - {name: main, cpu: 10m, memory: 1Mi, command: [x]}\n", kind, text)
	}
	for _, row := range [][3]string{
		{"batch", "maxParallel: 0\n", "job.yaml:3:14: maxParallel 0 is not at least 1; leave it out for no limit"},
		{"batch", "maxParallel: -2\n", "job.yaml:3:14: maxParallel -2 is negative"},
		{"batch", "maxParallel: two\n", "job.yaml:3:14: maxParallel \"two\" is not a whole number; write digits, e.g. maxParallel: 3"},
		{"batch", "allowedFailures: -1\n", "job.yaml:3:18: allowedFailures -1 is negative"},
		{"batch", "parallelism: 3\n", "job.yaml:3:1: unknown key \"parallelism\"; did you mean \"maxParallel\"?"},
		{"service", "maxParallel: 2\n", "job.yaml:3:1: " + onlyFor("maxParallel", "batch", "service")},
		{"ml", "allowedFailures: 2\n", "job.yaml:3:1: " + onlyFor("allowedFailures", "batch", "ml")},
	} {
		refused(t, file(row[0], row[1]), row[2])
	}
}

// The server refuses what only another client could have sent.
func TestArrayIsValidated(t *testing.T) {
	spec, err := Parse("job.yaml", []byte(afterFile("a", "")))
	if err != nil {
		t.Fatal(err)
	}
	Defaults(spec)
	if ps := Validate(spec); len(ps) > 0 {
		t.Fatal(ps)
	}
	spec.MaxParallel, spec.AllowedFailures = -1, -1
	var paths []string
	for _, p := range Validate(spec) {
		paths = append(paths, p.Field)
	}
	if !slices.Equal(paths, []string{"maxParallel", "allowedFailures"}) {
		t.Errorf("problems at %v", paths)
	}
}
