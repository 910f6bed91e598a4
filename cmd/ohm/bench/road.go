package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
)

// etcdName names etcd's process in reports.
const etcdName = "etcd"

// road is one measurement of the whole road.
type road struct {
	Config
	at        site
	store     *etcdstore.Store
	world     *world
	mirror    *mirror.Mirror
	processes []used
	conn      *grpc.ClientConn // to the server; nil: there is none

	trickle  *trickle  // nil: none
	submit   *submit   // nil: none
	sessions *sessions // nil: none
}

// road measures the whole road in a fresh cell.
func (c Config) road(ctx context.Context, at site, r *Report) error {
	store, err := at.open(ctx, "bench")
	if err != nil {
		return err
	}
	defer store.Close()
	w := newWorld(c.TasksPerJob)
	t := &road{Config: c, at: at, store: store, world: w, mirror: mirror.New(tapped{store, w.see}, zap.NewNop())}
	if at.etcd != nil {
		t.use(etcdName, at.etcd.Pid())
	}
	t.use("bench", 0)
	if !c.Life {
		if err := c.nodes(ctx, store, c.Sessions); err != nil {
			return err
		}
	}
	if err := c.preload(ctx, store, w); err != nil {
		return fmt.Errorf("preload: %w", err)
	}
	if c.Trickle > 0 {
		t.trickle = newTrickle(w)
	}
	if c.Sessions > 0 {
		t.sessions = newSessions(c.Sessions, w)
	}
	var all []scheduler
	inner, stop := context.WithCancel(ctx)
	defer stop()
	g, inner := errgroup.WithContext(inner)
	g.Go(func() error { return t.mirror.Run(inner) })
	g.Go(func() (err error) {
		defer stop()
		if err := t.control(inner, g, r); err != nil {
			return err
		}
		if all, err = t.load(inner, g); err != nil {
			return err
		}
		if err := t.warm(inner, all); err != nil {
			return err
		}
		t.measure(inner, r)
		return nil
	})
	err = g.Wait()
	if t.conn != nil {
		err = errors.Join(err, t.conn.Close())
	}
	if err != nil {
		return err
	}
	return ask(all, w, r)
}

func (t *road) use(name string, pid int) { t.processes = append(t.processes, used{name, pid}) }

// control starts a server and what speaks to it, where the row needs them, and waits until
// every node is there.
func (t *road) control(ctx context.Context, g *errgroup.Group, r *Report) error {
	if t.Life || t.Sessions > 0 || t.Submit > 0 {
		conn, err := t.server(ctx, g)
		if err != nil {
			return err
		}
		if t.Submit > 0 {
			t.submit = newSubmit(conn)
		}
	}
	if err := until(ctx, time.Minute, "not every node is alive", func() bool { return alive(t.mirror.Snapshot()) >= t.Nodes }); err != nil {
		return err
	}
	if t.Heartbeats {
		return t.heartbeatsAlone(ctx, r)
	}
	return nil
}

// server starts a server process, and the simulated nodes or the sessions.
func (t *road) server(ctx context.Context, g *errgroup.Group) (*grpc.ClientConn, error) {
	args := append([]string{"server", "--log-level", "error", "--address", "127.0.0.1:0", "--name", "bench",
		"--cpu-profile", t.profile("server"), "--keep-done-jobs", fmt.Sprint(keptJobs)}, t.at.flags()...)
	server, err := t.at.set.Start("server", args...)
	if err != nil {
		return nil, err
	}
	t.use("server", server.Pid())
	address, err := server.Word("ready")
	if err != nil {
		return nil, err
	}
	if t.Life {
		fleet, err := t.at.set.Start("hollow nodes", "agent", "--log-level", "error", "--hollow-nodes", fmt.Sprint(t.Nodes), "--address", address,
			"--cpu-profile", t.profile("agents"))
		if err != nil {
			return nil, err
		}
		t.use("hollow nodes", fleet.Pid())
	}
	if t.sessions != nil {
		g.Go(func() error { return t.sessions.run(ctx, address) })
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	t.conn = conn
	return conn, nil
}

// keptJobs is how many jobs that are done the server keeps: few, so that the cell of a long
// run stays as big as it is.
const keptJobs = 1000

// alive is how many nodes have a session.
func alive(s *cellstate.Snapshot) int {
	n := 0
	if s == nil {
		return 0
	}
	for row := range s.Nodes() {
		if row.Facts != nil && row.Alive != nil {
			n++
		}
	}
	return n
}

// load starts what gives the cell work, and the schedulers, which find it waiting.
func (t *road) load(ctx context.Context, g *errgroup.Group) ([]scheduler, error) {
	if t.submit != nil {
		for range submitters {
			g.Go(func() error {
				if err := t.registered(ctx); err != nil {
					return err
				}
				return t.feed(ctx, t.world, t.Submit, t.submit.jobs)
			})
		}
	} else {
		g.Go(func() error { return t.feed(ctx, t.world, mostStored, putAll(t.store)) })
	}
	if t.target() > 0 && !t.Life {
		g.Go(func() error { return t.release(ctx, t.store, t.world) })
	}
	if t.CompactEvery > 0 {
		g.Go(func() error { return t.compact(ctx) })
	}
	all, err := t.startSchedulers(t.at)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		t.use(s.name, s.process.Pid())
	}
	if t.trickle != nil {
		args := append([]string{"scheduler", "--policy", "service", "--instance", "bench-service", "--log-level", "error"}, t.at.flags()...)
		service, err := t.at.set.Start("service scheduler", args...)
		if err != nil {
			return nil, err
		}
		t.use("service scheduler", service.Pid())
		g.Go(func() error { return t.trickle.run(ctx, t.store, t.Trickle) })
	}
	return all, nil
}

// registered waits until jobs can name the scheduler.
func (t *road) registered(ctx context.Context) error {
	return until(ctx, time.Minute, "no scheduler has registered", func() bool {
		s := t.mirror.Snapshot()
		return s != nil && s.Scheduler(schedulerName) != nil
	})
}

// compact forgets the store's past now and then, as the keeper of a cell does.
func (t *road) compact(ctx context.Context) error {
	for sleep(ctx, t.CompactEvery) == nil {
		_, _, _, at := t.world.state()
		if err := t.store.Compact(ctx, at); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// warm waits until every scheduler has placed something and the cell is as full as it is to
// be, or lives have begun to end, and then the warm-up time.
func (t *road) warm(ctx context.Context, all []scheduler) error {
	began := func() bool {
		live, _, ended, _ := t.world.state()
		for _, s := range all {
			if t.world.firstOf(s.instance).IsZero() {
				return false
			}
		}
		return t.Life && ended > 0 || !t.Life && live >= t.target()*98/100
	}
	if err := until(ctx, 2*time.Minute, "the cell is not as full as it is to be", began); err != nil {
		live, placed, ended, _ := t.world.state()
		return fmt.Errorf("%w: of %d tasks %d are live, %d were placed, %d have ended", err, t.target(), live, placed, ended)
	}
	return sleep(ctx, t.Warmup)
}
