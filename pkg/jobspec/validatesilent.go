package jobspec

import (
	"slices"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func silentAnswers() []string  { return []string{"replace", "keep", "never"} }
func replaceAnswers() []string { return []string{"afterExit", "atOnce"} }

// leastSilence is shorter than it takes an agent to find another server; whoever wants that
// has his reasons.
const leastSilence = time.Second

func checkSilent(ps *problems, spec *ohmv1.JobSpec, kindKnown bool) {
	w := spec.WhenSilent
	if w == nil {
		return
	}
	if w.Then != "" && !slices.Contains(silentAnswers(), w.Then) {
		ps.add("whenSilent.then", "whenSilent.then %s %s", quote(w.Then), oneOf(w.Then, silentAnswers()))
	}
	if w.Then == "never" && kindKnown && spec.Kind != "batch" && spec.Kind != "ml" {
		ps.add("whenSilent.then", "%s", onlyFor("whenSilent.then never", "batch, ml", spec.Kind))
	}
	if w.After != nil {
		if wrong := checkDuration(w.After, leastSilence); wrong != "" {
			ps.add("whenSilent.after", "whenSilent.after %s", wrong)
		}
	}
}

// checkReplace judges when a task that is drained may be replaced. A system task belongs to
// its node: there it waits for the one before in any case.
func checkReplace(ps *problems, spec *ohmv1.JobSpec) {
	replace := spec.GetStop().GetReplace()
	switch {
	case replace == "":
	case !slices.Contains(replaceAnswers(), replace):
		ps.add("stop.replace", "stop.replace %s %s", quote(replace), oneOf(replace, replaceAnswers()))
	case replace == "atOnce" && spec.Kind == "system":
		ps.add("stop.replace", "%s", onlyFor("stop.replace atOnce", "service, batch, ml", spec.Kind))
	}
}
