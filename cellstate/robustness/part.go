package robustness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/keeper"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/cellstate/robustness/history"
	"github.com/ohmcell/ohm/cellstate/server"
	"github.com/ohmcell/ohm/pkg/lifecycle"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/service"
)

// Part is a scheduler or a server as a process: the product's own parts, put together as
// cmd/ohm does it, over a store that writes down what it was asked.
type Part struct {
	Name      string   // the client's in the history; a successor has another one
	Instance  string   // stays the same over restarts
	Endpoints []string // of the etcd, or of the relay before it
	Limits    Limits
	History   string // file
	Policy    string // of a scheduler
	Address   string // of a server
	Log       *zap.Logger
}

// Times that are shorter than the product's own: a run is short.
const (
	leaseTime  = 4 * time.Second
	lostAfter  = 15 * time.Second
	keepDone   = 15 * time.Second
	keepSweep  = 5 * time.Second
	storeTime  = 5 * time.Second
	checkEvery = 2 * time.Second
	stateLimit = 20 * time.Second
	slowTime   = 800 * time.Millisecond // of a decision of the slow scheduler
)

// Run works until ctx ends or in does; a line "state <revision> <file>" there has the
// part write what its mirror shows, at that revision at least, into the file, and say "state"
// and the revision.
func (p Part) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	file, err := os.OpenFile(p.History, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	raw, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	store := recorded{raw, history.NewRecorder(raw, p.Name, file)}
	m := mirror.New(store, p.Log.Named("mirror"), mirror.CheckEvery(checkEvery))
	parts := []lifecycle.Part{{Name: "mirror", Run: m.Run}}
	if p.Policy != "" {
		parts = append(parts, p.scheduler(store, m))
	} else {
		more, err := p.server(store, m)
		if err != nil {
			return err
		}
		parts = append(parts, more...)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: nothing else can end a read of stdin
		defer cancel()
		answer(ctx, m, in, out)
	}()
	fmt.Fprintln(out, "ready")
	return lifecycle.Run(ctx, parts...)
}

// recorded is a store whose commits and loads are written down.
type recorded struct {
	*etcdstore.Store
	history *history.Recorder
}

func (r recorded) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	return r.history.Commit(ctx, writes...)
}

func (r recorded) Load(ctx context.Context) (*cellstate.Snapshot, error) { return r.history.Load(ctx) }

func (p Part) open(ctx context.Context) (*etcdstore.Store, error) {
	for {
		s, err := etcdstore.Open(ctx, etcdstore.Config{Endpoints: p.Endpoints, Sender: p.Instance, Timeout: storeTime,
			MaxTxnOps: p.Limits.TxnOps, MaxRequestBytes: p.Limits.RequestBytes, Log: p.Log})
		if err == nil || ctx.Err() != nil || !errors.Is(err, cellstate.ErrUnreachable) {
			return s, err
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// The run's own schedulers: one whose jobs press others out, and one that is slow.
const (
	pressName = "press"
	slowName  = "slow"
)

func (p Part) scheduler(store recorded, m *mirror.Mirror) lifecycle.Part {
	policies := map[string]schedulers.Scheduler{"batch": batch.New(), "service": service.New(), "ml": ml.New(), pressName: Press{}, slowName: NewSlow(slowTime)}
	holdAfter := schedulers.DefaultHoldAfter
	if p.Policy == slowName {
		holdAfter = slowHoldAfter
	}
	r := schedulers.New(schedulers.Config{
		Cell: tallied{m, store.history}, Store: store, Scheduler: policies[p.Policy], Name: p.Policy, Instance: p.Instance, Log: p.Log,
		Times: schedulers.Times{Lease: leaseTime, Sweep: 2 * time.Second}, HoldAfter: holdAfter,
	})
	return lifecycle.Part{Name: "runner", Run: r.Run}
}

// tallied notes the conflicts of what is committed.
type tallied struct {
	*mirror.Mirror
	history *history.Recorder
}

func (t tallied) Commit(ctx context.Context, txns ...*cellstate.Txn) ([]cellstate.Result, error) {
	results, err := t.Mirror.Commit(ctx, txns...)
	n := 0
	for _, r := range results {
		n += len(r.Conflicts)
	}
	t.history.Note(n)
	return results, err
}

func (p Part) server(store recorded, m *mirror.Mirror) ([]lifecycle.Part, error) {
	l, err := net.Listen("tcp", p.Address)
	if err != nil {
		return nil, err
	}
	srv := server.New(server.Config{Store: store, Mirror: m, Cell: "default", Name: p.Instance, Log: p.Log,
		Etcd: server.Etcd{Endpoints: p.Endpoints}, Limits: server.Limits{Lease: leaseTime}})
	keep := keeper.New(keeper.Config{Store: store, Mirror: m, Server: p.Instance, Log: p.Log,
		Limits: keeper.Limits{Lease: leaseTime, LostAfter: lostAfter, Grace: lostAfter, DoneAfter: keepDone, Sweep: keepSweep}})
	g := grpc.NewServer(srv.Options()...)
	srv.Register(g)
	return []lifecycle.Part{
		{Name: "keeper", Run: keep.Run},
		{Name: "agents' gateway", Run: srv.Run},
		{Name: "listener", Run: func(ctx context.Context) error {
			if _, err := m.WaitSnapshot(ctx, 1); err != nil {
				l.Close()
				return nil
			}
			defer context.AfterFunc(ctx, g.Stop)()
			return g.Serve(l)
		}},
	}, nil
}

// answer answers the questions on in until it ends.
func answer(ctx context.Context, m *mirror.Mirror, in io.Reader, out io.Writer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var at cellstate.Revision
		var file string
		if _, err := fmt.Sscanf(lines.Text(), "state %d %s", &at, &file); err != nil {
			fmt.Fprintln(out, "state 0")
			continue
		}
		fmt.Fprintln(out, "state", state(ctx, m, at, file))
	}
}

func state(ctx context.Context, m *mirror.Mirror, at cellstate.Revision, file string) cellstate.Revision {
	ctx, cancel := context.WithTimeout(ctx, stateLimit)
	defer cancel()
	s, err := m.WaitSnapshot(ctx, at)
	if err != nil || os.WriteFile(file, []byte(Show(s)), 0o600) != nil {
		return 0
	}
	return s.Revision()
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
