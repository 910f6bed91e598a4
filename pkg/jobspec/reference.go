package jobspec

import (
	"cmp"
	"fmt"
	"strings"
)

// row is what the reference and "did you mean" need of a field, whatever it is a
// field of.
type row struct {
	name, form, preset, meaning, kinds string
	later                              bool
	aka                                []string
}

// section is one map of a job file with its fields.
type section struct {
	name  string // of the map, as messages say it: "a group"
	where string // heading of the reference
	kinds string // of job that have the whole map; "": all
	rows  []row
}

func sectionOf[T any](name, where, kinds string, fields []field[T]) section {
	s := section{name: name, where: where, kinds: kinds}
	for _, f := range fields {
		s.rows = append(s.rows, row{f.name, f.form, f.preset, f.meaning, f.kinds, f.later, f.aka})
	}
	return s
}

func sections() []section {
	return append([]section{
		sectionOf("the job", "The job", "", jobFields()),
		sectionOf("gang", "`gang`", "ml", gangFields()),
		sectionOf("retry", "`retry`", "batch, ml", retryFields()),
		sectionOf("schedule", "`schedule`", "batch, ml", scheduleFields()),
		sectionOf("after", "`after`: at least one of these", "batch, ml", afterFields()),
		sectionOf("update", "`update`", "service", updateFields()),
		sectionOf("stop", "`stop`", "", stopFields()),
		sectionOf("whenSilent", "`whenSilent`", "", whenSilentFields()),
		sectionOf("disruption", "`disruption`", disruptedKinds, disruptionFields()),
		sectionOf("a group", "Each of `groups`", "", groupFields()),
		sectionOf("gpus", "`gpus` of a group", "", gpuFields()),
		sectionOf("a constraint", "Each of `constraints`: a key, exactly one condition, and perhaps `always`", "", constraintFields()),
		sectionOf("a rule", "Each of `affinity` and `antiAffinity`", ruledKinds, affinityFields()),
		sectionOf("to", "`to` of a rule", ruledKinds, selectorFields()),
		sectionOf("spread", "`spread`", ruledKinds, spreadFields()),
		sectionOf("a container", "Each of `containers`", "", containerFields()),
		sectionOf("a mount", "Each of `mounts`: a target, and `source` or `tmpfs`", "", mountFields()),
		sectionOf("capabilities", "`capabilities`", "", capabilityFields()),
	}, healthSections()...)
}

// Reference prints every field of a job file as markdown: a heading and a table
// for each map, from the table that Parse reads by.
func Reference() string {
	var b strings.Builder
	for i, s := range sections() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "### %s\n\n| Field | Type | Default | Kinds | Meaning |\n|---|---|---|---|---|\n", s.where)
		var later []string
		for _, f := range s.rows {
			if f.later {
				later = append(later, "`"+f.name+"`")
				continue
			}
			kinds := cmp.Or(f.kinds, s.kinds, "all")
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.form, cmp.Or(f.preset, "none"), kinds, f.meaning)
		}
		if len(later) > 0 {
			fmt.Fprintf(&b, "\nNot supported yet, and refused by name: %s.\n", strings.Join(later, ", "))
		}
	}
	return b.String()
}
