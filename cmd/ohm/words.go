package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// span prints a length of time with two units at most: "1.9s", "42s", "3m12s",
// "2h5m", "3d4h".
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 9950*time.Millisecond:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return units(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	case d < 24*time.Hour:
		return units(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	}
	return units(d/(24*time.Hour), "d", d%(24*time.Hour)/time.Hour, "h")
}

func units(large time.Duration, unit string, small time.Duration, smallUnit string) string {
	s := fmt.Sprintf("%d%s", large, unit)
	if small > 0 {
		s += fmt.Sprintf("%d%s", small, smallUnit)
	}
	return s
}

// ago prints a time as an age, in its largest unit: "3s ago". A time of a clock that
// runs ahead of this one is "0s ago".
func (a *app) ago(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return roughly(max(a.now().Sub(t.AsTime()), 0)) + " ago"
}

// expected is how long it is to a time: "in 12s", or "any moment" when it has passed.
func (a *app) expected(t *timestamppb.Timestamp) string {
	if d := t.AsTime().Sub(a.now()); d > 0 {
		return "in " + roughly(d)
	}
	return "any moment"
}

// roughly is a duration in one unit.
func roughly(d time.Duration) string {
	n, unit := d/time.Second, "s"
	switch {
	case d >= 48*time.Hour:
		n, unit = d/(24*time.Hour), "d"
	case d >= 2*time.Hour:
		n, unit = d/time.Hour, "h"
	case d >= 2*time.Minute:
		n, unit = d/time.Minute, "m"
	}
	return fmt.Sprintf("%d%s", n, unit)
}

// counts adds up a job's groups.
func counts(groups []*ohmv1.GroupCounts) *ohmv1.GroupCounts {
	sum := &ohmv1.GroupCounts{}
	for _, g := range groups {
		sum.Count += g.Count
		sum.Waiting += g.Waiting
		sum.Starting += g.Starting
		sum.Running += g.Running
		sum.Unready += g.Unready
		sum.Stopping += g.Stopping
		sum.Succeeded += g.Succeeded
		sum.Failed += g.Failed
		sum.Stopped += g.Stopped
		sum.Outdated += g.Outdated
		sum.Crashing += g.Crashing
	}
	return sum
}

// lasting says whether a job of this kind is there to run, not to end.
func lasting(kind string) bool { return kind == "service" || kind == "system" }

// tally says how far a job is: "2/4 succeeded, 1 running, 1 waiting".
func tally(kind string, c *ohmv1.GroupCounts) string {
	first, good := "succeeded", c.Succeeded
	if lasting(kind) {
		first, good = "running", c.Running
	}
	parts := []string{fmt.Sprintf("%d/%d %s", good, c.Count, first)}
	for _, other := range []struct {
		word string
		n    int32
	}{
		{"succeeded", c.Succeeded}, {"failed", c.Failed}, {"running", c.Running}, {"not ready", c.Unready}, {"in a crash loop", c.Crashing}, {"starting", c.Starting},
		{"outdated", c.Outdated}, {"stopping", c.Stopping}, {"stopped", c.Stopped}, {"waiting", c.Waiting},
	} {
		if other.n > 0 && other.word != first {
			parts = append(parts, fmt.Sprintf("%d %s", other.n, other.word))
		}
	}
	return strings.Join(parts, ", ")
}

func amounts(r *ohmv1.Resources) string {
	s := "cpu " + resource.FormatCPU(r.GetCpuMilli()) + ", memory " + resource.FormatBytes(r.GetMemoryBytes())
	if r.GetDiskBytes() > 0 {
		s += ", disk " + resource.FormatBytes(r.GetDiskBytes())
	}
	return s
}

// gpuRequest prints what a group asks for: "2 of V100M32, T4", "460m of one".
func gpuRequest(g *ohmv1.GPURequest) string {
	if g == nil || g.Count == 0 {
		return ""
	}
	s := fmt.Sprint(g.Count)
	if g.ShareMilli > 0 {
		s = resource.FormatShare(g.ShareMilli) + " of one"
	}
	if g.ShareBytes > 0 {
		s = resource.FormatBytes(g.ShareBytes) + " of one"
	}
	if g.SameModel {
		s += " of one model"
	}
	if g.MemoryBytes > 0 {
		s += " with " + resource.FormatBytes(g.MemoryBytes) + " of memory"
	}
	if len(g.Models) > 0 {
		s += " (" + strings.Join(g.Models, " or ") + ")"
	}
	return s
}

func shares(gpus []*ohmv1.DeviceShare) string {
	var words []string
	for _, g := range gpus {
		if g.Milli < resource.MaxShare {
			words = append(words, g.Id+":"+resource.FormatShare(g.Milli))
		} else {
			words = append(words, g.Id)
		}
	}
	return strings.Join(words, ",")
}

// mapText prints a map in the order of its keys: "a=1, b=2".
func mapText(m map[string]string) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		words = append(words, k+"="+m[k])
	}
	return strings.Join(words, ", ")
}

// number prints n, and nothing for 0.
func number[N int32 | int64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
