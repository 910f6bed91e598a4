package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/ohmcell/ohm/cellstate"
)

// quarters is how many intervals are reported of a window.
const quarters = 4

// steps of a quarter: of a long window each minute or so is a line of the log.
func steps(window time.Duration) int {
	return min(15, max(1, int(window/(quarters*time.Minute))))
}

// look is what was counted up to a time.
type look struct {
	at    time.Time
	tally tally
	usage []usage
}

func (t *road) look() look { return look{time.Now(), t.world.count(), usages(t.processes)} }

// measure takes the figures of the window.
func (t *road) measure(ctx context.Context, r *Report) {
	t.beginExtras()
	begin := t.look()
	n := steps(t.Duration)
	quarter, last := begin, begin
	for step := 1; step <= quarters*n; step++ {
		end := begin.at.Add(t.Duration * time.Duration(step) / time.Duration(quarters*n))
		_ = sleep(ctx, time.Until(end)) // cut short: the figures are of what there was
		now := t.look()
		if n > 1 {
			i := t.interval(ctx, begin.at, last, now)
			fmt.Fprintf(t.Log, "%6.0f s  %7.0f placements/s  commit p50 %.1f p99 %.1f ms  store %g MiB, %g in use\n",
				i.Until, i.PlacementsPerSecond, i.Commit.P50, i.Commit.P99, i.StoreMiB, i.StoreUsedMiB)
		}
		if step%n == 0 {
			r.Intervals = append(r.Intervals, t.interval(ctx, begin.at, quarter, now))
			quarter = now
		}
		last = now
	}
	t.report(begin, last, r)
	t.reportExtras(begin, last, r)
	r.StoreMiB = r.Intervals[quarters-1].StoreMiB
}

func (t *road) interval(ctx context.Context, begin time.Time, from, to look) Interval {
	d := to.tally.minus(from.tally)
	i := Interval{
		Until:               round(to.at.Sub(begin).Seconds(), 1),
		PlacementsPerSecond: perSecond(d.placed, from, to),
		Commit:              d.commit.quantiles(),
	}
	i.StoreMiB, i.StoreUsedMiB = t.at.size(ctx)
	return i
}

func perSecond(n int64, from, to look) float64 {
	return round(float64(n)/to.at.Sub(from.at).Seconds(), 0)
}

// report is what every row has.
func (t *road) report(from, to look, r *Report) {
	d := to.tally.minus(from.tally)
	live, _, _, _ := t.world.state()
	r.Seconds = round(to.at.Sub(from.at).Seconds(), 2)
	r.PlacementsPerSecond = perSecond(d.placed, from, to)
	r.ReleasesPerSecond = perSecond(d.released, from, to)
	r.PerNodeWrite = round(float64(d.placed)/float64(max(1, d.nodeWrites)), 2)
	r.Wait, r.Commit = d.wait.quantiles(), d.commit.quantiles()
	r.Used = round(float64(live)/float64(t.Nodes*cpuPerNode), 3)
	r.Writes = d.writesPer(d.placed)
	r.Conflicts = map[string]float64{"all": 0}
	for reason, n := range d.conflicts {
		fraction := float64(n) / float64(max(1, d.placed))
		r.Conflicts["all"] = round(r.Conflicts["all"]+fraction, 4)
		if n > 0 {
			r.Conflicts[reason] = round(fraction, 4)
		}
	}
	r.CPU, r.MemoryMiB, r.MemoryPeakMiB = map[string]float64{}, map[string]float64{}, map[string]float64{}
	for i, p := range t.processes {
		r.CPU[p.name] = round((to.usage[i].cpu-from.usage[i].cpu)/to.at.Sub(from.at).Seconds(), 2)
		r.MemoryMiB[p.name] = round(to.usage[i].rss/(1<<20), 0)
		r.MemoryPeakMiB[p.name] = round(to.usage[i].peak/(1<<20), 0)
		if p.name == etcdName {
			written := to.usage[i].written - from.usage[i].written
			r.BytesWritten = Bytes{MiB: round(written/(1<<20), 1), PerPlacement: round(written/float64(max(1, d.placed)), 0)}
		}
	}
	r.CPUPerPlacement = t.cpuPer(d.placed, from, to)
	if t.Life {
		r.Life = &Life{
			PerSecond: perSecond(d.ended, from, to), Live: live,
			Started: d.started.quantiles(), Reported: d.reported.quantiles(),
			CPU: t.cpuPer(d.ended, from, to), Writes: d.writesPer(d.ended),
		}
	}
}

// cpuPer is the CPU that each process used for each of n, in microseconds.
func (t *road) cpuPer(n int64, from, to look) map[string]float64 {
	out := map[string]float64{}
	for i, p := range t.processes {
		us := (to.usage[i].cpu - from.usage[i].cpu) * 1e6 / float64(max(1, n))
		out[p.name] = round(us, 1)
		out["all"] = round(out["all"]+us, 1)
	}
	return out
}

// beginExtras begins the window of what only some rows have.
func (t *road) beginExtras() {
	if t.trickle != nil {
		t.trickle.durable.begin()
	}
	if t.submit != nil {
		t.submit.took.begin()
	}
	if t.sessions != nil {
		t.sessions.begin()
	}
}

func (t *road) reportExtras(from, to look, r *Report) {
	d := to.tally.minus(from.tally)
	if t.trickle != nil {
		n, q := t.trickle.durable.end()
		r.Trickle = &Trickle{PerSecond: round(float64(n)/r.Seconds, 1), Durable: q}
	}
	if t.submit != nil {
		_, q := t.submit.took.end()
		r.Submit = &Submit{Batch: t.Submit, PerSecond: perSecond(d.puts[cellstate.KindJob], from, to), Request: q}
	}
	if t.sessions != nil {
		n, q := t.sessions.lag.end()
		r.Sessions = &Sessions{Sessions: t.Sessions, PerSecond: round(float64(n)/r.Seconds, 0), Lag: q}
		if r.Heartbeats != nil {
			r.Heartbeats.PerSecond = perSecond(t.sessions.sent(), from, to)
			r.Heartbeats.Writes = d.puts[cellstate.KindAlive] + d.deletes[cellstate.KindAlive]
		}
	}
}
