package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/cmd/ohm/child"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
)

// backlog is how many tasks wait in the store for each scheduler, so that none runs dry.
const backlog = 2000

// world is what the bench knows of the cell, from the events that its mirror has applied.
type world struct {
	mu       sync.Mutex
	jobs     map[cellstate.JobName]*job
	full     []cellstate.JobName // wholly placed, to be removed
	live     int                 // placements
	waiting  int                 // tasks of jobs in the store without a placement
	placed   int                 // in all
	released int
	writes   map[write]bool // node transactions in the window
	wait     []float64
	commit   []float64
	window   bool
	next     int
	perJob   int
}

type write struct {
	node     string
	revision cellstate.Revision
}

type job struct {
	stored time.Time
	placed int
}

// tapped lets see look at each batch once the mirror has applied it.
type tapped struct {
	*etcdstore.Store
	see func(cellstate.Batch)
}

func (t tapped) Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	return func(yield func(cellstate.Batch, error) bool) {
		for b, err := range t.Store.Changes(ctx, after) {
			if !yield(b, err) {
				return
			}
			t.see(b)
		}
	}
}

func (w *world) see(b cellstate.Batch) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range b.Changes {
		k := c.Key.Parse()
		if k.Kind != cellstate.KindPlacement {
			continue
		}
		if c.Deleted {
			w.live--
			w.released++
			continue
		}
		p := c.Value.(*ohmv1.Placement)
		w.live++
		w.placed++
		w.waiting--
		j := w.jobs[k.Slot.JobName()]
		if j == nil {
			continue
		}
		if j.placed++; j.placed == w.perJob {
			w.full = append(w.full, k.Slot.JobName())
		}
		if w.window {
			w.writes[write{p.GetNode(), c.Revision}] = true
			w.wait = append(w.wait, ms(now.Sub(j.stored)))
			w.commit = append(w.commit, ms(now.Sub(p.GetTime().AsTime())))
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// road measures the whole road on a fresh etcd.
func (c Config) road(ctx context.Context, set *child.Set, etcd *child.Process, endpoint string, r *Report) error {
	store, err := openStore(ctx, endpoint, "bench")
	if err != nil {
		return err
	}
	defer store.Close()
	if err := c.nodes(ctx, store); err != nil {
		return err
	}
	w := &world{perJob: c.TasksPerJob, jobs: map[cellstate.JobName]*job{}, writes: map[write]bool{}}
	m := mirror.New(tapped{store, w.see}, zap.NewNop())
	var all []*child.Process
	processes := []used{{"etcd", etcd.Pid()}, {"bench and server's mirror", 0}}
	for i := range c.Schedulers {
		p, err := set.Start(schedulerLabel(i), "bench", "scheduler", "--etcd", endpoint,
			"--instance", fmt.Sprintf("bench-%d", i), "--max-per-node", fmt.Sprint(c.MaxPerNode), "--cpu-profile", c.profile(fmt.Sprintf("scheduler-%d", i)))
		if err != nil {
			return err
		}
		all, processes = append(all, p), append(processes, used{schedulerLabel(i), p.Pid()})
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	g, inner := errgroup.WithContext(inner)
	g.Go(func() error { return m.Run(inner) })
	g.Go(func() error { return c.load(inner, store, w) })
	if c.Steady > 0 {
		g.Go(func() error { return c.release(inner, store, w) })
	}
	g.Go(func() error {
		defer stop()
		if err := c.warm(inner, w); err != nil {
			return err
		}
		c.measure(inner, w, processes, r)
		r.StoreMiB = round(storeSize(ctx, endpoint)/(1<<20), 0)
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return c.stats(all, r)
}

func schedulerLabel(i int) string { return fmt.Sprintf("scheduler %d", i) }

// used is a process of which the use of the machine is measured.
type used struct {
	name string
	pid  int // 0: this one
}

// measure takes the figures of one window.
func (c Config) measure(ctx context.Context, w *world, processes []used, r *Report) {
	usage := func() (all []cpuTime) {
		for _, p := range processes {
			all = append(all, cpuOf(p.pid))
		}
		return all
	}
	w.mu.Lock()
	placed, released := w.placed, w.released
	w.window = true
	w.mu.Unlock()
	before, begin := usage(), time.Now()
	_ = sleep(ctx, c.Duration) // cut short: the figures are of what there was
	took, after := time.Since(begin).Seconds(), usage()
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.placed - placed
	r.Seconds = round(took, 2)
	r.PlacementsPerSecond = round(float64(n)/took, 0)
	r.ReleasesPerSecond = round(float64(w.released-released)/took, 0)
	r.PerNodeWrite = round(float64(n)/max(1, float64(len(w.writes))), 2)
	r.Wait, r.Commit = quantiles(w.wait), quantiles(w.commit)
	r.Used = round(float64(w.live)/float64(c.Nodes*cpuPerNode), 3)
	r.CPU, r.MemoryMiB = map[string]float64{}, map[string]float64{}
	for i, p := range processes {
		r.CPU[p.name] = round((after[i].seconds-before[i].seconds)/took, 2)
		r.MemoryMiB[p.name] = round(after[i].rss/(1<<20), 0)
	}
}

// stats ends the schedulers and adds up what they say of themselves.
func (c Config) stats(procs []*child.Process, r *Report) error {
	r.Conflicts, r.Busyness = map[string]float64{}, map[string]float64{}
	committed, refused := 0.0, map[string]float64{}
	for i, p := range procs {
		line, err := p.Finish("stats")
		if err != nil {
			return err
		}
		var s schedulers.Stats
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return err
		}
		committed += float64(s.Committed)
		for reason, n := range s.Refused {
			refused[reason] += float64(n)
		}
		r.Busyness[schedulerLabel(i)] = round(s.Busy.Seconds()/(c.Warmup+c.Duration).Seconds(), 3)
	}
	total := 0.0
	for reason, n := range refused {
		r.Conflicts[reason] = round(n/max(1, committed), 4)
		total += n
	}
	r.Conflicts["all"] = round(total/max(1, committed), 4)
	return nil
}

// warm waits until the cell is as full as it is to be, and then the warm-up time.
func (c Config) warm(ctx context.Context, w *world) error {
	target := int(c.Steady * float64(c.Nodes*cpuPerNode))
	for begin := time.Now(); ; {
		w.mu.Lock()
		live, placed := w.live, w.placed
		w.mu.Unlock()
		if placed > 0 && live >= target*98/100 {
			break
		}
		if time.Since(begin) > 2*time.Minute {
			return fmt.Errorf("the cell holds %d of %d tasks after two minutes", live, target)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return sleep(ctx, c.Warmup)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// nodes puts the nodes of the cell into the store, alive.
func (c Config) nodes(ctx context.Context, store cellstate.Store) error {
	var writes []cellstate.Write
	for i := range c.Nodes {
		name := cellstate.NodeName(fmt.Sprintf("node-%05d", i))
		facts := &ohmv1.Node{Name: string(name), Capacity: &ohmv1.Resources{CpuMilli: cpuPerNode * 1000, MemoryBytes: 1 << 40, DiskBytes: 1 << 40}}
		w := cellstate.NodeWrite(name, nil, cellstate.Record{Key: cellstate.NodeKey(name), Value: facts})
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: string(name), Server: "bench"}})
		writes = append(writes, w)
	}
	_, err := store.Commit(ctx, writes...)
	return err
}

// load keeps a backlog of jobs in the store.
func (c Config) load(ctx context.Context, store cellstate.Store, w *world) error {
	spec := &ohmv1.JobSpec{Namespace: "default", Kind: "batch", Scheduler: schedulerName, Precedence: proto.Int32(100), Groups: []*ohmv1.Group{{
		Name: "main", Count: int32(c.TasksPerJob), Command: []string{"true"}, Resources: &ohmv1.Resources{CpuMilli: 1000, MemoryBytes: 1 << 30},
	}}}
	for ctx.Err() == nil {
		w.mu.Lock()
		var writes []cellstate.Write
		for w.waiting < backlog*c.Schedulers && len(writes) < 500 {
			name := cellstate.JobName{Namespace: "default", Name: fmt.Sprintf("job-%08d", w.next)}
			w.next++
			s := proto.CloneOf(spec)
			s.Name = name.Name
			now := time.Now()
			w.jobs[name] = &job{stored: now}
			w.waiting += c.TasksPerJob
			writes = append(writes, cellstate.Write{Records: []cellstate.Record{{Key: cellstate.JobKey(name), Value: &ohmv1.Job{Spec: s, Version: 1, SubmitTime: timestamppb.New(now)}}}})
		}
		w.mu.Unlock()
		if len(writes) > 0 {
			if _, err := store.Commit(ctx, writes...); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if sleep(ctx, 5*time.Millisecond) != nil {
			break
		}
	}
	return nil
}

// release removes random whole jobs, some to a request, as fast as placements come.
func (c Config) release(ctx context.Context, store cellstate.Store, w *world) error {
	target := int(c.Steady * float64(c.Nodes*cpuPerNode))
	gone := 0 // asked for, not yet seen
	for ctx.Err() == nil {
		w.mu.Lock()
		var writes []cellstate.Write
		for w.live+w.released-gone > target && len(w.full) > 0 && len(writes) < max(20, 2000/c.TasksPerJob) {
			i := rand.IntN(len(w.full))
			name := w.full[i]
			w.full[i] = w.full[len(w.full)-1]
			w.full = w.full[:len(w.full)-1]
			delete(w.jobs, name)
			gone += c.TasksPerJob
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
