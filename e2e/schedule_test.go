package e2e

import (
	"strings"
	"testing"
	"time"
)

// A schedule of each minute: nothing runs when it is submitted, a run begins when its time has come, by
// whichever server leads then, and a stop ends both.
func TestSchedule(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t))
	text := strings.Replace(batch("tick", 1), "kind: batch", "kind: batch\nschedule: {cron: '* * * * *', timeZone: Europe/Berlin}", 1)
	submitted := time.Now()
	if said := d.ohm("run", d.job(text)); !strings.Contains(said, "tick  batch  scheduled, next at ") {
		t.Errorf("run says %q", said)
	}
	if s := d.status("tick"); s.State != "Scheduled" {
		t.Errorf("before its time: %+v", s)
	}
	if a := d.try("run", "--wait", d.job(text)); a.code != 2 {
		t.Errorf("to wait for it: %d, %s", a.code, a.stderr)
	}
	within(t, patience+time.Minute, "it has run", func() bool { return d.status("tick").State == "Succeeded" })
	if at := time.Now(); at.Truncate(time.Minute).Equal(submitted.Truncate(time.Minute)) {
		t.Errorf("it ran at %v, in the minute of its submission", at)
	}
	if h := read[[]runView](d.client, "job", "history", "tick"); len(h) == 0 || h[len(h)-1].Run != 1 {
		t.Errorf("history: %+v", h)
	}
	d.ohm("stop", "tick")
	if s := read[struct{ Next string }](d.client, "status", "tick"); s.Next != "" {
		t.Errorf("after a stop it is due at %s", s.Next)
	}
}
