package robustness

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// Member is one member of the etcd, as a process.
type Member struct {
	Name, Dir, Client, Peer string // addresses are host:port
	Cluster                 string // name=http://host:port,…
	Limits                  Limits
}

// Limits of the etcd.
type Limits struct{ TxnOps, RequestBytes int }

// walBytes keeps the members' folders small: they are copied.
const walBytes = 4 << 20

// Run serves until ctx ends. It says "ready" when it has joined.
func (m Member) Run(ctx context.Context, out io.Writer) error {
	wal.SegmentSizeBytes = walBytes
	cfg := embed.NewConfig()
	client, peer := url.URL{Scheme: "http", Host: m.Client}, url.URL{Scheme: "http", Host: m.Peer}
	cfg.Name, cfg.Dir = m.Name, m.Dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster, cfg.InitialClusterToken = m.Cluster, "robustness"
	cfg.MaxTxnOps, cfg.MaxRequestBytes = uint(m.Limits.TxnOps), uint(m.Limits.RequestBytes)
	cfg.TickMs, cfg.ElectionMs = 100, 1000
	cfg.LogLevel, cfg.Logger, cfg.LogOutputs = "error", "zap", []string{"stderr"}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("member %s: %w", m.Name, err)
	}
	defer etcd.Close()
	select {
	case <-etcd.Server.ReadyNotify():
		fmt.Fprintln(out, "ready")
	case err := <-etcd.Err():
		return err
	case <-time.After(time.Minute):
		return fmt.Errorf("member %s has not joined within a minute", m.Name)
	case <-ctx.Done():
		return nil
	}
	select {
	case err := <-etcd.Err():
		return err
	case <-ctx.Done():
		return nil
	}
}
