package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
)

const (
	// connectWithin bounds one try at connecting to an address that says nothing.
	connectWithin = 5 * time.Second
	// answerWithin bounds one request, so that a server that hangs is noticed.
	answerWithin = 30 * time.Second
	// maxAnswer is far above the largest list of a cell, in bytes.
	maxAnswer = 512 << 20
)

// cell is a cell's server, by service.
type cell struct {
	jobs    ohmv1.JobsClient
	nodes   ohmv1.NodesClient
	cell    ohmv1.CellClient
	insight ohmv1.InsightClient
}

// cell is the cell that the settings lead to. The first request finds out whether they do.
func (a *app) cell() *cell {
	return &cell{ohmv1.NewJobsClient(&a.conn), ohmv1.NewNodesClient(&a.conn), ohmv1.NewCellClient(&a.conn), ohmv1.NewInsightClient(&a.conn)}
}

// lateConn is a call's connection to the cell, which is prepared for its first request: what is
// wrong with the settings is that request's error.
type lateConn struct {
	a    *app
	once sync.Once
	conn *grpc.ClientConn
	err  error
}

func (l *lateConn) open() (*grpc.ClientConn, error) {
	l.once.Do(func() {
		l.conn, l.err = l.a.connect(
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: connectWithin,
			}),
			grpc.WithStatsHandler(&l.a.link),
			grpc.WithUnaryInterceptor(boundCall),
		)
	})
	return l.conn, l.err
}

func (l *lateConn) close() {
	if l.conn != nil {
		_ = l.conn.Close() // the call is over
	}
}

// Invoke implements grpc.ClientConnInterface.
func (l *lateConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, err := l.open()
	if err != nil {
		return err
	}
	return conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (l *lateConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	conn, err := l.open()
	if err != nil {
		return nil, err
	}
	return conn.NewStream(ctx, desc, method, opts...)
}

// connect prepares a connection with the address, TLS files and token of the settings.
func (a *app) connect(more ...grpc.DialOption) (*grpc.ClientConn, error) {
	if _, port, err := net.SplitHostPort(a.client.Address); err != nil || port == "" {
		return nil, refuse("--address %q is not host:port, such as 127.0.0.1:7400", a.client.Address)
	}
	secure, err := a.transport()
	if err != nil {
		return nil, err
	}
	options := append(more,
		grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(), // a cell is inside; a proxy for the web is not on the way
	)
	if a.client.TokenFile != "" {
		token, err := a.token()
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(token))
	}
	conn, err := grpc.NewClient(a.client.Address, options...)
	if err != nil {
		return nil, refuse("--address %q cannot be used: %v", a.client.Address, err)
	}
	return conn, nil
}

func (a *app) secure() bool {
	return a.client.TLS || a.client.TLSCA != "" || a.client.TLSServerName != ""
}

func (a *app) transport() (credentials.TransportCredentials, error) {
	if !a.secure() {
		return insecure.NewCredentials(), nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.client.TLSServerName}
	if a.client.TLSCA != "" {
		pem, err := os.ReadFile(a.client.TLSCA)
		if err != nil {
			return nil, refuse("--tls-ca: %v", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, refuse("--tls-ca: %s holds no PEM certificate", a.client.TLSCA)
		}
	}
	return credentials.NewTLS(conf), nil
}

// token reads the token file. A token goes in clear text to this machine only.
func (a *app) token() (bearer, error) {
	data, err := os.ReadFile(a.client.TokenFile)
	if err != nil {
		return "", refuse("--token-file: %v", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", refuse("--token-file: %s does not hold one token", a.client.TokenFile)
	}
	host, _, _ := net.SplitHostPort(a.client.Address)
	if ip := net.ParseIP(host); !a.secure() && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", failf(exitUsage, "give --tls-ca or --tls", "the token would go to %s in clear text", a.client.Address)
	}
	return bearer(token), nil
}

// bearer sends the token with each request: "authorization: Bearer <token>".
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (b bearer) RequireTransportSecurity() bool { return false } // token has seen to it

// boundCall gives every request its time. An audit reads the whole history and takes
// as long as that does.
func boundCall(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, cancel := detach(ctx)
	defer cancel()
	if method != ohmv1.Insight_Audit_FullMethodName {
		ctx, cancel = context.WithTimeout(ctx, answerWithin)
		defer cancel()
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// detach returns a context that ends with ctx but hides its deadline. gRPC tells a
// deadline to the server, whose DeadlineExceeded could arrive before ctx has ended:
// then nobody could tell --timeout from a cell in trouble.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	return inner, func() { stop(); cancel() }
}

// link remembers what gRPC's errors do not tell apart.
type link struct {
	connected atomic.Bool // a connection stood once: a request may have arrived
	answered  atomic.Bool // something that speaks gRPC answered once
}

func (l *link) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (l *link) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (l *link) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		l.connected.Store(true)
	}
}

func (l *link) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.InHeader, *stats.InTrailer:
		l.answered.Store(true)
	}
}
