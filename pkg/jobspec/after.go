package jobspec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/ohmcell/ohm/pkg/names"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// maxAfter bounds the jobs that one job follows.
const maxAfter = 1000

func afterFields() []field[ohmv1.After] {
	type after = ohmv1.After
	list := func(name, meaning string, of func(*after) *[]string, aka ...string) field[after] {
		return field[after]{name: name, form: "list of names of jobs", preset: "none", meaning: meaning, aka: aka,
			read: func(r *reader, at place, v ast.Node, a *after) {
				if *of(a) = r.texts(at, v); len(*of(a)) == 0 && !r.bad[at.path] {
					r.fault(at, "%s is empty; leave it out for none", at.name)
				}
			}}
	}
	return []field[after]{
		list("ok", "The run begins when these have succeeded; where one has not, it is skipped.", func(a *after) *[]string { return &a.Ok }, "success", "succeeded", "done"),
		list("fail", "The run begins when these have failed; where one has not, it is skipped.", func(a *after) *[]string { return &a.Fail }, "failed", "failure", "error"),
		list("any", "The run begins when these have ended, in whatever way.", func(a *after) *[]string { return &a.Any }, "end", "ended", "always"),
	}
}

// eachAfter calls f with each job that a job follows and where its name stands.
func eachAfter(spec *ohmv1.JobSpec, f func(path, job string)) {
	a := spec.GetAfter()
	for _, of := range []struct {
		name string
		jobs []string
	}{{"ok", a.GetOk()}, {"fail", a.GetFail()}, {"any", a.GetAny()}} {
		for i, job := range of.jobs {
			f(fmt.Sprintf("after.%s[%d]", of.name, i), job)
		}
	}
}

func checkAfter(ps *problems, spec *ohmv1.JobSpec, kindKnown bool) {
	if spec.Deadline != nil {
		if kindKnown && !allows("batch, ml", spec.Kind) {
			ps.add("deadline", "%s", onlyFor("deadline", "batch, ml", spec.Kind))
		} else if wrong := checkDuration(spec.Deadline, time.Second); wrong != "" {
			ps.add("deadline", "deadline %s; leave it out for none", wrong)
		}
	}
	if spec.After == nil {
		return
	}
	if kindKnown && !allows("batch, ml", spec.Kind) {
		ps.add("after", "%s", onlyFor("after", "batch, ml", spec.Kind))
		return
	}
	seen := map[string]bool{}
	eachAfter(spec, func(path, job string) {
		switch err := names.Check("job name", job); {
		case err != nil:
			ps.check(path, err)
		case job == spec.Name:
			ps.add(path, "job %s would wait for itself", quote(job))
		case seen[job]:
			ps.add(path, "job %s is named twice in after", quote(job))
		}
		seen[job] = true
	})
	switch n := len(seen); {
	case n == 0:
		ps.add("after", "after names no job; it is a map such as {ok: [extract]}")
	case n > maxAfter:
		ps.add("after", "after names %d jobs, more than %d", n, maxAfter)
	}
}

// Order are the indexes of jobs, each after those that it follows, else as they are given; or a
// circle of jobs that wait for each other.
func Order(specs []*ohmv1.JobSpec) (order []int, circle []*ohmv1.JobSpec) {
	at := map[string]int{}
	for i, s := range specs {
		at[s.GetNamespace()+"/"+s.GetName()] = i
	}
	const begun, done = 1, 2
	state := make([]int, len(specs))
	var path []int
	// A stack of its own: a chain may be long.
	next := make([][]int, len(specs))
	for i, s := range specs {
		eachAfter(s, func(_, job string) {
			if k, here := at[s.GetNamespace()+"/"+job]; here {
				next[i] = append(next[i], k)
			}
		})
	}
	for i := range specs {
		if state[i] != 0 {
			continue
		}
		state[i], path = begun, append(path, i)
		for len(path) > 0 {
			last := path[len(path)-1]
			if len(next[last]) == 0 {
				state[last], path, order = done, path[:len(path)-1], append(order, last)
				continue
			}
			k := next[last][0]
			next[last] = next[last][1:]
			switch state[k] {
			case begun:
				for _, n := range path[slices.Index(path, k):] {
					circle = append(circle, specs[n])
				}
				return nil, circle
			case 0:
				state[k], path = begun, append(path, k)
			}
		}
	}
	return order, nil
}

// CircleText says of a circle what is wrong with it.
func CircleText(circle []*ohmv1.JobSpec) string {
	var text []string
	for i, s := range circle {
		text = append(text, fmt.Sprintf("%s after %s", s.GetName(), circle[(i+1)%len(circle)].GetName()))
	}
	if len(text) > 6 {
		text = append(text[:6], fmt.Sprintf("and %d more", len(text)-6))
	}
	return fmt.Sprintf("these jobs wait for each other, so that none of them can ever begin: %s", strings.Join(text, ", "))
}

// File is a job file that was read.
type File struct {
	Job *ohmv1.JobSpec

	name string
	at   map[string]position
}

// ParseFile is Parse, for files that are looked at together.
func ParseFile(filename string, data []byte) (*File, error) {
	r := newReader(filename)
	spec := r.parse(data)
	if len(r.faults) > 0 {
		r.faults.sort()
		return nil, r.faults
	}
	return &File{spec, filename, r.at}, nil
}

// Circle is the fault of files whose jobs wait for each other, at the first name of the circle; nil
// if none do.
func Circle(files []*File) Faults {
	var specs []*ohmv1.JobSpec
	for _, f := range files {
		specs = append(specs, f.Job)
	}
	_, circle := Order(specs)
	if circle == nil {
		return nil
	}
	f := files[slices.Index(specs, circle[0])]
	var pos position
	eachAfter(f.Job, func(path, job string) {
		if job == circle[1%len(circle)].GetName() {
			pos = f.at[path]
		}
	})
	return Faults{{f.name, pos.line, pos.column, "error", CircleText(circle)}}
}
