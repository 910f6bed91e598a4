package etcdstore

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// bent is a proxy in front of etcd that passes every call on and bends what watches bring.
type bent struct {
	address string

	mu   sync.Mutex
	bend func(*pb.WatchResponse) []*pb.WatchResponse // nil: all passes as it is
	held chan struct{}                               // closed when watches may go on; nil: they may
	cut  context.CancelFunc                          // of all streams that are open
	life context.Context
}

func newBent(t *testing.T) *bent {
	t.Helper()
	upstream, err := grpc.NewClient("passthrough:///"+endpoint(t), grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
		address, _ := interpret(target)
		return dialAddress(ctx, address)
	}), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(passing{}), grpc.MaxCallRecvMsgSize(mostReceived), grpc.MaxCallSendMsgSize(mostSent)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bent{address: l.Addr().String()}
	b.life, b.cut = context.WithCancel(context.Background())
	server := grpc.NewServer(grpc.ForceServerCodecV2(passing{}), grpc.MaxRecvMsgSize(mostReceived), grpc.MaxSendMsgSize(mostSent),
		grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error { return b.pass(in, upstream) }))
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		b.release()
		b.sever()
		server.Stop()
		serving.Wait()
		upstream.Close()
	})
	return b
}

// bends sets what becomes of each message of a watch.
func (b *bent) bends(bend func(*pb.WatchResponse) []*pb.WatchResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bend = bend
}

// hold keeps what watches bring back until release.
func (b *bent) hold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = make(chan struct{})
}

func (b *bent) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held != nil {
		close(b.held)
		b.held = nil
	}
}

// sever ends all calls that are open, watches too.
func (b *bent) sever() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut()
	b.life, b.cut = context.WithCancel(context.Background())
}

// pass passes one call on.
func (b *bent) pass(in grpc.ServerStream, upstream *grpc.ClientConn) error {
	method, _ := grpc.MethodFromServerStream(in)
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	b.mu.Lock()
	defer context.AfterFunc(b.life, cancel)()
	b.mu.Unlock()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	out, err := upstream.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() { // ends with the call
		for {
			var request mem.BufferSlice
			if err := in.RecvMsg(&request); err != nil {
				if err == io.EOF {
					_ = out.CloseSend()
				}
				return
			}
			if out.SendMsg(request) != nil {
				return
			}
		}
	}()
	for {
		var reply mem.BufferSlice
		if err := out.RecvMsg(&reply); err == io.EOF {
			in.SetTrailer(out.Trailer())
			return nil
		} else if err != nil {
			return err
		}
		replies := []mem.BufferSlice{reply}
		if method == pb.Watch_Watch_FullMethodName {
			if replies, err = b.watched(ctx, reply); err != nil {
				return err
			}
		}
		for _, r := range replies {
			if err := in.SendMsg(r); err != nil {
				return err
			}
		}
	}
}

// watched is what becomes of a message of a watch.
func (b *bent) watched(ctx context.Context, raw mem.BufferSlice) ([]mem.BufferSlice, error) {
	b.mu.Lock()
	bend, held := b.bend, b.held
	b.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	if bend == nil {
		return []mem.BufferSlice{raw}, nil
	}
	reply := new(pb.WatchResponse)
	if err := proto.Unmarshal(raw.Materialize(), reply); err != nil {
		return nil, err
	}
	var out []mem.BufferSlice
	for _, r := range bend(reply) {
		bytes, err := proto.Marshal(r)
		if err != nil {
			return nil, err
		}
		out = append(out, bytesOf(bytes))
	}
	return out, nil
}

// passing is a codec that leaves messages as they are.
type passing struct{}

func (passing) Name() string { return "proto" }

func (passing) Marshal(v any) (mem.BufferSlice, error) {
	raw, ok := v.(mem.BufferSlice)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	return raw, nil
}

func (passing) Unmarshal(data mem.BufferSlice, v any) error {
	into, ok := v.(*mem.BufferSlice)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	*into = bytesOf(data.Materialize())
	return nil
}
