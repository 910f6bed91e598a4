package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	"github.com/ohmcell/ohm/cmd/ohm/child"
	"github.com/ohmcell/ohm/cmd/ohm/process"
)

// site is where a measurement is made: a cell in an etcd, and the processes around it.
type site struct {
	store process.Store
	etcd  *child.Process // nil: it is somebody else's
	set   *child.Set
	dir   string // of the measurement; removed at its end
}

// withStore runs f with a fresh etcd in a process of its own, or in a fresh cell of a
// given one. Nothing of it stays.
func (c Config) withStore(ctx context.Context, f func(at site) error) (err error) {
	dir, err := os.MkdirTemp("", "ohm-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at := site{set: &child.Set{Program: c.Program, Log: c.Log}, dir: dir, store: c.Etcd}
	if len(at.store.Endpoints) > 0 {
		at.store.Cell = "bench-" + strings.ToLower(ulid.Make().String())
		defer func() { err = errors.Join(err, at.remove(context.WithoutCancel(ctx))) }()
		defer at.set.End()
		return f(at)
	}
	defer at.set.End()
	if at.etcd, err = at.set.Start("etcd", "bench", "etcd", "--data-dir", dir, "--cpu-profile", c.profile("etcd")); err != nil {
		return err
	}
	endpoint, err := at.etcd.Word("etcd")
	if err != nil {
		return err
	}
	at.store.Endpoints, at.store.Cell = []string{endpoint}, "default"
	at.store.MaxTxnOps, at.store.MaxRequestBytes = embedded.MaxTxnOps, embedded.MaxRequestBytes
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(at)
}

// flags tell a process of this program where the store is.
func (p site) flags() []string {
	s := p.store
	flags := []string{"--etcd", strings.Join(s.Endpoints, ","), "--cell", s.Cell,
		"--etcd-max-txn-ops", fmt.Sprint(s.MaxTxnOps), "--etcd-max-request-bytes", fmt.Sprint(s.MaxRequestBytes)}
	for flag, file := range map[string]string{"--etcd-ca": s.CA, "--etcd-cert": s.Cert, "--etcd-key": s.Key} {
		if file != "" {
			flags = append(flags, flag, file)
		}
	}
	return flags
}

func (p site) open(ctx context.Context, sender string) (*etcdstore.Store, error) {
	return p.store.Open(ctx, sender, zap.NewNop())
}

// client speaks to etcd itself.
func (p site) client() (*clientv3.Client, error) {
	conf, err := p.store.TLSConfig()
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{Endpoints: p.store.Endpoints, TLS: conf, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// remove takes the cell out of a store that goes on.
func (p site) remove(ctx context.Context) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, below := range []string{"/", "!"} {
		if _, err := client.Delete(ctx, "/ohm/"+p.store.Cell+below, clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("removing the cell %s: %w", p.store.Cell, err)
		}
	}
	return nil
}

// size is what etcd's database takes, and what of it is in use, in MiB; nothing if it does
// not answer.
func (p site) size(ctx context.Context) (all, used float64) {
	client, err := p.client()
	if err != nil {
		return 0, 0
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := client.Status(ctx, p.store.Endpoints[0])
	if err != nil {
		return 0, 0
	}
	return round(float64(status.DbSize)/(1<<20), 0), round(float64(status.DbSizeInUse)/(1<<20), 0)
}

// profile is the file for a process's CPU profile.
func (c Config) profile(name string) string {
	if c.Profiles == "" {
		return ""
	}
	return filepath.Join(c.Profiles, name+".pprof")
}

// Etcd runs an etcd alone and says where, until ctx ends.
func Etcd(ctx context.Context, dir string, out io.Writer) error {
	process.RelaxCollector()
	server, err := embedded.Start(ctx, dir, zap.NewNop())
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintf(out, "etcd %s\n", server.Endpoint())
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return err
	}
}
