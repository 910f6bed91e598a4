package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// door is the way to one member. While the member cannot be reached, neither can the
// door: the process must notice, and go to another one.
type door struct {
	relay    *Relay
	listener net.Listener
	server   *grpc.Server
	member   *grpc.ClientConn
	ctx      context.Context // ends when the door is closed
	cancel   context.CancelFunc

	mu      sync.Mutex
	open    map[net.Conn]bool
	watches map[*context.CancelFunc]bool
}

const mostBytes = 64 << 20

func (r *Relay) open(member string) (*door, error) {
	conn, err := grpc.NewClient(member,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(mostBytes), grpc.MaxCallSendMsgSize(mostBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}, MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("member %s: %w", member, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	d := &door{relay: r, listener: l, member: conn, open: map[net.Conn]bool{}, watches: map[*context.CancelFunc]bool{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.server = grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.UnknownServiceHandler(d.handle),
		grpc.MaxRecvMsgSize(mostBytes), grpc.MaxSendMsgSize(mostBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	r.running.Go(func() { _ = d.server.Serve(guarded{l, d}) }) // it ends when the door is closed
	r.running.Go(d.mind)
	conn.Connect()
	d.wait(firstWait)
	return d, nil
}

// firstWait is how long a new door waits for its member, so that whoever comes at once
// need not come again.
const firstWait = 2 * time.Second

// wait waits until the member is there.
func (d *door) wait(most time.Duration) {
	ctx, cancel := context.WithTimeout(d.ctx, most)
	defer cancel()
	for s := d.member.GetState(); s != connectivity.Ready && d.member.WaitForStateChange(ctx, s); {
		s = d.member.GetState()
	}
}

func (d *door) close() error {
	d.cancel()
	d.server.Stop()
	err := d.member.Close()
	d.cut()
	return err
}

// mind cuts the process's connections when the member is lost.
func (d *door) mind() {
	for {
		state := d.member.GetState()
		if state == connectivity.Idle {
			d.member.Connect()
		}
		if state != connectivity.Ready {
			d.cut()
		}
		if !d.member.WaitForStateChange(d.ctx, state) {
			return
		}
	}
}

func (d *door) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.open {
		c.Close()
	}
	clear(d.open)
}

// guarded lets connections in while the member can be reached and the relay is not shut.
type guarded struct {
	net.Listener
	door *door
}

func (g guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.door.relay.isShut() || g.door.member.GetState() != connectivity.Ready {
			c.Close()
			continue
		}
		g.door.mu.Lock()
		g.door.open[c] = true
		g.door.mu.Unlock()
		return c, nil
	}
}

// pass passes a call of any kind, both ways. Each message of the member goes through each,
// which says what the process gets for it.
func (d *door) pass(stream grpc.ServerStream, method string, each func(*frame) []*frame) error {
	ctx, cancel := context.WithCancel(outgoing(stream.Context()))
	defer cancel()
	member, err := d.member.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	d.relay.running.Go(func() { // until the call ends
		for {
			var f frame
			err := stream.RecvMsg(&f)
			if errors.Is(err, io.EOF) {
				_ = member.CloseSend() // the member's answer says what became of it
				return
			}
			if err != nil || member.SendMsg(&f) != nil {
				return
			}
		}
	})
	for {
		f := new(frame)
		if err := member.RecvMsg(f); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		out := []*frame{f}
		if each != nil {
			out = each(f)
		}
		for _, f := range out {
			if err := stream.SendMsg(f); err != nil {
				return err
			}
		}
	}
}

func outgoing(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	return metadata.NewOutgoingContext(ctx, md)
}

// broken is what a process sees of a connection that broke.
func broken(why string) error { return status.Error(codes.Unavailable, "the connection broke: "+why) }

// frame is one message as it is on the wire.
type frame struct{ data []byte }

type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	f.data = data.Materialize()
	return nil
}
