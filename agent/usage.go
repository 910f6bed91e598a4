package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// sample is what a task had used at a time.
type sample struct {
	at time.Time
	driver.Stats
}

// usage keeps what the running tasks have used in the last minutes, in memory only: nobody
// but whoever asks is told.
type usage struct {
	mu    sync.Mutex
	alive map[string]int64    // tasks, and how much disk each may take; 0: as much as there is
	over  map[string]string   // tasks that have taken more: how much, for people
	kept  map[string][]sample // the newest, oldest first
}

func (u *usage) setAlive(id string, alive bool, disk int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !alive:
		delete(u.alive, id)
		delete(u.over, id)
	case u.alive == nil:
		u.alive = map[string]int64{id: disk}
	default:
		u.alive[id] = disk
	}
}

func (u *usage) tasks() map[string]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.alive)
}

// tookTooMuch notes that a task has taken more disk than it may.
func (u *usage) tookTooMuch(id, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, alive := u.alive[id]; !alive {
		return
	}
	if u.over == nil {
		u.over = map[string]string{}
	}
	u.over[id] = why
}

// tooMuch says of a task that has taken more disk than it may how much; else "".
func (u *usage) tooMuch(id string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.over[id]
}

// add keeps a sample, and no more than so many of the task.
func (u *usage) add(id string, s sample, most int) []sample {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kept == nil {
		u.kept = map[string][]sample{}
	}
	all := append(u.kept[id], s)
	if len(all) > most {
		all = slices.Delete(all, 0, len(all)-most)
	}
	u.kept[id] = all
	return slices.Clone(all)
}

// forget drops the samples of tasks that do not run any more.
func (u *usage) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.kept {
		if _, alive := u.alive[id]; !alive {
			delete(u.kept, id)
		}
	}
}

// sampling takes samples until ctx ends.
func (a *Agent) sampling(ctx context.Context) error {
	if !slices.Contains(a.Driver.Capabilities(), driver.CanStats) {
		return nil
	}
	for pause(ctx, a.Sample); ctx.Err() == nil; pause(ctx, a.Sample) {
		for id, disk := range a.usage.tasks() {
			a.sampled(ctx, id)
			if disk > 0 {
				a.measureDisk(ctx, id, disk)
			}
		}
		a.usage.forget()
	}
	return nil
}

// measureDisk finds out whether a task has taken more disk than it may, which ends it. That is
// noticed only when it is looked at: the node's own guard against a full disk does not wait for it.
func (a *Agent) measureDisk(ctx context.Context, id string, may int64) {
	ctx, cancel := context.WithTimeout(ctx, a.LookTimeout)
	defer cancel()
	took, err := a.Driver.DiskBytes(ctx, id)
	if err != nil {
		a.Log.Debug("what a task takes of the disk is not known", zap.String("task", id), zap.Error(err))
		return
	}
	if took > may {
		used, limit := resource.RoundPair(took, may)
		a.usage.tookTooMuch(id, fmt.Sprintf("it took %s of the disk; its limit is %s", used, limit))
		a.hint(id)
	}
}

// sampled takes a sample of a task now, and gives all there are; none where it does not run.
func (a *Agent) sampled(ctx context.Context, id string) []sample {
	ctx, cancel := context.WithTimeout(ctx, a.LookTimeout)
	defer cancel()
	s, ok, err := a.Driver.Stats(ctx, id)
	if err != nil || !ok {
		return nil // its end is somebody else's to see
	}
	return a.usage.add(id, sample{time.Now(), s}, a.Samples)
}

// reportUsage answers a question of the server's.
func (l *loop) reportUsage(ctx context.Context, req *ohmv1.UsageRequest) {
	l.asking.Go(func() {
		report := &ohmv1.UsageReport{Id: req.GetId(), Tasks: map[string]*ohmv1.Usage{}}
		for _, id := range req.GetTaskIds() {
			if u := summary(l.sampled(ctx, id)); u != nil {
				report.Tasks[id] = u
			}
		}
		select {
		case l.usageOut <- report:
		case <-ctx.Done():
		case <-time.After(l.LookTimeout): // there is no session: nobody waits for it any more
		}
	})
}

// summary sums samples up, oldest first; nil: there are none.
func summary(samples []sample) *ohmv1.Usage {
	if len(samples) == 0 {
		return nil
	}
	first, last := samples[0], samples[len(samples)-1]
	u := &ohmv1.Usage{
		Time: timestamppb.New(last.at), Window: durationpb.New(last.at.Sub(first.at)), Samples: int32(len(samples)),
		Cpu: durationpb.New(last.CPU), MemoryPeakBytes: last.MemoryPeak, MemoryLimitBytes: last.MemoryLimit,
		Processes: last.Processes, ThrottledPeriods: last.ThrottledPeriods, Throttled: durationpb.New(last.Throttled),
	}
	var cpu, memory []int64
	for i, s := range samples {
		memory = append(memory, s.Memory)
		if i > 0 {
			cpu = append(cpu, milli(samples[i-1], s))
		}
	}
	u.MemoryBytes = series(memory)
	if u.CpuMilli = series(cpu); len(cpu) > 1 {
		u.CpuMilli.Avg = milli(first, last) // the samples are not evenly apart
	}
	return u
}

// milli is how many thousandths of a core were used between two samples.
func milli(from, to sample) int64 {
	wall := to.at.Sub(from.at)
	if wall <= 0 {
		return 0
	}
	return int64(1000 * (to.CPU - from.CPU) / wall)
}

func series(values []int64) *ohmv1.Series {
	if len(values) == 0 {
		return nil
	}
	sum := int64(0)
	for _, v := range values {
		sum += v
	}
	return &ohmv1.Series{Last: values[len(values)-1], Min: slices.Min(values), Max: slices.Max(values), Avg: sum / int64(len(values))}
}
