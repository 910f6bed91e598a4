package jobspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/pkg/constraint"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Change is one field in which two jobs are not the same, named as in a job file:
// groups[main].env.LR. Empty: it is not there.
type Change struct{ Field, Was, Is string }

// Changes are the fields in which two jobs differ, by name. Both have every default filled in;
// was may be nil.
func Changes(was, is *ohmv1.JobSpec) (all []Change) {
	before, after := map[string]string{}, map[string]string{}
	flatten("", was.ProtoReflect(), before)
	flatten("", is.ProtoReflect(), after)
	for field := range before {
		if _, both := after[field]; !both {
			c := Change{Field: field, Was: before[field]}
			if strings.HasSuffix(field, "].count") {
				c.Is = "0" // which is a count like any other
			}
			all = append(all, c)
		}
	}
	for field, value := range after {
		if before[field] != value {
			all = append(all, Change{field, before[field], value})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Field, b.Field) })
	return all
}

// flatten writes down the fields of a message that are set, by their names.
func flatten(at string, m protoreflect.Message, into map[string]string) {
	if text, ok := textOf(m.Interface()); ok {
		into[at] = text
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name, format := nameOf(f)
		path := strings.TrimPrefix(at+"."+name, ".")
		switch {
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				into[path+"."+k.String()] = fmt.Sprintf(format, v.Interface())
				return true
			})
		case f.IsList() && f.Message() == nil:
			var words []string
			for i := range v.List().Len() {
				words = append(words, fmt.Sprint(v.List().Get(i).Interface()))
			}
			into[path] = fmt.Sprintf("%q", words)
		case f.IsList():
			for i := range v.List().Len() {
				item := v.List().Get(i).Message()
				flatten(fmt.Sprintf("%s[%s]", path, keyOf(item, i)), item, into)
			}
		case f.Message() != nil && name == "": // its fields stand beside those of the one that has it
			flatten(at, v.Message(), into)
		case f.Message() != nil:
			flatten(path, v.Message(), into)
		case strings.HasSuffix(string(f.Name()), "_bytes"):
			into[path] = resource.FormatBytes(v.Int())
		case strings.HasSuffix(string(f.Name()), "_milli"):
			into[path] = resource.FormatCPU(v.Int())
		default:
			into[path] = fmt.Sprintf(format, v.Interface())
		}
		return true
	})
}

// FieldName is what a job file calls a field of a job's messages; empty where the fields of that
// field stand beside those of its owner.
func FieldName(f protoreflect.FieldDescriptor) string {
	name, _ := nameOf(f)
	return name
}

// nameOf is what a job file calls a field, and how its value is written.
func nameOf(f protoreflect.FieldDescriptor) (name, format string) {
	switch f.FullName() {
	case "ohm.v1.JobSpec.name":
		return "job", "%v"
	case "ohm.v1.JobSpec.start_once":
		return "retries.never", "%v"
	case "ohm.v1.Group.resources", "ohm.v1.Group.box", "ohm.v1.Container.box":
		return "", ""
	}
	name, format = f.JSONName(), "%v"
	for _, unit := range []string{"Bytes", "Milli"} {
		name = strings.TrimSuffix(name, unit)
	}
	if cut, ok := strings.CutSuffix(name, "Percent"); ok {
		name, format = cut, "%v%%"
	}
	return name, format
}

// textOf is a message that a job file has as one value.
func textOf(m any) (text string, ok bool) {
	switch m := m.(type) {
	case *durationpb.Duration:
		return formatDuration(m.AsDuration()), true
	case *ohmv1.Constraint:
		return constraint.Text(m), true
	case *ohmv1.Port:
		return fmt.Sprint(m.GetNumber()), true
	case *ohmv1.Amount:
		if m.GetPercent() > 0 {
			return fmt.Sprintf("%d%%", m.GetPercent()), true
		}
		return fmt.Sprint(m.GetNumber()), true
	case *ohmv1.Selector:
		var words []string
		for _, k := range slices.Sorted(maps.Keys(m.GetLabels())) {
			words = append(words, k+"="+m.GetLabels()[k])
		}
		return strings.TrimSpace(strings.TrimSuffix(m.GetJob()+"/"+m.GetGroup(), "/") + " " + strings.Join(words, " ")), true
	}
	return "", false
}

// keyOf tells the items of a list apart: by their name where they have one.
func keyOf(m protoreflect.Message, i int) string {
	if f := m.Descriptor().Fields().ByName("name"); f != nil && m.Has(f) {
		return m.Get(f).String()
	}
	return fmt.Sprint(i)
}
