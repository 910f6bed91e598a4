package jobspec

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/pkg/cron"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func overlaps() []string { return []string{"forbid", "replace", "queue"} }
func catchUps() []string { return []string{"none", "one", "all"} }

// What a schedule leaves out, and the most that it catches up with.
const (
	defaultCatchUp     = 10
	maxCatchUp         = 100
	defaultStartWithin = time.Minute
)

func scheduleFields() []field[ohmv1.Cron] {
	type schedule = ohmv1.Cron
	return []field[schedule]{
		{name: "cron", form: "five fields, or `@hourly`, `@daily`, …", preset: "required", meaning: "Minute, hour, day of the month, month, day of the week.", aka: []string{"expression", "spec", "crons"},
			read: func(r *reader, at place, v ast.Node, s *schedule) { s.Cron = r.name(at, v) }},
		{name: "timeZone", form: "name, such as `Europe/Berlin`", preset: "`UTC`", meaning: "The time zone of the fields.", aka: []string{"zone", "tz", "time_zone"},
			read: func(r *reader, at place, v ast.Node, s *schedule) { s.TimeZone = r.name(at, v) }},
		{name: "overlap", form: strings.Join(overlaps(), " \\| "), preset: "`forbid`", meaning: "What happens when a run is due while one goes on: it is left out; the one that goes on is stopped, and the new one follows; or the new one waits for its turn.", aka: []string{"concurrencyPolicy", "prohibitOverlap"},
			read: func(r *reader, at place, v ast.Node, s *schedule) {
				if s.Overlap = r.name(at, v); s.Overlap == "allow" {
					r.fault(at, "schedule.overlap allow is not supported: runs of a job follow each other; write queue, or use jobs of several names")
				}
			}},
		{name: "catchUp", form: strings.Join(catchUps(), " \\| "), preset: "`none`", meaning: "What happens with times that were missed while the cell was down: nothing; one run; or all of them, in order, which needs `overlap: queue`.", aka: []string{"backfill", "catchup"},
			read: func(r *reader, at place, v ast.Node, s *schedule) { s.CatchUp = r.name(at, v) }},
		{name: "limit", form: "number, 1 to 100", preset: "10", meaning: "Of `catchUp: all`: only so many of the times that were missed, the newest.", aka: []string{"maxCatchUp"},
			read: func(r *reader, at place, v ast.Node, s *schedule) {
				if s.Limit = r.whole(at, v); s.Limit == 0 && !r.bad[at.path] {
					r.fault(at, "schedule.limit 0 is not between 1 and %d", maxCatchUp)
				}
			}},
		{name: "startWithin", form: "duration, 1 s and more", preset: "`1m`", meaning: "Of `catchUp: none`: a run that could not begin within this time of when it was due is left out.", aka: []string{"startDeadline", "startingDeadlineSeconds"},
			read: func(r *reader, at place, v ast.Node, s *schedule) { s.StartWithin = r.duration(at, v) }},
	}
}

func checkSchedule(ps *problems, spec *ohmv1.JobSpec, kindKnown bool) {
	s := spec.Schedule
	if s == nil {
		return
	}
	if kindKnown && !allows("batch, ml", spec.Kind) {
		ps.add("schedule", "%s", onlyFor("schedule", "batch, ml", spec.Kind))
		return
	}
	if s.Cron == "" {
		ps.add("schedule.cron", "schedule.cron is missing; it has five fields, such as \"0 2 * * *\"")
	} else if _, err := cron.Parse(s.Cron, ""); err != nil {
		ps.add("schedule.cron", "schedule.cron: %v", err)
	}
	if _, err := cron.Zone(s.TimeZone); err != nil {
		ps.add("schedule.timeZone", "schedule.timeZone %v", err)
	}
	for _, f := range []struct {
		name, value string
		all         []string
	}{{"overlap", s.Overlap, overlaps()}, {"catchUp", s.CatchUp, catchUps()}} {
		if f.value != "" && !slices.Contains(f.all, f.value) {
			ps.add("schedule."+f.name, "schedule.%s %s %s", f.name, quote(f.value), oneOf(f.value, f.all))
		}
	}
	switch {
	case s.CatchUp == "all" && s.Overlap != "queue":
		ps.add("schedule.catchUp", "schedule.catchUp all needs overlap: queue, so that the runs follow each other")
	case s.Limit != 0 && s.CatchUp != "all":
		ps.add("schedule.limit", "schedule.limit goes with catchUp: all")
	case s.Limit < 0 || s.Limit > maxCatchUp:
		ps.add("schedule.limit", "schedule.limit %d is not between 1 and %d", s.Limit, maxCatchUp)
	}
	if s.StartWithin != nil {
		if wrong := checkDuration(s.StartWithin, time.Second); wrong != "" {
			ps.add("schedule.startWithin", "schedule.startWithin %s", wrong)
		} else if s.CatchUp != "" && s.CatchUp != "none" {
			ps.add("schedule.startWithin", "schedule.startWithin goes with catchUp: none")
		}
	}
	if spec.After != nil {
		ps.add("after", "after does not go with schedule; let the job that is scheduled come first")
	}
}

func scheduleDefaults(s *ohmv1.Cron) {
	if s == nil {
		return
	}
	if s.Overlap == "" {
		s.Overlap = "forbid"
	}
	if s.CatchUp == "" {
		s.CatchUp = "none"
	}
	if s.CatchUp == "all" && s.Limit == 0 {
		s.Limit = defaultCatchUp
	}
	if s.CatchUp == "none" && s.StartWithin == nil {
		s.StartWithin = durationpb.New(defaultStartWithin)
	}
}
