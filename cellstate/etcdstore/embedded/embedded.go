// Package embedded runs an etcd server inside this process: the store of a cell on one
// machine, with nothing to install. It fsyncs, listens on a unix socket in its data
// directory (or, where the path is too long for one, on a loopback port that the kernel
// chooses) and on nothing else.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/filelock"
)

// Limits that the server is started with; etcd's defaults are too small for the
// nested transactions of a busy cell.
const (
	MaxTxnOps       = 8192
	MaxRequestBytes = 8 << 20
	QuotaBytes      = 8 << 30
)

// Settings of a server; a zero one is that of the constants above.
type Settings struct {
	MaxTxnOps, MaxRequestBytes uint
	QuotaBytes                 int64
}

// longestSocket is the longest path of a unix socket on Linux and macOS alike.
const longestSocket = 100

// Server is a running etcd.
type Server struct {
	etcd     *embed.Etcd // nil: it could not start
	endpoint string
	unlock   func() error // etcd's own lock makes a second server wait for ever
}

// Start starts a server on dir, which it creates, and waits until it serves. A dir that
// another process uses is refused at once.
func Start(ctx context.Context, dir string, log *zap.Logger) (*Server, error) {
	return Settings{}.Start(ctx, dir, log)
}

// Start is as the function of that name, with settings.
func (set Settings) Start(ctx context.Context, dir string, log *zap.Logger) (*Server, error) {
	set.MaxTxnOps = cmp.Or(set.MaxTxnOps, MaxTxnOps)
	set.MaxRequestBytes = cmp.Or(set.MaxRequestBytes, MaxRequestBytes)
	set.QuotaBytes = cmp.Or(set.QuotaBytes, QuotaBytes)
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data dir: %w", err)
	}
	unlock, err := filelock.Take(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("data dir %s: %w", dir, err)
	}
	s := &Server{unlock: unlock}
	if err := s.start(ctx, dir, set, log); err != nil {
		s.Close()
		return nil, fmt.Errorf("embedded etcd in %s: %w", dir, err)
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, dir string, set Settings, log *zap.Logger) error {
	client, err := listen(dir)
	if err != nil {
		return err
	}
	s.endpoint = client.String()
	// One member needs no peers: it advertises an address on which nobody listens.
	peer := url.URL{Scheme: "http", Host: "localhost:2380"}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = "ohm", filepath.Join(dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{peer}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	cfg.MaxTxnOps, cfg.MaxRequestBytes, cfg.QuotaBackendBytes = set.MaxTxnOps, set.MaxRequestBytes, set.QuotaBytes
	// The keeper compacts, often and in small steps; etcd's own pace does not follow a busy
	// cell.
	cfg.CompactionBatchLimit, cfg.CompactionSleepInterval = 10_000, time.Millisecond
	// etcd writes out a slow request as text, whether it logs it or not: a request of 300
	// placements would become slower still.
	cfg.WarningApplyDuration, cfg.WarningUnaryRequestDuration = 5*time.Second, 5*time.Second
	// Nobody votes against a single member; a short timeout only makes its start quick.
	cfg.TickMs, cfg.ElectionMs = 20, 200
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLog(log))
	if s.etcd, err = embed.StartEtcd(cfg); err != nil {
		return err
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case err := <-s.etcd.Err():
		return err
	case <-time.After(time.Minute):
		return fmt.Errorf("%w: not ready within a minute", cellstate.ErrUnreachable)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// etcdLog is etcd's own log. Even a sound start of it logs errors, which would alarm
// whoever started a cell; what is fatal comes back as an error.
func etcdLog(log *zap.Logger) *zap.Logger {
	if log.Core().Enabled(zapcore.DebugLevel) {
		return log.Named("etcd")
	}
	return log.Named("etcd").WithOptions(zap.IncreaseLevel(zapcore.DPanicLevel))
}

// Endpoint is where clients on this machine find the server.
func (s *Server) Endpoint() string { return s.endpoint }

// Err tells when the server ends by itself.
func (s *Server) Err() <-chan error { return s.etcd.Err() }

// Close stops the server and waits for it.
func (s *Server) Close() {
	if s.etcd != nil {
		s.etcd.Close()
	}
	_ = s.unlock() // it ends with the process, too
}

// listen chooses the address that only this machine, and for a socket only this user,
// can reach.
func listen(dir string) (url.URL, error) {
	socket := filepath.Join(dir, "etcd.sock")
	if len(socket) <= longestSocket {
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return url.URL{}, err // a predecessor's, since the lock is ours
		}
		return url.URL{Scheme: "unix", Path: socket}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, err
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}, nil
}
