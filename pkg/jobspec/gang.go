package jobspec

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What becomes of the rest of a broken gang.
const (
	// BrokenRelease: it is stopped, and the gang starts anew as a whole.
	BrokenRelease = "release"
	// BrokenKeep: it keeps its nodes until the gang is whole again.
	BrokenKeep = "keep"
)

// What a gang does that has found no room for all of its tasks in time.
const (
	TimeoutWait         = "wait"
	TimeoutFail         = "fail"
	TimeoutStartWithMin = "startWithMin"
)

// BrokenFor is how long a broken gang may hold its nodes, if its job does not say.
const BrokenFor = 5 * time.Minute

func timeoutAnswers() []string { return []string{TimeoutWait, TimeoutFail, TimeoutStartWithMin} }

func brokenAnswers() []string { return []string{BrokenRelease, BrokenKeep} }

func whenBrokenFields() []field[ohmv1.WhenBroken] {
	type broken = ohmv1.WhenBroken
	return []field[broken]{
		{name: "then", form: strings.Join(brokenAnswers(), " \\| "), preset: "`release`",
			meaning: "`release`: when the missing ones have found no node in time, the members that are left are stopped, with no retry spent, and the gang starts anew as a whole. `keep`: they keep their nodes, and may wait for ever.",
			read:    func(r *reader, at place, v ast.Node, b *broken) { b.Then = r.name(at, v) }},
		{name: "after", form: "duration, from `0s`", preset: "`5m`", meaning: "How long after the loss the members that are left are released. `0s`: at once, so that the gang always starts as a whole.",
			read: func(r *reader, at place, v ast.Node, b *broken) { b.After = r.duration(at, v) }},
	}
}

// defaultGang fills in what a gang leaves out. Where groups say what they need and the gang
// does not, those that say nothing are needed whole.
func defaultGang(spec *ohmv1.JobSpec) {
	if spec.Gang == nil {
		spec.Gang = &ohmv1.Gang{}
	}
	gang := spec.Gang
	some := slices.ContainsFunc(spec.Groups, func(g *ohmv1.Group) bool { return g.Min != nil })
	if gang.Min == 0 && some {
		for _, g := range spec.Groups {
			if g.Min == nil {
				g.Min = proto.Int32(g.Count)
			}
		}
	}
	switch {
	case gang.Min == 0 && some:
		gang.Min = int32(min(groupsMin(spec), maxTasks))
	case gang.Min == 0:
		gang.Min = int32(min(tasks(spec), maxTasks))
	}
	if gang.OnTimeout == "" {
		gang.OnTimeout = TimeoutWait
	}
	if gang.WhenBroken == nil {
		gang.WhenBroken = &ohmv1.WhenBroken{}
	}
	if gang.WhenBroken.Then == "" {
		gang.WhenBroken.Then = BrokenRelease
	}
	if gang.WhenBroken.After == nil && gang.WhenBroken.Then == BrokenRelease {
		gang.WhenBroken.After = durationpb.New(BrokenFor)
	}
}

// groupsMin is the sum of what the groups need.
func groupsMin(spec *ohmv1.JobSpec) int64 {
	n := int64(0)
	for _, g := range spec.Groups {
		n += int64(g.GetMin())
	}
	return n
}

// checkGang judges the gang of an ml job; gang may be nil.
func checkGang(ps *problems, spec *ohmv1.JobSpec) {
	gang := spec.Gang
	switch n, groups := tasks(spec), groupsMin(spec); {
	case gang.GetMin() < 0:
		ps.add("gang.min", "gang.min %d is not at least 1", gang.GetMin())
	case int64(gang.GetMin()) > n:
		ps.add("gang.min", "gang.min %d is more than the %d tasks of all groups", gang.GetMin(), n)
	case gang.GetMin() > 0 && int64(gang.GetMin()) < groups:
		ps.add("gang.min", "gang.min %d is less than the %d tasks that the groups need by their min", gang.GetMin(), groups)
	}
	if gang == nil {
		return
	}
	onTimeout, timeout := gang.OnTimeout, gang.Timeout
	if onTimeout != "" && !slices.Contains(timeoutAnswers(), onTimeout) {
		ps.add("gang.onTimeout", "gang.onTimeout %s %s", quote(onTimeout), oneOf(onTimeout, timeoutAnswers()))
	} else if timeout == nil && onTimeout != "" && onTimeout != TimeoutWait {
		ps.add("gang.timeout", "gang.timeout is missing; onTimeout: %s needs one, e.g. timeout: 10m", onTimeout)
	}
	if timeout != nil {
		if wrong := checkDuration(timeout, time.Millisecond); wrong != "" {
			ps.add("gang.timeout", "gang.timeout %s", wrong)
		}
	}
	if broken := gang.WhenBroken; broken != nil {
		if broken.Then != "" && !slices.Contains(brokenAnswers(), broken.Then) {
			ps.add("gang.whenBroken.then", "gang.whenBroken.then %s %s", quote(broken.Then), oneOf(broken.Then, brokenAnswers()))
		}
		if broken.After != nil {
			if broken.Then == BrokenKeep {
				ps.add("gang.whenBroken.after", "gang.whenBroken.after is not for then: keep, which keeps them for ever")
			} else if wrong := checkDuration(broken.After, 0); wrong != "" {
				ps.add("gang.whenBroken.after", "gang.whenBroken.after %s", wrong)
			}
		}
	}
}

// checkGroupMin judges the min of a group, whose path in the job is at.
func checkGroupMin(ps *problems, at string, g *ohmv1.Group, kind string) {
	switch {
	case g.Min == nil:
	case kind != "ml":
		ps.add(at+".min", "%s", onlyFor("min", "ml", kind))
	case g.GetMin() < 0:
		ps.add(at+".min", "min %d is negative", g.GetMin())
	case g.GetMin() > g.GetCount():
		ps.add(at+".min", "min %d is more than the count %d", g.GetMin(), g.GetCount())
	}
}
