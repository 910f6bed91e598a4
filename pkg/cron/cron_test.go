package cron

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// launches are the times at which a schedule is due in some days, as UTC.
func launches(t *testing.T, expression, zone, from string, days int) []string {
	t.Helper()
	s, err := Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	start, err := time.ParseInLocation("2006-01-02", from, s.zone)
	if err != nil {
		t.Fatal(err)
	}
	var due []string
	for at := s.Next(start.Add(-time.Second)); at.Before(start.AddDate(0, 0, days)); at = s.Next(at) {
		due = append(due, at.UTC().Format("02 15:04"))
	}
	return due
}

// Field case 79: on the days on which clocks change a schedule is due exactly so often, and then.
func TestCase79(t *testing.T) {
	const newYork, lordHowe = "America/New_York", "Australia/Lord_Howe"
	for _, c := range []struct {
		expression, zone, from string
		days                   int
		want                   string
	}{
		{"0 2 * * *", newYork, "2019-03-09", 3, "09 07:00, 10 07:00, 11 06:00"}, // on the 10th at 3:00, when there is no 2:00
		{"30 1 * * *", newYork, "2019-03-09", 3, "09 06:30, 10 06:30, 11 05:30"},
		{"*/20 2 * * *", newYork, "2019-03-10", 1, "10 07:00"}, // three times that are skipped are due as one
		{"0 2 * * *", newYork, "2019-11-02", 3, "02 06:00, 03 07:00, 04 07:00"},
		{"30 1 * * *", newYork, "2019-11-02", 3, "02 05:30, 03 05:30, 04 06:30"}, // the first 1:30 of the 3rd
		{"0 * * * *", newYork, "2019-11-03", 1, "03 04:00, 03 05:00, 03 06:00, 03 07:00, 03 08:00, 03 09:00, 03 10:00, 03 11:00, 03 12:00, 03 13:00, 03 14:00, 03 15:00, 03 16:00, 03 17:00, 03 18:00, 03 19:00, 03 20:00, 03 21:00, 03 22:00, 03 23:00, 04 00:00, 04 01:00, 04 02:00, 04 03:00, 04 04:00"},
		{"0 2 * * *", lordHowe, "2019-10-05", 3, "04 15:30, 05 15:30, 06 15:00"}, // 2:00 is skipped, it is 2:30
		{"15 2 * * *", lordHowe, "2019-10-06", 1, "05 15:30"},
		{"30 1 * * *", lordHowe, "2019-04-06", 3, "05 14:30, 06 14:30, 07 15:00"}, // 1:30 comes twice
		{"45 1 * * *", lordHowe, "2019-04-07", 1, "06 14:45"},
		{"0 2 * * *", lordHowe, "2019-04-07", 1, "06 15:30"},
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03", 3, "03 03:00, 04 03:00, 05 02:00"}, // the day begins at 1:00
	} {
		if got := strings.Join(launches(t, c.expression, c.zone, c.from, c.days), ", "); got != c.want {
			t.Errorf("%s in %s from %s: due %s, want %s", c.expression, c.zone, c.from, got, c.want)
		}
	}
}

func TestExpressions(t *testing.T) {
	for expression, want := range map[string]string{
		"5,10-12 3 * * *":    "01 03:05, 01 03:10, 01 03:11, 01 03:12, 02 03:05, 02 03:10, 02 03:11, 02 03:12",
		"0 20/2 * * *":       "01 20:00, 01 22:00, 02 20:00, 02 22:00",
		"0 0 * * MON":        "",
		"@daily":             "01 00:00, 02 00:00",
		"0 0 2 jan *":        "02 00:00",
		"0 0 1 * sun":        "01 00:00, 02 00:00", // 2 January 2000 is a Sunday
		"0 12 */2 * 6-7":     "01 12:00",           // with a * one of the days does not widen the other
		"0 0 29 2 *":         "",
		"0-59/30 12 * jan *": "01 12:00, 01 12:30, 02 12:00, 02 12:30",
	} {
		if got := strings.Join(launches(t, expression, "", "2000-01-01", 2), ", "); got != want {
			t.Errorf("%s: due %s, want %s", expression, got, want)
		}
	}
	for expression, want := range map[string]string{
		"* * * *":     `"* * * *" has 4 fields, and needs 5: minute, hour, day of the month, month, day of the week`,
		"60 * * * *":  `the minute "60" is not between 0 and 59`,
		"* * * * fry": `the day of the week "fry" is not between 0 and 7`,
		"9-3 * * * *": `the minute "9-3" goes backwards`,
		"*/0 * * * *": `the minute "*/0" has no step of at least 1`,
		"0 0 30 2 *":  `"0 0 30 2 *" is never due: there is no such day`,
		"@often":      `"@often" is not known; it is one of @hourly, @daily, @weekly, @monthly, @yearly`,
	} {
		if _, err := Parse(expression, ""); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", expression, err, want)
		}
	}
	for _, zone := range []string{"Mars/Olympus", "Local", "../etc"} {
		if _, err := Parse("@daily", zone); err == nil {
			t.Errorf("zone %s is taken", zone)
		}
	}
}

// Whatever the zone and the day, a time of day is due once on every date, in order, and never twice
// within a day's length.
func TestOnceADay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"America/New_York", "Australia/Lord_Howe", "Europe/Berlin", "America/Sao_Paulo", "Asia/Beirut", "Africa/Casablanca", "UTC"}).Draw(t, "zone")
		hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
		s, err := Parse(strings.Join([]string{itoa(minute), itoa(hour), "* * *"}, " "), zone)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Date(rapid.IntRange(1995, 2025).Draw(t, "year"), 1, 1, 12, 0, 0, 0, s.zone)
		last := s.Next(start)
		for range 370 {
			next := s.Next(last)
			y, m, d := last.Date()
			if day := time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC); next.YearDay() != day.YearDay() || next.Sub(last) < 22*time.Hour || next.Sub(last) > 26*time.Hour {
				t.Fatalf("%d:%02d in %s: %v, then %v", hour, minute, zone, last, next)
			}
			if next.Second() != 0 || (next.Hour() != hour || next.Minute() != minute) && !changes(next) {
				t.Fatalf("%d:%02d in %s is due at %v", hour, minute, zone, next)
			}
			last = next
		}
	})
}

// changes says whether clocks are put forward at that moment.
func changes(at time.Time) bool {
	_, was := at.Add(-time.Second).Zone()
	_, is := at.Zone()
	return is > was
}

func itoa(n int) string { return string([]byte{'0' + byte(n/10), '0' + byte(n%10)}) }

func FuzzParse(f *testing.F) {
	f.Add("*/5 1-3 * jan mon")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := Parse(text, "Europe/Berlin"); err == nil && s.Next(time.Now()).IsZero() {
			t.Errorf("%q is accepted and never due", text)
		}
	})
}
