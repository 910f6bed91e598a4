package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// proxy stands between a store and etcd, and can cut all connections or lead elsewhere.
type proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	target string // a store's endpoint; empty: nobody answers
	open   map[net.Conn]bool
	dials  int
}

func newProxy(t *testing.T, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, open: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.lead("")
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		address, _ := interpret(p.target)
		p.dials++
		p.mu.Unlock()
		out, err := dialAddress(context.Background(), address)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.open[in], p.open[out] = true, true
		p.mu.Unlock()
		pipe := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			to.Close()
			from.Close()
		}
		p.wg.Go(func() { pipe(out, in) })
		p.wg.Go(func() { pipe(in, out) })
	}
}

// lead cuts all connections; the next ones lead to target.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for c := range p.open {
		c.Close()
	}
	clear(p.open)
}

func (p *proxy) cut() {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	p.lead(target)
}

func numbered(i int) cellstate.Record {
	return cellstate.Record{Key: cellstate.MetaKey(fmt.Sprintf("n/%05d", i)), Value: &ohmv1.Meta{Value: fmt.Sprint(i)}}
}

// TestChangesOutliveTheirConnection writes while the connections are cut again and again;
// what the watch yields must be what was written, in order, each once.
func TestChangesOutliveTheirConnection(t *testing.T) {
	direct := open(t, Config{})
	p := newProxy(t, endpoint(t))
	follower, err := Open(t.Context(), Config{Endpoints: []string{p.listener.Addr().String()}, Cell: direct.cfg.Cell, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	start, err := direct.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const writes, cuts = 600, 6
	var last cellstate.Revision // at which the last write was applied
	written, wrote := make([]cellstate.Revision, writes), make(chan struct{})
	cutting := make(chan struct{}, cuts)
	go func() {
		defer close(wrote)
		for i := range writes {
			out, err := direct.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{numbered(i)}})
			if err != nil || out.Applied[0] == 0 {
				t.Errorf("write %d: %+v, %v", i, out, err)
				return
			}
			written[i] = out.Applied[0]
			if i%(writes/cuts) == writes/cuts/2 {
				p.cut()
				cutting <- struct{}{}
			}
		}
		last = written[writes-1]
	}()
	defer func() { <-wrote }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, reached := 0, start.Revision()
	for batch, err := range follower.Changes(ctx, start.Revision()) {
		if err != nil {
			t.Fatal(err)
		}
		if batch.Revision < reached {
			t.Fatalf("revision %d after %d", batch.Revision, reached)
		}
		reached = batch.Revision
		for _, c := range batch.Changes {
			if want := numbered(seen); c.Key != want.Key || c.Value.(*ohmv1.Meta).GetValue() != want.Value.(*ohmv1.Meta).GetValue() {
				t.Fatalf("change %d is %s at %d", seen, c.Key, c.Revision)
			}
			seen++
		}
		if seen == writes {
			break
		}
	}
	<-wrote
	if seen != writes || reached < last || len(cutting) != cuts {
		t.Errorf("%d changes up to revision %d with %d cuts; want %d up to %d", seen, reached, len(cutting), writes, last)
	}
	for i := 1; i < writes; i++ {
		if written[i] <= written[i-1] {
			t.Errorf("write %d at %d, the one before at %d", i, written[i], written[i-1])
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dials < cuts {
		t.Errorf("%d connections for %d cuts", p.dials, cuts)
	}
}

// TestCommitsOutliveTheirConnection commits while the connections are cut again and again.
// What a commit says must be what is stored: a lost reply never makes it lie.
func TestCommitsOutliveTheirConnection(t *testing.T) {
	direct := open(t, Config{})
	p := newProxy(t, endpoint(t))
	s, err := Open(t.Context(), Config{Endpoints: []string{p.listener.Addr().String()}, Cell: direct.cfg.Cell})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.Tick(30 * time.Millisecond); ; {
			select {
			case <-tick:
				p.cut()
			case <-stop:
				return
			}
		}
	}()
	said := map[cellstate.Key]cellstate.Revision{}
	unknown := map[cellstate.Key]bool{}
	applied := 0
	for i := 0; i < 3000 && applied < 150; i++ {
		r := numbered(i)
		out, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{r}})
		switch {
		case err == nil:
			said[r.Key] = out.Applied[0]
			applied++
		case errors.Is(err, cellstate.ErrUnknown):
			unknown[r.Key] = true
		default:
			said[r.Key] = 0
		}
	}
	close(stop)
	<-stopped
	stored, err := direct.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for k, at := range said {
		if _, rev := stored.Meta(string(k[len("meta/"):])); rev != at {
			t.Errorf("%s stands at %d, the commit said %d", k, rev, at)
		}
	}
	if applied < 150 {
		t.Errorf("only %d commits got through (%d unknown)", applied, len(unknown))
	}
}

// TestAnotherStoreAtTheSameAddress leads a watch, and a commit, to another etcd, of the
// same cluster id and a lower revision, as one that was restored in place.
func TestAnotherStoreAtTheSameAddress(t *testing.T) {
	direct := open(t, Config{})
	p := newProxy(t, endpoint(t))
	s, err := Open(t.Context(), Config{Endpoints: []string{p.listener.Addr().String()}, Cell: direct.cfg.Cell})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := embedded.Start(t.Context(), t.TempDir(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	restored, err := Open(t.Context(), Config{Endpoints: []string{other.Endpoint()}, Cell: direct.cfg.Cell})
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ended error
	led := false
	if _, err := s.Commit(ctx, cellstate.Write{Records: []cellstate.Record{numbered(0)}}); err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Changes(ctx, start.Revision()) {
		ended = err
		if !led {
			led = true
			p.lead(other.Endpoint())
		}
	}
	if !errors.Is(ended, cellstate.ErrIncarnation) {
		t.Errorf("the watch ended with %v", ended)
	}
	if _, err := s.Commit(ctx, cellstate.Write{Records: []cellstate.Record{numbered(1)}}); !errors.Is(err, cellstate.ErrIncarnation) {
		t.Errorf("the commit ended with %v", err)
	}
	if _, err := s.Load(ctx); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Commit(ctx, cellstate.Write{Records: []cellstate.Record{numbered(1)}}); err != nil || out.Applied[0] == 0 {
		t.Errorf("after a load the commit ended with %+v, %v", out, err)
	}
}

func TestAStoreThatIsAway(t *testing.T) {
	p := newProxy(t, endpoint(t))
	s, err := Open(t.Context(), Config{Endpoints: []string{p.listener.Addr().String()}, Cell: "away", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p.lead("")
	p.listener.Close()
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err = s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{numbered(0)}})
		if errors.Is(err, cellstate.ErrUnreachable) && !errors.Is(err, cellstate.ErrUnknown) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a commit that was never sent: %v", err)
		}
	}
}

func TestInterpret(t *testing.T) {
	for endpoint, want := range map[string][2]string{
		"unix:///d/etcd.sock":      {"unix:/d/etcd.sock", "etcd.sock"},
		"unix:d/etcd.sock":         {"unix:d/etcd.sock", "etcd.sock"},
		"10.0.0.1:2379":            {"10.0.0.1:2379", "10.0.0.1:2379"},
		"[::1]:2379":               {"[::1]:2379", "[::1]:2379"},
		"http://a.example:2379":    {"a.example:2379", "a.example:2379"},
		"https://a.example:2379/x": {"a.example:2379", "a.example:2379"},
	} {
		if address, name := interpret(endpoint); address != want[0] || name != want[1] {
			t.Errorf("%s: %s, %s", endpoint, address, name)
		}
	}
}
