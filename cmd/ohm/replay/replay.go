// Package replay runs a recorded workload through a whole cell: hollow nodes as in the
// record, the record's tasks as jobs, and scheduler processes that really compete over
// one etcd. What it reports is counted from the store.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/cmd/ohm/openb"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Config of a replay.
type Config struct {
	Nodes, Tasks string  // files in the form of openb
	Shuffle      uint64  // seed of the order of the tasks; 0: as in the file
	Inflate      float64 // how many times all tasks; see openb.Shuffle
	Schedulers   int     // processes
	Program      string  // the ohm binary
	Notice       func(string)
	Progress     func(settled, all int)
	Log          io.Writer // what the processes log
}

// ahead bounds how many tasks one scheduler's queue may be ahead of another's, and underway
// how many wait in all: the more are decided at a time, the older are the views that they
// are decided on.
const ahead, underway = 20, 24

// perRequest is how many jobs one submission holds at most.
const perRequest = 100

// Run replays the record and counts what came of it.
func Run(ctx context.Context, c Config) (*Report, error) {
	nodes, err := openb.ReadNodes(c.Nodes)
	if err != nil {
		return nil, err
	}
	record, err := openb.ReadTasks(c.Tasks)
	if err != nil {
		return nil, err
	}
	for _, n := range record.Notices {
		c.Notice(n)
	}
	if c.Shuffle > 0 || c.Inflate != 1 {
		record.Tasks = openb.Shuffle(record.Tasks, c.Shuffle, c.Inflate)
	}
	var jobs []*ohmv1.JobSpec
	for _, t := range record.Tasks {
		jobs = append(jobs, t.Job)
	}
	dir, err := os.MkdirTemp("", "ohm-replay-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	nodesFile, err := filepath.Abs(c.Nodes)
	if err != nil {
		return nil, err
	}
	cell, err := startCell(c.Program, dir, nodesFile, c.Schedulers, c.Log)
	if err != nil {
		return nil, err
	}
	defer cell.End()
	conn, err := grpc.NewClient(cell.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	store, err := etcdstore.Discover(ctx, conn, etcdstore.Config{Sender: "replay"})
	if err != nil {
		return nil, err
	}
	defer store.Close()

	p := &player{Config: c, cell: cell, jobs: jobs, client: ohmv1.NewJobsClient(conn), mirror: mirror.New(store, zap.NewNop())}
	var report *Report
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	group.Go(func() error { return p.mirror.Run(ctx) })
	group.Go(func() error {
		defer stop()
		took, err := p.play(ctx, len(nodes))
		if err != nil {
			return err
		}
		final, err := store.Load(ctx)
		if err != nil {
			return err
		}
		audit, err := ohmv1.NewInsightClient(conn).Audit(ctx, &ohmv1.AuditRequest{}, grpc.MaxCallRecvMsgSize(1<<30))
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		report = count(final, jobs, took, c.Schedulers, len(audit.Violations))
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return report, nil
}

// player submits the jobs and follows what becomes of them.
type player struct {
	Config
	cell   *cell
	jobs   []*ohmv1.JobSpec
	client ohmv1.JobsClient
	mirror *mirror.Mirror

	next    int              // the first job that has not been submitted
	waiting map[int]struct{} // submitted, not placed, not refused
	refused map[int]struct{} // refused when last looked at
}

// play submits everything in file order and waits until every task is placed, or refused
// on a snapshot at least as new as the last change that could have made room for it.
func (p *player) play(ctx context.Context, nodes int) (time.Duration, error) {
	p.waiting, p.refused = map[int]struct{}{}, map[int]struct{}{}
	if err := p.until(ctx, func(s *cellstate.Snapshot) bool { return ready(s, nodes, p.Schedulers) }); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := p.until(ctx, func(s *cellstate.Snapshot) bool {
		p.settle(s)
		if p.Progress != nil {
			p.Progress(p.next-len(p.waiting), len(p.jobs))
		}
		return p.next == len(p.jobs) && len(p.waiting) == 0
	})
	return time.Since(begin), err
}

// until looks at each newer snapshot, at most every few milliseconds, submitting what
// the pace allows in between, until done holds.
func (p *player) until(ctx context.Context, done func(*cellstate.Snapshot) bool) error {
	for {
		s, newer := p.mirror.Watch()
		if s != nil && done(s) {
			return nil
		}
		if s != nil && p.waiting != nil {
			if err := p.submit(ctx); err != nil {
				return err
			}
		}
		timer := time.NewTimer(5 * time.Second)
		select {
		case <-newer:
		case <-timer.C:
			if err := p.cell.Alive(); err != nil {
				return err
			}
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
		select { // many revisions come together; one look serves them all
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ready says whether all nodes and schedulers are there.
func ready(s *cellstate.Snapshot, nodes, schedulers int) bool {
	alive, instances := 0, 0
	for n := range s.Nodes() {
		if n.Facts != nil && n.Alive != nil {
			alive++
		}
	}
	for sched := range s.Schedulers() {
		instances += len(sched.Instances)
	}
	return alive == nodes && instances >= max(3, schedulers)
}

// settle takes the jobs that are placed or refused out of the queue. What was refused
// waits again as soon as something happened that could have made room.
func (p *player) settle(s *cellstate.Snapshot) {
	look := func(i int) {
		delete(p.waiting, i)
		delete(p.refused, i)
		switch fate(s, p.jobs[i]) {
		case waits:
			p.waiting[i] = struct{}{}
		case refused:
			p.refused[i] = struct{}{}
		}
	}
	for i := range p.waiting {
		look(i)
	}
	for i := range p.refused {
		look(i)
	}
}

const (
	waits = iota
	placed
	refused
)

func fate(s *cellstate.Snapshot, spec *ohmv1.JobSpec) int {
	job := s.Job(cellstate.JobNameOf(spec))
	switch {
	case job == nil:
		return waits
	case len(job.Tasks) > 0 && job.Tasks[0].Placement != nil:
		return placed
	case job.Waiting != nil && cellstate.Revision(job.Waiting.GetSnapshotRevision()) >= s.RoomRevision():
		return refused
	}
	return waits
}

// submit sends the next jobs, in file order, as far as no scheduler's queue gets too far
// ahead of another's.
func (p *player) submit(ctx context.Context) error {
	queues := map[string]int{"service": 0, "batch": 0, "ml": 0}
	for i := range p.waiting {
		queues[p.jobs[i].GetScheduler()]++
	}
	var batch []*ohmv1.JobSpec
	from := p.next
	for p.next < len(p.jobs) && len(batch) < perRequest && len(p.waiting)+len(batch) < underway {
		j := p.jobs[p.next]
		least := min(queues["service"], queues["batch"], queues["ml"])
		if queues[j.GetScheduler()]-least >= ahead {
			break
		}
		queues[j.GetScheduler()]++
		batch = append(batch, j)
		p.next++
	}
	if len(batch) == 0 {
		return nil
	}
	if _, err := p.client.Submit(ctx, &ohmv1.SubmitRequest{Jobs: batch, RequestId: ulid.Make().String()}); err != nil {
		return errors.Join(fmt.Errorf("submitting %s and %d after it: %w", batch[0].GetName(), len(batch)-1, err), p.cell.Alive())
	}
	for i := from; i < p.next; i++ {
		p.waiting[i] = struct{}{}
	}
	return nil
}
