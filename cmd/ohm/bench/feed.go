package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/agent/driver/hollow"
	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const (
	// backlog is how many tasks wait in the store for each scheduler, so that none runs dry.
	backlog = 2000
	// mostStored is how many jobs are put into the store at once.
	mostStored = 500
	// lifetime of a task that runs, in seconds.
	lifetime = "1-10"
)

// spec is a job of the load, without a name.
func (c Config) spec() *ohmv1.JobSpec {
	s := &ohmv1.JobSpec{Namespace: "default", Kind: "batch", Scheduler: schedulerName, Precedence: proto.Int32(100), Groups: []*ohmv1.Group{{
		Name: "main", Count: int32(c.TasksPerJob), Command: []string{"true"}, Resources: taskResources(),
	}}}
	if c.Life {
		s.Groups[0].Env = map[string]string{hollow.EnvSeconds: lifetime}
		s.Groups[0].Constraints = []*ohmv1.Constraint{{Key: "hollow", Op: ohmv1.Operator_OPERATOR_EXISTS}}
	}
	return s
}

// wanted are as many jobs as are missing in the store, at most so many. They count as
// stored from now on.
func (w *world) wanted(c Config, spec *ohmv1.JobSpec, most int) (jobs []*ohmv1.JobSpec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.waiting < backlog*c.Schedulers && len(jobs) < most && (!c.Life || w.live+w.waiting < c.target()) {
		s := proto.CloneOf(spec)
		s.Name = fmt.Sprintf("job-%08d", w.next)
		w.next++
		w.jobs[cellstate.JobNameOf(s)] = &job{stored: time.Now()}
		w.waiting += c.TasksPerJob
		jobs = append(jobs, s)
	}
	return jobs
}

// feed keeps a backlog of jobs in the store, or stores them at the rate that was asked for;
// store stores some.
func (c Config) feed(ctx context.Context, w *world, most int, store func(context.Context, []*ohmv1.JobSpec) error) error {
	spec, begin, stored := c.spec(), time.Now(), 0
	for ctx.Err() == nil {
		if jobs := w.wanted(c, spec, min(most, c.due(time.Since(begin))-stored)); len(jobs) > 0 {
			if err := store(ctx, jobs); err != nil && ctx.Err() == nil {
				return err
			}
			stored += len(jobs)
			if len(jobs) == most {
				continue
			}
		}
		if sleep(ctx, 5*time.Millisecond) != nil {
			break
		}
	}
	return nil
}

// due is how many jobs may have been stored after so long.
func (c Config) due(after time.Duration) int {
	if c.Rate == 0 {
		return math.MaxInt
	}
	return int(c.Rate * after.Seconds() / float64(c.TasksPerJob))
}

// put is the write of a job's record.
func put(spec *ohmv1.JobSpec, now time.Time) cellstate.Write {
	return cellstate.Write{Records: []cellstate.Record{{
		Key: cellstate.JobKey(cellstate.JobNameOf(spec)), Value: &ohmv1.Job{Spec: spec, Version: 1, SubmitTime: timestamppb.New(now)},
	}}}
}

// putAll puts jobs into the store.
func putAll(store cellstate.Store) func(context.Context, []*ohmv1.JobSpec) error {
	return func(ctx context.Context, jobs []*ohmv1.JobSpec) error {
		var writes []cellstate.Write
		for _, s := range jobs {
			writes = append(writes, put(s, time.Now()))
		}
		_, err := store.Commit(ctx, writes...)
		return err
	}
}

// releasers remove jobs at the same time. One request of theirs is about as large as one
// of a scheduler: larger ones keep all others waiting.
const releasers, releasedAtOnce = 4, 400

// release removes random whole jobs, some to a request, as fast as placements come.
func (c Config) release(ctx context.Context, store cellstate.Store, w *world) error {
	g, ctx := errgroup.WithContext(ctx)
	for range releasers {
		g.Go(func() error { return c.releaser(ctx, store, w) })
	}
	return g.Wait()
}

func (c Config) releaser(ctx context.Context, store cellstate.Store, w *world) error {
	for ctx.Err() == nil {
		w.mu.Lock()
		var writes []cellstate.Write
		for int64(w.live)+w.tally.released-w.asked > int64(c.target()) && len(w.full) > 0 && len(writes) < max(1, releasedAtOnce/c.TasksPerJob) {
			i := rand.IntN(len(w.full))
			name := w.full[i]
			w.full[i] = w.full[len(w.full)-1]
			w.full = w.full[:len(w.full)-1]
			w.asked += int64(c.TasksPerJob)
			writes = append(writes, removal(name))
		}
		w.mu.Unlock()
		if len(writes) > 0 {
			if _, err := store.Commit(ctx, writes...); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		if sleep(ctx, 2*time.Millisecond) != nil {
			break
		}
	}
	return nil
}

// removal takes a job and all that is stored of its tasks out of the store.
func removal(name cellstate.JobName) cellstate.Write {
	from, end := cellstate.TasksKeys(name)
	return cellstate.Write{Guards: []cellstate.Guard{
		{Key: from, End: end, Revision: 1 << 60, NotNewer: true, Delete: true},
		{Key: cellstate.JobKey(name), End: cellstate.JobKey(name) + "\x00", Revision: 1 << 60, NotNewer: true, Delete: true},
	}}
}
