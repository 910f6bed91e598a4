// Package robustness runs a whole cell while everything around it fails: an etcd of three
// members and several schedulers and servers, each a process, with traffic that makes them
// collide, quotas that bind and a slow policy for which room is held. It kills and freezes
// them, loses their replies, tampers with their watches, fills and restores the store, and at
// the end judges what they were told and what stands.
//
// Four ideas, a file or a package each: traffic and faults go on at the same time; package
// relay stands between each process and etcd, so that the product itself needs no hooks;
// the follower audits every revision as it comes; package history has the operations as
// the clients saw them put in an order, and the rest is what must hold once it is quiet.
//
// `make robust` runs it; the seed that it prints makes the same faults come in the same order.
package robustness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/robustness/history"
	"github.com/ohmcell/ohm/cellstate/robustness/relay"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Config of a run.
type Config struct {
	Program  string        // that runs a member or a part when it is given those words
	Duration time.Duration // of the faults; it takes longer if each has not come three times by then
	Seed     uint64
	Only     []string  // faults, by name; empty: all
	Dir      string    // for histories and logs
	Out      io.Writer // for progress
}

// least is how often each fault must come.
const least = 3

// run is a run under way.
type run struct {
	Config
	etcd     *etcd
	cell     *cell
	follower *follower
	reader   *history.Recorder
	auditing context.Context // of all audits of the run

	mu         sync.Mutex
	violations []history.Violation
	noReads    bool
	ended      relay.Counts
}

// Run runs and judges. An error means that it could not be run, or was ended.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &run{Config: c}
	began := time.Now()
	report := &Report{Seed: c.Seed, Limits: limitsOf(c.Seed)}
	err := r.cellUp(ctx, func() error {
		if err := r.work(ctx, report); err != nil {
			return err
		}
		r.rest(ctx)
		r.ended = r.cell.counts()
		if err := r.follower.end(); err != nil {
			r.violated("audit", "%v", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = r.judge(report)
	report.Took = time.Since(began)
	return report, err
}

// limitsOf are etcd's limits in a run: its own defaults, or those of the embedded etcd.
func limitsOf(seed uint64) Limits {
	if seed%2 == 0 {
		return Limits{TxnOps: 128, RequestBytes: 3 << 19}
	}
	return Limits{TxnOps: 8192, RequestBytes: 8 << 20}
}

// cellUp runs f on a cell that is up, and ends it.
func (r *run) cellUp(ctx context.Context, f func() error) (err error) {
	ended := func(close func() error) { err = errors.Join(err, close()) }
	limits := limitsOf(r.Seed)
	if r.etcd, err = newEtcd(ctx, r.Program, r.Dir, limits); err != nil {
		return err
	}
	defer ended(r.etcd.close)
	store, err := etcdstore.Open(ctx, etcdstore.Config{Endpoints: r.etcd.endpoints(), Sender: "run", MaxTxnOps: limits.TxnOps, MaxRequestBytes: limits.RequestBytes})
	if err != nil {
		return err
	}
	defer ended(store.Close)
	file, err := os.Create(filepath.Join(r.Dir, "run.history"))
	if err != nil {
		return err
	}
	defer ended(file.Close)
	r.reader = history.NewRecorder(store, "run", file)
	r.follower = &follower{store: store, truth: &history.Truth{}}
	if r.cell, err = newCell(r.Program, r.Dir, limits, r.etcd); r.cell != nil {
		defer ended(r.cell.close)
	}
	if err != nil {
		return err
	}
	var g errgroup.Group
	nodesUp, stop := context.WithCancel(ctx)
	g.Go(func() error { return r.cell.run(nodesUp) })
	defer ended(g.Wait)
	defer stop()
	if err := until(ctx, "the cell is up", r.ready); err != nil {
		return err
	}
	r.auditing = ctx
	if err := r.follower.begin(ctx); err != nil {
		return err
	}
	defer ended(r.follower.end)
	return f()
}

// ready says whether all nodes and schedulers are there.
func (r *run) ready(ctx context.Context) error {
	s, err := r.follower.store.Load(ctx)
	if err != nil {
		return err
	}
	n := 0
	for node := range s.Nodes() {
		if node.Facts != nil && node.Alive != nil {
			n++
		}
	}
	for _, k := range kinds() {
		if row := s.Scheduler(k.scheduler); row == nil || len(row.Instances) == 0 {
			return fmt.Errorf("scheduler %s is not there", k.scheduler)
		}
	}
	if n < nodes {
		return fmt.Errorf("%d of %d nodes are there", n, nodes)
	}
	return nil
}

// work has traffic and faults at the same time.
func (r *run) work(ctx context.Context, report *Report) error {
	log, err := os.Create(filepath.Join(r.Dir, "traffic.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	t := &traffic{log: log, jobs: ohmv1.NewJobsClient(r.cell.conn), cell: ohmv1.NewCellClient(r.cell.conn), chance: rand.New(rand.NewPCG(r.Seed, 1))}
	g.Go(func() error { return t.run(ctx) })
	g.Go(func() error { return r.reads(ctx) })
	g.Go(func() error {
		defer stop()
		return r.faults(ctx, report)
	})
	return g.Wait()
}

// faults injects each fault in turn, in another order each time, until the time is over
// and each has come often enough.
func (r *run) faults(ctx context.Context, report *Report) error {
	chance := rand.New(rand.NewPCG(r.Seed, 2))
	all := selected(r.Only)
	counts, tries := map[string]int{}, 0
	report.Faults = func() (out []Count) {
		for _, f := range all {
			out = append(out, Count{f.name, counts[f.name]})
		}
		return out
	}
	enough := func() bool {
		for _, f := range all {
			if counts[f.name] < least {
				return false
			}
		}
		return true
	}
	for began := time.Now(); time.Since(began) < r.Duration || !enough(); {
		if time.Since(began) > 2*r.Duration+time.Minute {
			return nil // the report says which came too seldom
		}
		for _, i := range chance.Perm(len(all)) {
			f := all[i]
			if time.Since(began) >= r.Duration && counts[f.name] >= least {
				continue
			}
			at := time.Now()
			tries++ // each has its own chance: how one went is nothing to the next
			err := f.inject(ctx, r, rand.New(rand.NewPCG(r.Seed, uint64(1000+tries))))
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, errMissed):
				fmt.Fprintf(r.Out, "%6.1fs %s: nothing to do it to\n", time.Since(began).Seconds(), f.name)
				continue
			case err != nil:
				r.violated("recovery", "%s: %v", f.name, err)
				return nil
			}
			counts[f.name]++
			fmt.Fprintf(r.Out, "%6.1fs %s (%.1fs), revision %d\n", time.Since(began).Seconds(), f.name, time.Since(at).Seconds(), r.follower.at())
			if err := pause(ctx, span(chance, 100, 600)); err != nil {
				return err
			}
			if r.follower.err() != nil || len(r.found()) > 0 {
				return nil
			}
		}
	}
	return nil
}

func selected(names []string) (all []fault) {
	for _, f := range faults() {
		wanted := len(names) == 0
		for _, n := range names {
			wanted = wanted || n == f.name
		}
		if wanted {
			all = append(all, f)
		}
	}
	return all
}

// reads reads everything now and then, as a client of its own.
func (r *run) reads(ctx context.Context) error {
	for pause(ctx, 250*time.Millisecond) == nil {
		r.mu.Lock()
		skip := r.noReads
		r.mu.Unlock()
		if !skip {
			_, _ = r.reader.Load(ctx) // what it says is in the history
		}
	}
	return nil
}

func (r *run) pauseReads(paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noReads = paused
}

// present is the store's revision.
func (r *run) present(ctx context.Context) (at cellstate.Revision, err error) {
	err = until(ctx, "the store answers", func(ctx context.Context) error {
		resp, err := r.etcd.client.Get(ctx, "present")
		if err == nil {
			at = cellstate.Revision(resp.Header.Revision)
		}
		return err
	})
	return at, err
}

// moves waits until tasks are placed again.
func (r *run) moves(ctx context.Context) error {
	before := r.follower.placed()
	return until(ctx, "tasks are placed again", func(context.Context) error {
		if err := r.follower.err(); err != nil {
			return fmt.Errorf("%w: %w", errHopeless, err)
		}
		if r.follower.placed() == before {
			return errors.New("none was")
		}
		return nil
	})
}

func (r *run) violated(law, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, history.Violation{Law: law, Detail: fmt.Sprintf(format, args...)})
}

// found are the violations so far.
func (r *run) found() []history.Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]history.Violation(nil), r.violations...)
}
