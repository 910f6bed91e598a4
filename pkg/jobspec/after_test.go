package jobspec

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func afterFile(job, after string) string {
	return fmt.Sprintf("job: %s\nkind: batch\n%sgroups:\n  - {name: main, cpu: 10m, memory: 1Mi, command: [x]}\n", job, after)
}

func TestAfterIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"after: {ok: [a]}\n":           "job.yaml:3:14: job \"a\" would wait for itself",
		"after: {ok: [b], any: [b]}\n": "job.yaml:3:24: job \"b\" is named twice in after",
		"after: {ok: [B]}\n":           "job.yaml:3:14: job name \"B\" is not allowed; use 1 to 63 lower-case letters, digits and \"-\", with a letter or digit at both ends",
		"after: {ok: []}\n":            "job.yaml:3:13: after.ok is empty; leave it out for none",
		"after: {}\n":                  "job.yaml:3:8: after names no job; it is a map such as {ok: [extract]}",
		"after: {success: [b]}\n":      "job.yaml:3:9: unknown key \"success\"; did you mean \"ok\"?",
		"after: b\n":                   "job.yaml:3:8: after must be a map of keys and values, not text",
		"deadline: 10ms\n":             "job.yaml:3:11: deadline is less than 1s; leave it out for none",
	} {
		refused(t, afterFile("a", text), want)
	}
}

// Field case 119: jobs that wait for each other are refused at the name that closes the circle.
func TestCircle(t *testing.T) {
	var files []*File
	for _, f := range [][2]string{{"z", "after: {any: [x]}\n"}, {"a", ""}, {"x", "after: {ok: [a], fail: [y]}\n"}, {"y", "after: {ok:\n  - a\n  - z}\n"}} {
		file, err := ParseFile(f[0]+".yaml", []byte(afterFile(f[0], f[1])))
		if err != nil {
			var faults Faults
			if f[0] != "y" || !errors.As(err, &faults) {
				t.Fatal(err)
			}
			file, err = ParseFile("y.yaml", []byte(afterFile("y", "after:\n  ok: [a, z]\n")))
			if err != nil {
				t.Fatal(err)
			}
		}
		files = append(files, file)
	}
	want := "z.yaml:3:15: these jobs wait for each other, so that none of them can ever begin: z after x, x after y, y after z"
	if got := Circle(files); len(got) != 1 || got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if got := Circle(files[1:]); got != nil {
		t.Errorf("without z: %v", got)
	}
}

// Every job comes after those that it follows, whatever the graph; and where there is no such order
// there is a circle, of which each follows the next.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "jobs")
		specs := make([]*ohmv1.JobSpec, n)
		for i := range specs {
			specs[i] = &ohmv1.JobSpec{Name: fmt.Sprint("j", i), After: &ohmv1.After{}}
			for k := range n {
				if k != i && rapid.IntRange(0, 9).Draw(t, "edge") == 0 {
					specs[i].After.Any = append(specs[i].After.Any, fmt.Sprint("j", k))
				}
			}
		}
		order, circle := Order(specs)
		if circle != nil {
			for i, s := range circle {
				if !slices.Contains(s.After.Any, circle[(i+1)%len(circle)].Name) {
					t.Fatalf("%v is no circle", circle)
				}
			}
			return
		}
		seen := map[string]bool{}
		for _, i := range order {
			for _, job := range specs[i].After.Any {
				if !seen[job] {
					t.Fatalf("%s comes before %s", specs[i].Name, job)
				}
			}
			seen[specs[i].Name] = true
		}
		if len(seen) != n {
			t.Fatalf("%d of %d jobs are in order", len(seen), n)
		}
	})
}
