package jobspec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const before = `
job: web
kind: service
labels: {team: a}
groups:
  - name: main
    count: 3
    cpu: 500m
    memory: 64Mi
    command: [serve, --fast]
    env: {A: "1", B: "2"}
    ports: {http: 8080}
    constraints: [{key: zone, in: [a, b]}]
  - name: old
    cpu: 1
    memory: 1Gi
    command: [x]
`

// What differs between two jobs is said field by field, in the words of a job file.
func TestChanges(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{"", "", ""},
		{"count: 3", "count: 5", "groups[main].count 3 5"},
		{"count: 3", "count: 0", "groups[main].count 3 0"},
		{"team: a", "team: b", "labels.team a b"},
		{"cpu: 500m", "cpu: 2", "groups[main].cpu 500m 2"},
		{"memory: 64Mi", "memory: 1.5Gi", "groups[main].memory 64Mi 1.5Gi"},
		{"[serve, --fast]", "[serve]", `groups[main].command ["serve" "--fast"] ["serve"]`},
		{`A: "1", `, `C: "3", `, "groups[main].env.A 1 -, groups[main].env.C - 3"},
		{"http: 8080", "http: 0", "groups[main].ports[http] 8080 0"},
		{"in: [a, b]", "in: [a]", "groups[main].constraints[0] zone in [a b] zone in [a]"},
		{"kind: service", "kind: service\nupdate: {surge: 10%}", "update.surge - 10%"},
		{"kind: service", "kind: service\nstop: {grace: 5s}", "stop.grace 30s 5s"},
		{"kind: service", "kind: service\nprecedence: batch", "precedence 200 100"},
		{"name: old", "name: old\n    image: app:1", "groups[old].image - app:1"},
	} {
		parse := func(text string) *ohmv1.JobSpec {
			spec, err := jobspec.Parse("job.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%q: %v", c.is, err)
			}
			jobspec.Defaults(spec)
			return spec
		}
		var got []string
		for _, x := range jobspec.Changes(parse(before), parse(strings.Replace(before, c.was, c.is, 1))) {
			or := func(s string) string {
				if s == "" {
					return "-"
				}
				return s
			}
			got = append(got, fmt.Sprintf("%s %s %s", x.Field, or(x.Was), or(x.Is)))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%q in place of %q: %s; want %s", c.is, c.was, strings.Join(got, ", "), c.want)
		}
	}
	if all := jobspec.Changes(nil, &ohmv1.JobSpec{Name: "web"}); len(all) != 1 || all[0] != (jobspec.Change{Field: "job", Is: "web"}) {
		t.Errorf("of a new job: %v", all)
	}
}
