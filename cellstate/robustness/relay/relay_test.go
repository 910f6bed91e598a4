package relay_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/robustness/relay"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// shared is the etcd of these tests, each of which has a cell of its own.
var shared struct {
	sync.Once
	etcd *embed.Etcd
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		code := m.Run()
		if shared.etcd != nil {
			shared.etcd.Close()
		}
		os.RemoveAll(shared.dir)
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

func endpoint(t *testing.T) string {
	t.Helper()
	shared.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "ohm"); shared.err != nil {
			return
		}
		cfg := embed.NewConfig()
		any, peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}, url.URL{Scheme: "http", Host: "localhost:2380"}
		cfg.Dir, cfg.LogLevel = shared.dir, "fatal"
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{any}, []url.URL{any}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{peer}
		cfg.InitialCluster = cfg.Name + "=" + peer.String()
		if shared.etcd, shared.err = embed.StartEtcd(cfg); shared.err == nil {
			<-shared.etcd.Server.ReadyNotify()
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.etcd.Clients[0].Addr().String()
}

// pair is a relay, a store behind it, and one that is not.
func pair(t *testing.T) (*relay.Relay, *etcdstore.Store, *etcdstore.Store) {
	t.Helper()
	r, err := relay.New([]string{endpoint(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, open(t, r.Endpoints()), open(t, []string{endpoint(t)})
}

func open(t *testing.T, endpoints []string) *etcdstore.Store {
	t.Helper()
	var s *etcdstore.Store
	within(t, "a store opens", func() (err error) {
		s, err = etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: endpoints, Cell: t.Name(), Timeout: 2 * time.Second, MaxTxnOps: 128, MaxRequestBytes: 1 << 20})
		return err
	})
	t.Cleanup(func() { s.Close() })
	return s
}

func within(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s: %v", what, err)
		}
	}
}

// placement is the write of one placement, which is what the deeds are for.
func placement(i int) cellstate.Write {
	s := cellstate.Slot{Namespace: "default", Job: "a", Group: "main", Index: i, Version: 1}
	return cellstate.Write{Records: []cellstate.Record{{Key: s.PlacementKey(), Value: &ohmv1.Placement{Slot: s.Proto(), Txn: fmt.Sprint(i), Node: "n1"}}}}
}

// watched are the keys that a store's watch yields, until f says that they are enough.
type watched struct {
	mu   sync.Mutex
	keys []cellstate.Key
	err  error
	done chan struct{}
}

func watch(t *testing.T, s *etcdstore.Store) *watched {
	t.Helper()
	from, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(w.done)
		for b, err := range s.Changes(ctx, from.Revision()) {
			w.mu.Lock()
			w.err = err
			for _, c := range b.Changes {
				w.keys = append(w.keys, c.Key)
			}
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-w.done })
	return w
}

func (w *watched) sees(t *testing.T, slots ...int) {
	t.Helper()
	var want []cellstate.Key
	for _, i := range slots {
		want = append(want, placement(i).Records[0].Key)
	}
	within(t, fmt.Sprint("the watch shows ", want), func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Equal(w.keys, want) {
			return fmt.Errorf("it shows %v", w.keys)
		}
		return nil
	})
}

func commit(t *testing.T, s *etcdstore.Store, i int) {
	t.Helper()
	out, err := s.Commit(t.Context(), placement(i))
	if err != nil || out.Applied[0] == 0 {
		t.Fatalf("commit %d: %+v, %v", i, out, err)
	}
}

func done(t *testing.T, a *relay.Asked) {
	t.Helper()
	select {
	case <-a.Done:
	case <-time.After(20 * time.Second):
		t.Fatal("it was not done")
	}
}

// A commit whose reply is lost is known to be applied all the same: the lane says so.
func TestLostReplies(t *testing.T) {
	for name, deed := range map[string]relay.Deed{"broken": relay.LoseReply, "never": relay.SwallowReply} {
		t.Run(name, func(t *testing.T) {
			r, s, direct := pair(t)
			a := r.Ask(deed)
			commit(t, s, 1)
			done(t, a)
			if n := r.Counts(); n.Lost != 1 || n.Resolved != 1 {
				t.Errorf("counts %+v", n)
			}
			if stored, err := direct.Load(t.Context()); err != nil || len(stored.Node("n1").Placements()) != 1 {
				t.Errorf("stored: %v, %v", stored.Node("n1"), err)
			}
		})
	}
}

// A commit that is held is nowhere until it is released, and its sender's later fate does not
// matter to it.
func TestHold(t *testing.T) {
	for name, forward := range map[string]bool{"forwarded": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			r, s, direct := pair(t)
			a := r.Ask(relay.Hold)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := s.Commit(ctx, placement(1))
				ended <- err
			}()
			done(t, a)
			if stored, err := direct.Load(t.Context()); err != nil || stored.Node("n1") != nil {
				t.Errorf("stored while it is held: %v, %v", stored.Node("n1"), err)
			}
			s.Close() // its sender is gone, and cannot settle the lane any more
			cancel()
			<-ended
			a.Release(forward)
			commit(t, direct, 2)
			want := 1
			if forward {
				want = 2
			}
			within(t, "what was released arrives", func() error {
				stored, err := direct.Load(t.Context())
				if err == nil && len(stored.Node("n1").Placements()) != want {
					err = fmt.Errorf("%d placements, want %d", len(stored.Node("n1").Placements()), want)
				}
				return err
			})
		})
	}
}

func TestWithdrawn(t *testing.T) {
	r, s, _ := pair(t)
	a := r.Ask(relay.LoseReply)
	a.Withdraw()
	commit(t, s, 1)
	select {
	case <-a.Done:
		t.Error("it was done")
	default:
	}
	if n := r.Counts(); n.Lost != 0 || n.Txns == 0 {
		t.Errorf("counts %+v", n)
	}
}

func TestChangesDroppedAndRepeated(t *testing.T) {
	r, s, direct := pair(t)
	w := watch(t, s)
	commit(t, direct, 1)
	w.sees(t, 1)
	a := r.Ask(relay.DropChanges)
	commit(t, direct, 2)
	done(t, a)
	commit(t, direct, 3)
	w.sees(t, 1, 3)
	a = r.Ask(relay.RepeatChanges)
	commit(t, direct, 4)
	done(t, a)
	commit(t, direct, 5)
	w.sees(t, 1, 3, 4, 4, 5)
}

func TestCutWatchesGoOn(t *testing.T) {
	r, s, direct := pair(t)
	w := watch(t, s)
	commit(t, direct, 1)
	w.sees(t, 1)
	r.CutWatches()
	commit(t, direct, 2)
	w.sees(t, 1, 2)
}

func TestFrozenUntilCompacted(t *testing.T) {
	r, s, direct := pair(t)
	w := watch(t, s)
	commit(t, direct, 1)
	w.sees(t, 1)
	r.Freeze()
	for i := 2; i < 6; i++ {
		commit(t, direct, i)
	}
	now, err := direct.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := direct.Compact(t.Context(), now.Revision()); err != nil {
		t.Fatal(err)
	}
	r.CutWatches()
	r.Thaw()
	<-w.done
	if !errors.Is(w.err, cellstate.ErrCompacted) || r.Counts().Compacted != 1 {
		t.Errorf("the watch ended with %v, counts %+v", w.err, r.Counts())
	}
}

// A relay that is shut is an etcd that is away.
func TestShut(t *testing.T) {
	r, s, _ := pair(t)
	commit(t, s, 1)
	r.Shut()
	if out, err := s.Commit(t.Context(), placement(2)); err == nil {
		t.Errorf("a commit through a relay that is shut: %+v", out)
	}
	r.Admit()
	within(t, "commits go on", func() error {
		out, err := s.Commit(t.Context(), placement(3))
		if err == nil && out.Applied[0] == 0 {
			err = errors.New("it was refused")
		}
		return err
	})
}

// A member that is away closes its door: who is behind it must go to another one.
func TestMemberAway(t *testing.T) {
	r, err := relay.New([]string{"127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := clientv3.New(clientv3.Config{Endpoints: r.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an answer of nobody: %v", err)
	}
}
