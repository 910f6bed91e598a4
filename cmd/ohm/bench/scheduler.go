package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/cmd/ohm/child"
	"github.com/ohmcell/ohm/cmd/ohm/process"
	"github.com/ohmcell/ohm/pkg/lifecycle"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

const schedulerName = "bench"

// policy packs like batch, but puts at most so many tasks of a job on one node.
type policy struct {
	table *place.Table
	most  int32
}

func (p policy) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	return p.table.Each(ctx, in, func(r *place.Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		load := r.AtMost(w, p.most)
		return r.Incremental(w, func(q *place.Request, _ reconcile.Need) (node int, ok bool) {
			return r.Choose(q, load)
		})
	})
}

// Scheduler is one scheduler process of a run. At its end it says how long it was busy.
func Scheduler(ctx context.Context, at process.Store, instance string, most int, out io.Writer) error {
	process.ShareMachine()
	store, err := at.Open(ctx, "scheduler-"+instance, zap.NewNop())
	if err != nil {
		return err
	}
	defer store.Close()
	m := mirror.New(store, zap.NewNop())
	r := schedulers.New(schedulers.Config{
		Cell: m, Store: store, Scheduler: policy{place.NewTable(), int32(most)}, Name: schedulerName, Instance: instance,
	})
	err = lifecycle.Run(ctx, lifecycle.Part{Name: "mirror", Run: m.Run}, lifecycle.Part{Name: "runner", Run: r.Run})
	stats, jsonErr := json.Marshal(r.Stats())
	if err == nil {
		err = jsonErr
	}
	fmt.Fprintf(out, "stats %s\n", stats)
	return err
}

// scheduler is such a process, as seen from outside.
type scheduler struct {
	name, instance string
	process        *child.Process
	started        time.Time
}

// startSchedulers starts the schedulers of the load.
func (c Config) startSchedulers(at site) (all []scheduler, err error) {
	for i := range c.Schedulers {
		s := scheduler{name: fmt.Sprintf("scheduler %d", i), instance: fmt.Sprintf("bench-%d", i), started: time.Now()}
		args := append([]string{"bench", "scheduler", "--instance", s.instance, "--max-per-node", fmt.Sprint(c.MaxPerNode),
			"--cpu-profile", c.profile(fmt.Sprintf("scheduler-%d", i))}, at.flags()...)
		if s.process, err = at.set.Start(s.name, args...); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// ask ends the schedulers. It says which share of the time since its first placement each
// spent deciding, and how long that took to come.
func ask(all []scheduler, w *world, r *Report) error {
	r.Busyness, r.ColdStart = map[string]float64{}, map[string]float64{}
	now := time.Now()
	for _, s := range all {
		line, err := s.process.Finish("stats")
		if err != nil {
			return err
		}
		var stats schedulers.Stats
		if err := json.Unmarshal([]byte(line), &stats); err != nil {
			return err
		}
		if first := w.firstOf(s.instance); !first.IsZero() {
			r.Busyness[s.name] = round(stats.Busy.Seconds()/now.Sub(first).Seconds(), 3)
			r.ColdStart[s.name] = round(first.Sub(s.started).Seconds(), 2)
		}
	}
	return nil
}
