package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// trickle is one-task jobs of the service scheduler beside the load, one at a time.
type trickle struct {
	durable clock // from the put of the job to its placement seen

	mu     sync.Mutex
	sent   map[string]time.Time // by job, until it is placed
	placed []string             // to be removed
}

// mostTrickling bounds the jobs whose put is under way.
const mostTrickling = 64

func newTrickle(w *world) *trickle {
	t := &trickle{sent: map[string]time.Time{}}
	w.placing = append(w.placing, t.see)
	return t
}

func (t *trickle) see(p *ohmv1.Placement, at time.Time) {
	name := p.GetSlot().GetJob()
	t.mu.Lock()
	defer t.mu.Unlock()
	if sent, ok := t.sent[name]; ok {
		delete(t.sent, name)
		t.placed = append(t.placed, name)
		t.durable.add(at.Sub(sent))
	}
}

// run puts so many jobs a second and, each second, removes those that are placed.
func (t *trickle) run(ctx context.Context, store cellstate.Store, rate float64) error {
	spec := &ohmv1.JobSpec{Namespace: "default", Kind: "service", Scheduler: "service", Precedence: proto.Int32(200), Groups: []*ohmv1.Group{{
		Name: "main", Count: 1, Command: []string{"true"}, Resources: taskResources(),
	}}}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(mostTrickling)
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	sweep := time.NewTicker(time.Second)
	defer sweep.Stop()
	commit := func(writes ...cellstate.Write) {
		g.Go(func() error {
			if _, err := store.Commit(ctx, writes...); err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			s := proto.CloneOf(spec)
			s.Name = fmt.Sprintf("trickle-%06d", n)
			now := time.Now()
			t.mu.Lock()
			t.sent[s.Name] = now
			t.mu.Unlock()
			commit(put(s, now))
		case <-sweep.C:
			var writes []cellstate.Write
			t.mu.Lock()
			for _, name := range t.placed {
				writes = append(writes, removal(cellstate.JobName{Namespace: "default", Name: name}))
			}
			t.placed = nil
			t.mu.Unlock()
			if len(writes) > 0 {
				commit(writes...)
			}
		case <-ctx.Done():
			return g.Wait()
		}
	}
}
