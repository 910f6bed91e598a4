package jobspec

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// maxDuration bounds every duration of a job: ten years.
const maxDuration = 10 * 365 * 24 * time.Hour

// parseDuration reads `30s`, `10m`, `1h30m`, `1.5h` or `500ms`.
func parseDuration(s string) (*durationpb.Duration, error) {
	const form = "write a number and a unit, such as 30s, 10m or 2h"
	if s == "" || len(s) > 30 || !only(s, func(c byte) bool { return isLower(c) || isDigit(c) || c == '.' }) {
		return nil, fmt.Errorf("%s is not a duration; %s", quote(s), form)
	}
	if only(s, isDigit) {
		return nil, fmt.Errorf("%s has no unit; did you mean %ss?", quote(s), s)
	}
	d, err := time.ParseDuration(s)
	if days, is := strings.CutSuffix(s, "d"); err != nil && is {
		if whole, err := time.ParseDuration(days + "h"); err == nil && whole <= maxDuration/24 {
			return nil, fmt.Errorf("%s has an unknown unit; did you mean %s?", quote(s), formatDuration(24*whole))
		}
	}
	switch {
	case err != nil && strings.Trim(s, "0123456789.hms") == "" && strings.ContainsAny(s, "hms"):
		return nil, fmt.Errorf("%s is too long or not a duration; %s", quote(s), form)
	case err != nil:
		return nil, fmt.Errorf("%s is not a duration; %s", quote(s), form)
	case d%time.Millisecond != 0:
		return nil, fmt.Errorf("%s is finer than a millisecond; %s", quote(s), form)
	}
	return durationpb.New(d), nil
}

// formatDuration prints 2h as 2h, not as 2h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// checkDuration says what is wrong with a duration, "" if nothing is.
func checkDuration(d *durationpb.Duration, least time.Duration) string {
	switch {
	case d.CheckValid() != nil || d.AsDuration() > maxDuration:
		return "is longer than ten years"
	case d.AsDuration() < 0:
		return "is negative"
	case d.AsDuration() < least:
		return fmt.Sprintf("is less than %s", formatDuration(least))
	}
	return ""
}
