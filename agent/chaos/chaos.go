// Package chaos is `make chaos`: a cell of real processes, in which agents and the containerd
// below them are killed with SIGKILL again and again while hundreds of tasks come and go, and
// a judgement of what became of the tasks.
//
// One server with an etcd of its own and two schedulers are left in peace; around them are
// nodes of the native driver, and nodes of the containerd driver that share one containerd.
// Each task is a script that writes down when it begins and holds the lock of its slot for
// as long as any process of it lives, so that a second one beside it cannot go unseen. What a
// script does is known beforehand, so any end of an attempt that it does not explain was
// needless. The judgement:
//
//	rest      once nobody is killed any more, what runs is what is wanted
//	doubles   no attempt began twice, and no slot had two process trees at any moment
//	needless  every attempt that has ended, by the store, did so as its script or the user wanted
//	leaks     when the jobs are stopped nothing is left on the machine: no process, cgroup, mount,
//	          network namespace, shim, container, snapshot, folder
package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
)

// Config of a run.
type Config struct {
	Program  string        // that Agent is the verb "agent" of, and that runs the native driver's hidden verbs
	Ohm      string        // the program ohm, with ohm-init beside it
	Dir      string        // empty folder with a short path, for all files
	Duration time.Duration // for which processes are killed
	Seed     uint64        // of what is killed when, and of the tasks
	Out      io.Writer     // what happens, in a line each
}

// A run of the usual length has so many tasks and kills; a longer one has more in proportion.
const (
	usual      = 80 * time.Second
	usualTasks = 200
	usualKills = 50
)

func (c Config) scaled(n int) int { return max(1, int(float64(n)*float64(c.Duration)/float64(usual))) }

// How long a cell may take, on a machine that is out of breath, until all is as it should be.
const (
	restWithin  = 3 * time.Minute
	emptyWithin = 90 * time.Second
)

// run is a run under way.
type run struct {
	Config
	world *world
	jobs  []*job
	notes string // folder in which tasks write, with the same name in their containers
}

// Run makes a cell, breaks it, and judges. An error says that there was nothing to judge.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &run{Config: c, notes: filepath.Join(c.Dir, "notes")}
	began := time.Now()
	report := &Report{Seed: c.Seed}
	if err := os.MkdirAll(filepath.Join(r.notes, "locks"), 0o777); err != nil {
		return nil, err
	}
	if err := copyProgram(c.Program, filepath.Join(r.notes, holdVerb)); err != nil {
		return nil, err
	}
	image, _, err := drivertest.WriteImage(c.Dir, drivertest.Image{})
	if err != nil {
		return nil, err
	}
	world, err := newWorld(ctx, c, "tar:"+image, r.notes)
	if err != nil {
		return nil, err
	}
	r.world = world
	defer func() {
		left := r.world.end()
		report.Leaks = append(report.Leaks, left...)
		report.Took = time.Since(began)
	}()
	r.jobs = plan(newRand(c.Seed), c.scaled(usualTasks))
	for _, j := range r.jobs {
		report.Tasks += j.count
	}
	if err := r.disturb(ctx, report); err != nil {
		return nil, err
	}
	if err := r.judge(ctx, report); err != nil {
		return nil, err
	}
	return report, ctx.Err() // the last look comes with the end of the world
}

// copyProgram puts a program where tasks can execute it, too.
func copyProgram(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// say tells what happens.
func (r *run) say(format string, args ...any) { fmt.Fprintf(r.Out, format+"\n", args...) }

// until waits until ok holds; it fails with what ok said last.
func until(ctx context.Context, limit time.Duration, ok func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := ok()
		if err == nil {
			return nil
		}
		if driver.Pause(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("not within %v: %w", limit, err)
		}
	}
}
