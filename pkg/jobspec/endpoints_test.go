package jobspec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/pkg/jobspec"
)

func TestExpandEndpoints(t *testing.T) {
	of := func(job, group, port string) string { return "<" + job + "|" + group + "|" + port + ">" }
	for value, want := range map[string]string{
		"":                                    "",
		"plain {{ .Go }} {{endpoint":          "plain {{ .Go }} {{endpoint",
		"{{endpoints api http}}":              "<api||http>",
		"a{{endpoints  api/web http }}b":      "a<api|web|http>b",
		"{{endpoints a b}},{{endpoints c d}}": "<a||b>,<c||d>",
		"{{endpoints}}":                       "!is not as in",
		"{{endpoints api}}":                   "!is not as in",
		"{{endpoints api http":                "!is not as in",
		"{{endpointsapi http}}":               "!is not as in",
		"{{endpoints a b c}}":                 "!is not as in",
		"{{endpoints API http}}":              "!job",
		"{{endpoints api/ http}}":             "!group",
		"{{endpoints api HTTP}}":              "!port",
	} {
		got, err := jobspec.ExpandEndpoints(value, of)
		if fault, wrong := strings.CutPrefix(want, "!"); wrong != (err != nil) || err != nil && !strings.Contains(err.Error(), fault) || err == nil && got != want {
			t.Errorf("%q: %q, %v; want %q", value, got, err, want)
		}
	}
	_, err := jobspec.Parse("job.yaml", []byte("job: a\nkind: batch\ngroups:\n  - name: main\n    cpu: 1\n    memory: 1Mi\n    command: [x]\n    env: {API: \"{{endpoints api}}\"}\n"))
	var faults jobspec.Faults
	if !errors.As(err, &faults) || len(faults) != 1 || !strings.HasPrefix(err.Error(), "job.yaml:8:11: ") {
		t.Errorf("in a file: %v", err)
	}
}
