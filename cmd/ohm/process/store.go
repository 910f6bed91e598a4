// Package process wires the parts of a cell into processes: a server over its store, a
// scheduler with a mirror of its own, an agent with its driver, and dev, which is all of
// them in one. What each part does is elsewhere; here is who gets what, and in which
// order they end.
package process

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
)

// Store says where a cell's etcd is and how to speak to it.
type Store struct {
	etcdstore.Config
	CA, Cert, Key string // PEM files; all empty: plain
}

// embeddedStore is the store of an etcd that runs with our own limits.
func embeddedStore(endpoint, cell string) Store {
	return Store{Config: etcdstore.Config{
		Endpoints: []string{endpoint}, Cell: cell, MaxTxnOps: embedded.MaxTxnOps, MaxRequestBytes: embedded.MaxRequestBytes,
	}}
}

// TLSConfig reads the files; nil: plain.
func (s Store) TLSConfig() (*tls.Config, error) {
	if s.CA == "" && s.Cert == "" && s.Key == "" {
		return nil, nil
	}
	conf, err := transport.TLSInfo{TrustedCAFile: s.CA, CertFile: s.Cert, KeyFile: s.Key}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("etcd's TLS files: %w", err)
	}
	return conf, nil
}

// Carer connects to the store to look after it, whatever state it is in.
func (s Store) Carer() (c cellstate.Carer, closeIt func() error, err error) {
	if s.TLS, err = s.TLSConfig(); err != nil {
		return nil, nil, err
	}
	store, err := etcdstore.Dial(s.Config)
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// Renew gives the store of a cell that was restored a new incarnation, which it returns.
func (s Store) Renew(ctx context.Context) (incarnation string, err error) {
	if s.TLS, err = s.TLSConfig(); err != nil {
		return "", err
	}
	store, err := etcdstore.Dial(s.Config)
	if err != nil {
		return "", err
	}
	defer store.Close()
	return store.Renew(ctx)
}

// Reader is the store for somebody who reads along and writes nothing.
func (s Store) Reader(ctx context.Context) (r *etcdstore.Store, err error) {
	if s.TLS, err = s.TLSConfig(); err != nil {
		return nil, err
	}
	return etcdstore.Open(ctx, s.Config)
}

// Open connects under a sender's name, trying again for as long as ctx allows: the
// parts of a cell may come up in any order.
func (s Store) Open(ctx context.Context, sender string, log *zap.Logger) (*etcdstore.Store, error) {
	var err error
	if s.TLS, err = s.TLSConfig(); err != nil {
		return nil, err
	}
	s.Sender, s.Log = sender, log
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		store, err := etcdstore.Open(ctx, s.Config)
		if err == nil || !unreachable(err) {
			return store, err
		}
		log.Warn("etcd does not answer yet", zap.Error(err))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// instance is the stable name of this process on its data dir, so that a successor
// takes over at once what a dead predecessor had; without a dir a fresh one.
func instance(dir string) (string, error) {
	fresh := "i" + strings.ToLower(ulid.Make().String()[10:])
	if dir == "" {
		return fresh, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "instance")
	if name, err := os.ReadFile(path); err == nil && len(name) > 0 {
		return string(name), nil
	}
	return fresh, os.WriteFile(path, []byte(fresh), 0o600)
}
