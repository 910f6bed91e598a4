package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/mirror"
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

// Scheduler is one scheduler process of a run. At its end it prints its Stats.
func Scheduler(ctx context.Context, endpoint, instance string, most int, out io.Writer) error {
	store, err := openStore(ctx, endpoint, "scheduler-"+instance)
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
