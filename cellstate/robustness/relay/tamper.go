package relay

import (
	"bytes"
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// patience is how long a transaction may take that nobody waits for any more.
const patience = 20 * time.Second

// txn passes one transaction. Once it is here it goes on even if its sender is gone: so
// does what is in a network.
func (d *door) txn(stream grpc.ServerStream) error {
	r := d.relay
	var request frame
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	commit := claims(request.data)
	var fate *Asked
	if commit {
		if held := r.take(Hold); held != nil {
			close(held.done)
			select {
			case forward := <-held.released:
				if !forward {
					return broken("the request is lost")
				}
			case <-d.ctx.Done():
				return broken("the relay ends")
			}
		}
		fate = r.take(LoseReply, SwallowReply)
	}
	if bytes.Contains(request.data, []byte(" void")) {
		r.counts.resolved.Add(1)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(outgoing(stream.Context())), patience)
	defer cancel()
	var reply frame
	if err := d.member.Invoke(ctx, txnMethod, &request, &reply); err != nil {
		r.counts.failed.Add(1)
		if fate != nil { // it is for one that is applied
			r.back(fate)
		}
		return err
	}
	r.counts.txns.Add(1)
	if fate == nil {
		return stream.SendMsg(&reply)
	}
	r.counts.lost.Add(1)
	close(fate.done)
	if fate.deed == SwallowReply {
		select {
		case <-stream.Context().Done():
		case <-d.ctx.Done():
		}
	}
	return broken("the reply is lost")
}

// back asks again for what could not be done.
func (r *Relay) back(a *Asked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[a.deed] = append(r.asked[a.deed], a)
}

// claims says whether a transaction puts a placement or takes one away.
func claims(request []byte) bool { return bytes.Contains(request, []byte("/placement")) }

// watch passes a stream of watches.
func (d *door) watch(stream grpc.ServerStream) error {
	r := d.relay
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	d.watching(&cancel, true)
	defer d.watching(&cancel, false)
	err := d.pass(within{stream, ctx}, watchMethod, func(f *frame) []*frame { return r.changes(ctx, f) })
	if ctx.Err() != nil && stream.Context().Err() == nil {
		return broken("the watch was cut")
	}
	return err
}

// within is a stream with another context.
type within struct {
	grpc.ServerStream
	ctx context.Context
}

func (w within) Context() context.Context { return w.ctx }

// changes says what a process gets of a response to its watches.
func (r *Relay) changes(ctx context.Context, f *frame) []*frame {
	r.thawed(ctx)
	if ctx.Err() != nil {
		return nil // cut meanwhile: what was under way is lost
	}
	var response pb.WatchResponse
	if err := proto.Unmarshal(f.data, &response); err != nil {
		return []*frame{f} // let the process judge it
	}
	if response.CompactRevision > 0 {
		r.counts.compacted.Add(1)
	}
	if len(response.Events) == 0 {
		return []*frame{f}
	}
	if a := r.take(DropChanges); a != nil {
		close(a.done)
		return nil
	}
	if a := r.take(RepeatChanges); a != nil {
		close(a.done)
		return []*frame{f, f}
	}
	return []*frame{f}
}

func (d *door) watching(cancel *context.CancelFunc, open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if open {
		d.watches[cancel] = true
	} else {
		delete(d.watches, cancel)
	}
}

func (d *door) cutWatches() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for cancel := range d.watches {
		(*cancel)()
	}
}
