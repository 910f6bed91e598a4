package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// What both connections have in common.
const (
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 5 * time.Second
	mostSent         = 64 << 20
	mostReceived     = 1 << 30
)

// Of the connection for commits and changes: what a mirror that is busy may have waiting
// for it before etcd must keep it back, which costs etcd more than having it read; and
// how much of a request goes out, and of a reply comes in, in one system call.
const (
	windowBytes = 8 << 20
	ioBytes     = 256 << 10
)

// conn is a connection to etcd for the two calls that carry nearly all the bytes. Their
// messages are written and read by hand: a request has hundreds of small nested
// messages, and making each of them costs more than all else that a sender does.
type conn struct{ *grpc.ClientConn }

// connect prepares a connection to all endpoints in turn; it does not wait for one.
func connect(cfg Config) (conn, error) {
	if len(cfg.Endpoints) == 0 {
		return conn{}, errors.New("no etcd endpoints")
	}
	addresses := make([]resolver.Address, len(cfg.Endpoints))
	for i, e := range cfg.Endpoints {
		addresses[i].Addr, addresses[i].ServerName = interpret(e)
	}
	endpoints := manual.NewBuilderWithScheme("etcd")
	endpoints.InitialState(resolver.State{Addresses: addresses})
	opts := append([]grpc.DialOption{
		grpc.WithResolvers(endpoints),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithContextDialer(dialAddress),
		grpc.WithTransportCredentials(transport(cfg)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAliveTime, Timeout: keepAliveTimeout}),
		// A store that comes back should be noticed within a scheduler's patience, not grpc's.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: cfg.Timeout,
		}),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithReadBufferSize(ioBytes), grpc.WithWriteBufferSize(ioBytes),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallSendMsgSize(mostSent), grpc.MaxCallRecvMsgSize(mostReceived)),
	}, cfg.dial...)
	c, err := grpc.NewClient("etcd:///"+addresses[0].ServerName, opts...)
	return conn{c}, err
}

// interpret turns an endpoint into what is dialled and the name that a certificate must
// bear; unix sockets are named by their file.
func interpret(endpoint string) (address, name string) {
	scheme, rest, ok := strings.Cut(endpoint, ":")
	switch {
	case ok && (scheme == "unix" || scheme == "unixs"):
		rest = strings.TrimPrefix(rest, "//")
		return "unix:" + rest, path.Base(rest)
	case ok && (scheme == "http" || scheme == "https"):
		host, _, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
		return host, host
	}
	return endpoint, endpoint
}

func dialAddress(ctx context.Context, address string) (net.Conn, error) {
	network, socket := "tcp", address
	if file, ok := strings.CutPrefix(address, "unix:"); ok {
		network, socket = "unix", file
	}
	return new(net.Dialer).DialContext(ctx, network, socket)
}

// transport is the encryption of the connection, which the first endpoint decides: http
// has none, https needs it, others have it if it is configured.
func transport(cfg Config) credentials.TransportCredentials {
	scheme, _, _ := strings.Cut(cfg.Endpoints[0], ":")
	switch {
	case scheme == "http":
		return insecure.NewCredentials()
	case cfg.TLS != nil:
		return credentials.NewTLS(cfg.TLS)
	case scheme == "https", scheme == "unixs":
		return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	}
	return insecure.NewCredentials()
}

// txn makes one transaction. An error with sent false says that the server has not seen it.
func (c conn) txn(ctx context.Context, request mem.BufferSlice, reply *txnReply, opts ...grpc.CallOption) (sent bool, err error) {
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{StreamName: "Txn"}, pb.KV_Txn_FullMethodName, opts...)
	if err != nil {
		return false, err
	}
	if err := stream.SendMsg(request); err != nil {
		return true, err
	}
	return true, stream.RecvMsg(reply)
}

// watch opens a stream of watches. It waits until there is a connection.
func (c conn) watch(ctx context.Context) (grpc.ClientStream, error) {
	return c.NewStream(ctx, &grpc.StreamDesc{StreamName: "Watch", ServerStreams: true, ClientStreams: true}, pb.Watch_Watch_FullMethodName, grpc.WaitForReady(true))
}

// codec passes bytes: what is sent is a mem.BufferSlice, what is received is parsed where
// it lies and must be copied by whoever keeps it.
type codec struct{}

type parser interface{ parse(raw []byte) error }

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	request, ok := v.(mem.BufferSlice)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	request.Ref() // grpc frees it when it is sent; a caller that sends again keeps its own
	return request, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	p, ok := v.(parser)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return p.parse(whole.ReadOnlyData())
}
