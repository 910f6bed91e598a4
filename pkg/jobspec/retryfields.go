package jobspec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func spendable() []string { return []string{"nodeLoss", "drain", "preemption"} }

func retryFields() []field[ohmv1.RetryPolicy] {
	type retry = ohmv1.RetryPolicy
	return []field[retry]{
		{name: "fatal", form: "list of exit codes, 1 to 255", preset: "none", meaning: "A task that exits with one of these has failed, whatever `retries` are left.", aka: []string{"never", "notRetryable"},
			read: func(r *reader, at place, v ast.Node, p *retry) { p.Fatal = r.codes(at, v) }},
		{name: "only", form: "list of exit codes, 1 to 255", preset: "all", meaning: "A task that exits with any other code has failed. Not together with `fatal`. What ends without an exit code (a signal, `OOMKilled`, …) is retried as ever.", aka: []string{"codes", "retryable"},
			read: func(r *reader, at place, v ast.Node, p *retry) { p.Only = r.codes(at, v) }},
		{name: "spend", form: "list of " + strings.Join(spendable(), " \\| "), preset: "none", meaning: "What spends a retry too, besides the task's own faults: the loss of its node, a drain, an eviction. Without a retry left the task has failed.", aka: []string{"on", "classes"},
			read: func(r *reader, at place, v ast.Node, p *retry) {
				if p.Spend = r.texts(at, v); len(p.Spend) == 0 && !r.bad[at.path] {
					r.fault(at, "retry.spend is empty; leave it out for none")
				}
			}},
		{name: "first", form: "duration, 100 ms and more", preset: "`1s`", meaning: "The wait after the first end that spent a retry; it doubles with each.", aka: []string{"backoff", "delay"},
			read: func(r *reader, at place, v ast.Node, p *retry) { p.First = r.duration(at, v) }},
		{name: "most", form: "duration", preset: "`1m`, or `first` if that is longer", meaning: "The wait grows no further than this.", aka: []string{"max", "maxBackoff", "cap"},
			read: func(r *reader, at place, v ast.Node, p *retry) { p.Most = r.duration(at, v) }},
	}
}

// retries reads a number, or never.
func (r *reader) retries(at place, v ast.Node) (n int32, once bool) {
	if s, ok := r.plain(at, v).(*ast.StringNode); ok && s.Value == "never" {
		return 0, true
	}
	return r.whole(at, v), false
}

func (r *reader) codes(at place, v ast.Node) []int32 {
	var out []int32
	for i, item := range r.list(at, v) {
		out = append(out, r.whole(at.item(i), item))
		if r.bad[at.item(i).path] {
			r.bad[at.path] = true
		}
	}
	if len(out) == 0 && !r.bad[at.path] {
		r.fault(at, "%s is empty; leave it out for any exit code", at.name)
	}
	return out
}

// leastBackoff keeps a job that fails at once from being nothing but placements.
const leastBackoff = 100 * time.Millisecond

// checkRetry judges what a job says of further attempts. What could never have an effect is
// refused.
func checkRetry(ps *problems, spec *ohmv1.JobSpec) {
	runsToEnd := RunsToEnd(spec)
	if spec.StartOnce {
		checkOnce(ps, spec, runsToEnd)
		return
	}
	p := spec.Retry
	if p == nil {
		return
	}
	if !runsToEnd {
		ps.add("retry", "%s", onlyFor("retry", "batch, ml", spec.Kind))
		return
	}
	if spec.Retries == 0 {
		for _, f := range []struct {
			name  string
			given bool
		}{{"fatal", len(p.Fatal) > 0}, {"only", len(p.Only) > 0}, {"first", p.First != nil}, {"most", p.Most != nil}} {
			if f.given {
				ps.add("retry."+f.name, "retry.%s has no effect without retries; add e.g. retries: 3", f.name)
			}
		}
	}
	checkCodes(ps, "retry.fatal", p.Fatal)
	checkCodes(ps, "retry.only", p.Only)
	if len(p.Fatal) > 0 && len(p.Only) > 0 {
		ps.add("retry.only", "retry.only does not go with retry.fatal; any other exit code is fatal already")
	}
	for i, what := range p.Spend {
		switch {
		case !slices.Contains(spendable(), what):
			ps.add(fmt.Sprintf("retry.spend[%d]", i), "retry.spend %s %s", quote(what), oneOf(what, spendable()))
		case slices.Contains(p.Spend[:i], what):
			ps.add(fmt.Sprintf("retry.spend[%d]", i), "retry.spend has %s twice", what)
		}
	}
	checkBackoff(ps, p)
}

func checkOnce(ps *problems, spec *ohmv1.JobSpec, runsToEnd bool) {
	switch {
	case !runsToEnd:
		ps.add("retries", "%s", onlyFor("retries", "batch, ml", spec.Kind))
	case spec.Retries != 0:
		ps.add("retries", "retries cannot be both never and %d", spec.Retries)
	}
	if spec.Retry != nil && runsToEnd {
		ps.add("retry", "retry has no effect with retries: never")
	}
	if spec.GetStop().GetReplace() == "atOnce" && runsToEnd {
		ps.add("stop.replace", "stop.replace atOnce does not go with retries: never, which lets nothing replace a task")
	}
}

func checkCodes(ps *problems, name string, codes []int32) {
	for i, code := range codes {
		switch {
		case code < 1 || code > 255:
			ps.add(fmt.Sprintf("%s[%d]", name, i), "%s %d is not an exit code of a failure, 1 to 255", name, code)
		case slices.Contains(codes[:i], code):
			ps.add(fmt.Sprintf("%s[%d]", name, i), "%s has %d twice", name, code)
		}
	}
}

func checkBackoff(ps *problems, p *ohmv1.RetryPolicy) {
	sound := true
	if p.First != nil {
		if wrong := checkDuration(p.First, leastBackoff); wrong != "" {
			ps.add("retry.first", "retry.first %s", wrong)
			sound = false
		}
	}
	if p.Most == nil {
		return
	}
	first := time.Second
	if p.First != nil {
		first = p.First.AsDuration()
	}
	switch wrong := checkDuration(p.Most, leastBackoff); {
	case wrong != "":
		ps.add("retry.most", "retry.most %s", wrong)
	case sound && p.Most.AsDuration() < first:
		ps.add("retry.most", "retry.most is less than retry.first, %s", formatDuration(first))
	}
}
