package jobspec

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/types/known/durationpb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// failureAnswers are what may become of an update that does not come forward.
func failureAnswers() []string { return []string{"pause", "revert"} }

func updateFields() []field[ohmv1.UpdatePolicy] {
	type update = ohmv1.UpdatePolicy
	return []field[update]{
		{name: "maxUnavailable", form: "number, or share: `25%`", preset: "`25%`", meaning: "How many tasks of a group may be missing for it at a time. A share is rounded down; where this and `surge` come to 0, it is 1.", aka: []string{"maxParallel", "parallelism"},
			read: func(r *reader, at place, v ast.Node, u *update) { u.MaxUnavailable = r.tasks(at, v) }},
		{name: "surge", form: "number, or share: `25%`", preset: "0", meaning: "How many tasks there may be beyond `count` meanwhile. A share is rounded up.", aka: []string{"maxSurge"},
			read: func(r *reader, at place, v ast.Node, u *update) { u.Surge = r.tasks(at, v) }},
		{name: "canary", form: "number", preset: "0", meaning: "So many tasks of each group come to the new version first; the others follow when somebody promotes it.", aka: []string{"canaries"},
			read: func(r *reader, at place, v ast.Node, u *update) { u.Canary = r.whole(at, v) }},
		{name: "steady", form: "duration", preset: "`5s`", meaning: "How long a new task must have run, and be ready where that is checked, to count as there.", aka: []string{"minReady", "minReadySeconds", "minHealthy", "minHealthyTime"},
			read: func(r *reader, at place, v ast.Node, u *update) { u.Steady = r.duration(at, v) }},
		{name: "progressDeadline", form: "duration", preset: "`10m`", meaning: "When for so long not one more task has come to count, the update has failed.", aka: []string{"deadline", "healthyDeadline", "progressDeadlineSeconds"},
			read: func(r *reader, at place, v ast.Node, u *update) { u.ProgressDeadline = r.duration(at, v) }},
		{name: "onFailure", form: strings.Join(failureAnswers(), " \\| "), preset: "`pause`", meaning: "What becomes of an update that has failed: it stays as it is, or the job goes back to the newest version of which all tasks were well.", aka: []string{"autoRevert", "failureAction"},
			read: func(r *reader, at place, v ast.Node, u *update) { u.OnFailure = r.name(at, v) }},
	}
}

func (r *reader) tasks(at place, v ast.Node) *ohmv1.Amount {
	count, percent := r.amount(at, v)
	return &ohmv1.Amount{Number: count, Percent: percent}
}

func defaultUpdate(spec *ohmv1.JobSpec) {
	if spec.Kind != "service" {
		return
	}
	if spec.Update == nil {
		spec.Update = &ohmv1.UpdatePolicy{}
	}
	u := spec.Update
	if u.MaxUnavailable == nil {
		u.MaxUnavailable = &ohmv1.Amount{Percent: 25}
	}
	if u.Steady == nil {
		u.Steady = durationpb.New(5 * time.Second)
	}
	if u.ProgressDeadline == nil {
		u.ProgressDeadline = durationpb.New(10 * time.Minute)
	}
	if u.OnFailure == "" {
		u.OnFailure = "pause"
	}
}

func checkUpdate(ps *problems, spec *ohmv1.JobSpec) {
	u := spec.Update
	if u == nil {
		return
	}
	if spec.Kind != "service" {
		ps.add("update", "%s", onlyFor("update", "service", spec.Kind))
		return
	}
	checkAmount(ps, "update.maxUnavailable", u.MaxUnavailable)
	checkAmount(ps, "update.surge", u.Surge)
	if u.Canary < 0 {
		ps.add("update.canary", "update.canary %d is negative", u.Canary)
	}
	if u.Steady != nil {
		if wrong := checkDuration(u.Steady, 0); wrong != "" {
			ps.add("update.steady", "update.steady %s", wrong)
		}
	}
	if u.ProgressDeadline != nil {
		switch wrong := checkDuration(u.ProgressDeadline, time.Second); {
		case wrong != "":
			ps.add("update.progressDeadline", "update.progressDeadline %s", wrong)
		case u.ProgressDeadline.AsDuration() <= u.Steady.AsDuration():
			ps.add("update.progressDeadline", "update.progressDeadline is not more than update.steady, %s: no task could ever count in time", formatDuration(u.Steady.AsDuration()))
		}
	}
	if u.OnFailure != "" && !slices.Contains(failureAnswers(), u.OnFailure) {
		ps.add("update.onFailure", "update.onFailure %s %s", quote(u.OnFailure), oneOf(u.OnFailure, failureAnswers()))
	}
}

func checkAmount(ps *problems, name string, a *ohmv1.Amount) {
	switch {
	case a.GetNumber() < 0:
		ps.add(name, "%s %d is negative", name, a.GetNumber())
	case a.GetPercent() < 0 || a.GetPercent() > 100:
		ps.add(name, "%s %d%% is not between 0%% and 100%%", name, a.GetPercent())
	case a.GetNumber() > 0 && a.GetPercent() > 0:
		ps.add(name, "%s is both a number and a share", name)
	}
}
