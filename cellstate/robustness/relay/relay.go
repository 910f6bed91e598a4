// Package relay stands between one process of a cell and the members of its etcd, and does
// to their conversation what networks and unlucky moments do: it keeps a commit back while
// its sender is killed or stopped, loses the reply to one that was applied, drops, repeats
// or cuts the changes of a watch, or lets nobody through.
//
// It passes messages as they are and knows of them only whether a transaction claims
// placements and whether a watch's response has changes. The process that is behind it runs
// the product as it is, without hooks for faults.
package relay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
)

// Relay is the etcd of one process, as that process sees it.
type Relay struct {
	doors   []*door
	running sync.WaitGroup // all goroutines
	counts  counts

	mu     sync.Mutex
	shut   bool
	asked  map[Deed][]*Asked
	frozen chan struct{} // closed when watches go on; nil: they do
}

type counts struct{ txns, lost, failed, compacted, resolved atomic.Int64 }

// Counts is what has gone through a relay.
type Counts struct {
	Txns      int64 // transactions that etcd has answered
	Lost      int64 // replies of them that were kept from their sender
	Failed    int64 // transactions that etcd did not answer
	Resolved  int64 // questions of senders after the fate of a lost request
	Compacted int64 // watches that were told that what they ask for is compacted
}

// New opens a relay to the members of an etcd, each a host:port.
func New(members []string) (*Relay, error) {
	r := &Relay{asked: map[Deed][]*Asked{}}
	for _, m := range members {
		d, err := r.open(m)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.doors = append(r.doors, d)
	}
	return r, nil
}

// Endpoints are where the process finds its etcd: one for each member.
func (r *Relay) Endpoints() []string {
	var all []string
	for _, d := range r.doors {
		all = append(all, d.listener.Addr().String())
	}
	return all
}

// Counts is what has gone through so far.
func (r *Relay) Counts() Counts {
	c := &r.counts
	return Counts{c.txns.Load(), c.lost.Load(), c.failed.Load(), c.resolved.Load(), c.compacted.Load()}
}

// Close ends all connections and waits for whatever is under way.
func (r *Relay) Close() error {
	r.mu.Lock()
	for _, all := range r.asked {
		for _, a := range all {
			a.Release(false)
		}
	}
	r.mu.Unlock()
	r.Thaw()
	var errs []error
	for _, d := range r.doors {
		errs = append(errs, d.close())
	}
	r.running.Wait()
	return errors.Join(errs...)
}

// Shut ends all connections and lets nobody in until Admit.
func (r *Relay) Shut() {
	r.setShut(true)
	for _, d := range r.doors {
		d.cut()
	}
}

// Admit lets the process in again.
func (r *Relay) Admit() { r.setShut(false) }

func (r *Relay) setShut(shut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = shut
}

func (r *Relay) isShut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shut
}

// Freeze lets nothing of any watch through until Thaw.
func (r *Relay) Freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen == nil {
		r.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (r *Relay) Thaw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen != nil {
		close(r.frozen)
		r.frozen = nil
	}
}

// thawed waits until watches go on.
func (r *Relay) thawed(ctx context.Context) {
	r.mu.Lock()
	frozen := r.frozen
	r.mu.Unlock()
	if frozen == nil {
		return
	}
	select {
	case <-frozen:
	case <-ctx.Done():
	}
}

// CutWatches ends all watches that are open, as a member that goes away would.
func (r *Relay) CutWatches() {
	for _, d := range r.doors {
		d.cutWatches()
	}
}

// methods that are looked at.
const (
	txnMethod   = "/etcdserverpb.KV/Txn"
	watchMethod = "/etcdserverpb.Watch/Watch"
)

func (d *door) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	switch method {
	case txnMethod:
		return d.txn(stream)
	case watchMethod:
		return d.watch(stream)
	}
	return d.pass(stream, method, nil)
}
