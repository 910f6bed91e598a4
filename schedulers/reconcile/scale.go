package reconcile

import (
	"slices"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// WithScaled is the spec that a live job has once spec has been submitted, and the counts of
// it that somebody has set: one holds for as long as the count submitted is the one that it
// was set against. So a new image does not undo what was done for the load.
func WithScaled(was *ohmv1.Job, spec *ohmv1.JobSpec) (*ohmv1.JobSpec, []*ohmv1.Scaled) {
	var hold []*ohmv1.Scaled
	for _, s := range was.GetScaled() {
		if g := groupOf(spec, s.GetGroup()); g != nil && g.GetCount() == s.GetFileCount() {
			hold = append(hold, s)
		}
	}
	return withCounts(spec, hold), hold
}

// Scale is the record of a live job of which one group gets another count. No task has to
// come to anything, and who repeats the request that wrote the record finds it.
func Scale(was *ohmv1.Job, group string, count int32) (*ohmv1.JobSpec, []*ohmv1.Scaled) {
	set := setCount(was, group, count)
	return withCounts(was.GetSpec(), set), set
}

// setCount are the counts of a job that somebody has set, once one more is.
func setCount(was *ohmv1.Job, group string, count int32) []*ohmv1.Scaled {
	one := &ohmv1.Scaled{Group: group, Count: count, FileCount: fileCount(was, group)}
	others := slices.DeleteFunc(slices.Clone(was.GetScaled()), func(s *ohmv1.Scaled) bool { return s.GetGroup() == group })
	return append(others, one)
}

// fileCount is a group's count as it was submitted.
func fileCount(j *ohmv1.Job, group string) int32 {
	for _, s := range j.GetScaled() {
		if s.GetGroup() == group {
			return s.GetFileCount()
		}
	}
	return groupOf(j.GetSpec(), group).GetCount()
}

// keptCounts are the counts that hold when a job goes back to an older record: those set
// then, and over them those set since.
func keptCounts(was, to *ohmv1.Job) []*ohmv1.Scaled {
	back := proto.CloneOf(to)
	for _, s := range was.GetScaled() {
		if groupOf(to.GetSpec(), s.GetGroup()) != nil {
			back.Scaled = setCount(back, s.GetGroup(), s.GetCount())
		}
	}
	return back.Scaled
}

func withCounts(spec *ohmv1.JobSpec, counts []*ohmv1.Scaled) *ohmv1.JobSpec {
	if len(counts) == 0 {
		return spec
	}
	spec = proto.CloneOf(spec)
	for _, s := range counts {
		groupOf(spec, s.GetGroup()).Count = s.GetCount()
	}
	return spec
}
