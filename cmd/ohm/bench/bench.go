// Package bench measures what a cell can do on this machine. Every row is the road of a
// placement, from jobs in the store to placements that are durable and seen by a mirror,
// under one load or another: with raw nested commits of etcd to compare with, with whole
// lives on simulated nodes, with agents' sessions, with jobs that come through the API.
//
// The processes are real ones. What they did is told from the store alone: the bench
// follows it with a mirror of its own and counts what it sees; only how long a scheduler
// was busy deciding is what the scheduler says.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ohmcell/ohm/cmd/ohm/process"
)

// Config of a run.
type Config struct {
	Nodes       int
	Schedulers  int     // processes
	TasksPerJob int     //
	MaxPerNode  int     // tasks of one job on one node
	Steady      float64 // share of the cell that is kept in use; 0: only fill
	Live        int     // placements that are there from the start and, if there are any, kept in use instead
	Rate        float64 // tasks a second that come; 0: as many as are placed
	Warmup      time.Duration
	Duration    time.Duration
	RawDuration time.Duration // 0: raw commits are not measured

	Life         bool          // tasks of 1 to 10 s run on simulated nodes, instead of being removed by the bench
	Trickle      float64       // one-task service jobs a second beside the load
	CompactEvery time.Duration // of the store; 0: never
	Submit       int           // jobs of a request through the API; 0: jobs are put into the store
	Sessions     int           // agents' sessions to which assignments are fanned out
	Heartbeats   bool          // each second from every session

	Etcd     process.Store // one of somebody else's; without endpoints the bench runs one
	Profiles string        // folder for CPU profiles of the processes; empty: none
	Program  string        // the ohm binary
	Log      io.Writer
}

// cpuPerNode is how many tasks of one core a node holds.
const cpuPerNode = 64

// target is how many placements are kept in the cell; 0: as many as fit.
func (c Config) target() int {
	if c.Live > 0 {
		return c.Live
	}
	return int(c.Steady * float64(c.Nodes*cpuPerNode))
}

// Check says what of a configuration makes no sense.
func (c Config) Check() error {
	switch {
	case c.Nodes < 1 || c.Schedulers < 1 || c.TasksPerJob < 1 || c.MaxPerNode < 1:
		return errors.New("--nodes, --schedulers, --tasks-per-job and --max-per-node are at least 1")
	case c.Duration <= 0:
		return fmt.Errorf("--duration %v is no time", c.Duration)
	case c.Steady < 0 || c.Steady > 0.95:
		return fmt.Errorf("--steady %g is not between 0 and 0.95", c.Steady)
	case c.Rate < 0:
		return fmt.Errorf("--rate %g is below zero", c.Rate)
	case c.TasksPerJob > c.Nodes*c.MaxPerNode:
		return fmt.Errorf("a job of %d tasks does not fit on %d nodes with at most %d each", c.TasksPerJob, c.Nodes, c.MaxPerNode)
	case c.Live < 0 || c.Live > c.Nodes*cpuPerNode*95/100:
		return fmt.Errorf("--live %d is not between 0 and 95%% of what %d nodes hold", c.Live, c.Nodes)
	case c.Submit < 0 || c.Submit > mostSubmitted:
		return fmt.Errorf("--submit %d is not between 1 and %d jobs, the most of one request", c.Submit, mostSubmitted)
	case c.Trickle < 0 || c.Trickle > 1000:
		return fmt.Errorf("--trickle %g is not between 0 and 1000 jobs a second", c.Trickle)
	case c.Sessions < 0 || c.Sessions > c.Nodes:
		return fmt.Errorf("--sessions %d is not between 0 and the number of nodes, %d", c.Sessions, c.Nodes)
	case c.Life && (c.Sessions > 0 || c.Heartbeats):
		return errors.New("with --life the simulated nodes have their own sessions: leave out --sessions and --heartbeats")
	case c.Life && c.target() == 0:
		return errors.New("--life needs --steady: tasks end by themselves, and the bench keeps no more than that")
	case c.Heartbeats && c.Sessions == 0:
		return errors.New("--heartbeats needs --sessions, which send them")
	case len(c.Etcd.Endpoints) > 0 && c.Profiles != "":
		return errors.New("--profiles cannot profile an etcd of yours: leave out one of --etcd and --profiles")
	}
	return nil
}

// Run measures raw etcd first and then the whole road, each on a fresh etcd, or in a cell
// of its own on a given one.
func Run(ctx context.Context, c Config) (*Report, error) {
	process.RelaxCollector()
	r := &Report{Nodes: c.Nodes, Schedulers: c.Schedulers, TasksPerJob: c.TasksPerJob, MaxPerNode: c.MaxPerNode, Steady: c.Steady, Live: c.Live, Rate: c.Rate}
	if c.RawDuration > 0 {
		err := c.withStore(ctx, func(at site) (err error) {
			r.RawPerSecond, err = c.raw(ctx, at)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("raw commits: %w", err)
		}
	}
	if err := c.withStore(ctx, func(at site) error { return c.road(ctx, at, r) }); err != nil {
		return nil, fmt.Errorf("whole road: %w", err)
	}
	if r.RawPerSecond > 0 {
		r.Ratio = round(r.PlacementsPerSecond/r.RawPerSecond, 3)
	}
	return r, nil
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// until waits for a condition that comes about soon.
func until(ctx context.Context, most time.Duration, what string, holds func() bool) error {
	for begin := time.Now(); !holds(); {
		if time.Since(begin) > most {
			return fmt.Errorf("after %v: %s", most, what)
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
