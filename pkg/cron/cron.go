// Package cron says when a schedule is due: five fields of wall-clock time in a time zone, with
// one defined answer on the days on which clocks change.
//
// A time of day that a change skips is due once, at the moment of the change; several such
// times are due together, as one. A time of day that comes twice is due the first time. A schedule
// whose hour is * goes by the clock that runs on: it is due in each hour that there is, also in
// one that comes twice, and in none that is skipped.
package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a node may have none, and all members of a cell must agree
)

// Schedule is a parsed expression in a time zone.
type Schedule struct {
	minute, hour, day, month, weekday uint64 // a bit for each value
	anyHour, anyDay, anyWeekday       bool
	zone                              *time.Location
}

type field struct {
	name     string
	min, max int
	names    []string // of min and those that follow
}

var (
	months   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	fields   = []field{{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of the month", 1, 31, nil}, {"month", 1, 12, months}, {"day of the week", 0, 7, weekdays}}
	short    = map[string]string{
		"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
	}
)

// Zone is a time zone by its name; empty: UTC.
func Zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if zone, err := time.LoadLocation(name); err == nil && name != "Local" {
		return zone, nil
	}
	return nil, fmt.Errorf("%q is not a time zone; write one such as Europe/Berlin, or UTC", name)
}

// Parse reads an expression: minute, hour, day of the month, month, day of the week, each *, or a
// list of values, ranges and steps; or a word such as @daily. Where both kinds of days are given, either
// will do.
func Parse(expression, zone string) (*Schedule, error) {
	in, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(expression)
	if long, ok := short[text]; ok {
		text = long
	} else if strings.HasPrefix(text, "@") {
		return nil, fmt.Errorf("%q is not known; it is one of @hourly, @daily, @weekly, @monthly, @yearly", text)
	}
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return nil, fmt.Errorf("%q has %d fields, and needs 5: minute, hour, day of the month, month, day of the week", expression, len(parts))
	}
	s := &Schedule{zone: in, anyHour: parts[1] == "*", anyDay: strings.HasPrefix(parts[2], "*"), anyWeekday: strings.HasPrefix(parts[4], "*")}
	for i, bits := range []*uint64{&s.minute, &s.hour, &s.day, &s.month, &s.weekday} {
		if *bits, err = fields[i].parse(parts[i]); err != nil {
			return nil, err
		}
	}
	if s.weekday>>7&1 == 1 { // 7 is Sunday, too
		s.weekday |= 1
	}
	if s.Next(time.Unix(0, 0)).IsZero() {
		return nil, fmt.Errorf("%q is never due: there is no such day", expression)
	}
	return s, nil
}

func (f field) parse(text string) (bits uint64, err error) {
	for _, part := range strings.Split(text, ",") {
		span, step, stepped := strings.Cut(part, "/")
		from, to := f.min, f.max
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			if from, err = f.value(first); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if to, err = f.value(last); err != nil {
					return 0, err
				}
			case !stepped:
				to = from
			}
			if from > to {
				return 0, fmt.Errorf("the %s %q goes backwards", f.name, span)
			}
		}
		by := 1
		if stepped {
			if by, err = strconv.Atoi(step); err != nil || by < 1 {
				return 0, fmt.Errorf("the %s %q has no step of at least 1", f.name, part)
			}
		}
		for v := from; v <= to; v += by {
			bits |= 1 << v
		}
	}
	return bits, nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < f.min || v > f.max {
		return 0, fmt.Errorf("the %s %q is not between %d and %d", f.name, text, f.min, f.max)
	}
	return v, nil
}

// horizon is how many days are looked at for the next time: eight years have a 29 February.
const horizon = 8*366 + 1

// Next is the first time after t at which the schedule is due; zero: never.
func (s *Schedule) Next(t time.Time) time.Time {
	year, month, day := t.In(s.zone).Date()
	for i := range horizon {
		date := time.Date(year, month, day+i, 0, 0, 0, 0, time.UTC)
		if s.on(date) {
			if due := s.within(date, t); !due.IsZero() {
				return due
			}
		}
	}
	return time.Time{}
}

func (s *Schedule) on(date time.Time) bool {
	day, weekday := s.day>>date.Day()&1 == 1, s.weekday>>int(date.Weekday())&1 == 1
	if s.month>>int(date.Month())&1 == 0 {
		return false
	}
	if s.anyDay || s.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// within is the first time of a day after t; zero: none. The day is told by its date in UTC.
func (s *Schedule) within(date time.Time, t time.Time) time.Time {
	if s.anyHour {
		end := s.instant(date.AddDate(0, 0, 1))
		at := s.instant(date)
		if t.After(at) {
			at = t.Truncate(time.Minute)
		}
		for ; at.Before(end); at = at.Add(time.Minute) {
			if at.After(t) && s.minute>>at.In(s.zone).Minute()&1 == 1 {
				return at.In(s.zone)
			}
		}
		return time.Time{}
	}
	for hour := range 24 {
		if s.hour>>hour&1 == 0 {
			continue
		}
		for minute := range 60 {
			if s.minute>>minute&1 == 1 {
				if at := s.instant(date.Add(time.Duration(60*hour+minute) * time.Minute)); at.After(t) {
					return at
				}
			}
		}
	}
	return time.Time{}
}

// instant is when the zone's clocks show what wall says in UTC: the first time, or where they
// never do, when they pass it.
func (s *Schedule) instant(wall time.Time) time.Time {
	var first time.Time
	var before time.Time // by the offset of the day before, which is the one before a change
	for _, day := range []int{-1, 1} {
		_, offset := wall.AddDate(0, 0, day).In(s.zone).Zone()
		at := wall.Add(-time.Duration(offset) * time.Second).In(s.zone)
		if day < 0 {
			before = at
		}
		if y, m, d := at.Date(); y == wall.Year() && m == wall.Month() && d == wall.Day() && at.Hour() == wall.Hour() && at.Minute() == wall.Minute() {
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
	}
	if first.IsZero() {
		first, _ = before.ZoneBounds()
	}
	return first
}
