package reconcile

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Reaches names the fields of a job file by which a change of a job's spec reaches the
// processes of one of its groups, so that they have to be started anew: none where its tasks
// stay what they are. was and is have every default filled in, and both have the group.
//
// The members of a gang are told of each other: what changes their number, or reaches one of
// them, reaches all. A task keeps the precedence that it was placed with.
func Reaches(was, is *ohmv1.JobSpec, group string) (fields []string) {
	if was.GetPrecedence() != is.GetPrecedence() {
		fields = append(fields, "precedence")
	}
	if is.GetKind() != kindML {
		return append(fields, differing(groupOf(was, group), groupOf(is, group))...)
	}
	if len(was.GetGroups()) != len(is.GetGroups()) {
		fields = append(fields, "groups")
	}
	for _, g := range is.GetGroups() {
		before := groupOf(was, g.GetName())
		if before.GetCount() != g.GetCount() {
			fields = append(fields, "count")
		}
		fields = append(fields, differing(before, g)...)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

func groupOf(spec *ohmv1.JobSpec, name string) *ohmv1.Group {
	for _, g := range spec.GetGroups() {
		if g.GetName() == name {
			return g
		}
	}
	return nil
}

// differing are the fields of a group that reach its processes and are not the same.
func differing(was, is *ohmv1.Group) (fields []string) {
	return differingFields(was.ProtoReflect(), is.ProtoReflect())
}

func differingFields(a, b protoreflect.Message) (fields []string) {
	all := b.Descriptor().Fields()
	for i := range all.Len() {
		f := all.Get(i)
		switch name := jobspec.FieldName(f); {
		case aroundTasks(f.Name()), a.Has(f) == b.Has(f) && a.Get(f).Equal(b.Get(f)):
		case name == "":
			fields = append(fields, differingFields(a.Get(f).Message(), b.Get(f).Message())...)
		default:
			fields = append(fields, name)
		}
	}
	return fields
}

// aroundTasks says of a field of a group that it is about how many tasks there are, where they
// are placed, or for how long a start is tried: no process knows.
func aroundTasks(field protoreflect.Name) bool {
	switch field {
	case "count", "min", "constraints", "affinity", "anti_affinity", "distinct", "spread", "device_nodes", "start_deadline":
		return true
	}
	return false
}
