package process

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/soheilhy/cmux"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// Listen says where a server listens. Anything but loopback needs TLS files and a token.
type Listen struct {
	Address          string // host:port; port 0: the kernel chooses
	TLSCert, TLSKey  string // PEM files
	TokenFile        string
	token            string
	withTLS, exposed bool
}

// check reads the files and refuses an address that would be open to others.
func (l *Listen) check() error {
	host, _, err := net.SplitHostPort(l.Address)
	if err != nil {
		return fmt.Errorf("address %q is not host:port, such as 127.0.0.1:7400", l.Address)
	}
	ip := net.ParseIP(host)
	l.exposed = host != "localhost" && (ip == nil || !ip.IsLoopback())
	l.withTLS = l.TLSCert != "" || l.TLSKey != ""
	if l.exposed && (l.TLSCert == "" || l.TLSKey == "" || l.TokenFile == "") {
		return fmt.Errorf("address %s can be reached from other machines: give --tls-cert, --tls-key and --token-file, or listen on 127.0.0.1", l.Address)
	}
	if l.TokenFile == "" {
		return nil
	}
	raw, err := os.ReadFile(l.TokenFile)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	if l.token = strings.TrimSpace(string(raw)); l.token == "" {
		return fmt.Errorf("token file %s is empty", l.TokenFile)
	}
	return nil
}

// open listens.
func (l *Listen) open() (net.Listener, error) {
	listener, err := net.Listen("tcp", l.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", l.Address, err)
	}
	if !l.withTLS {
		return listener, nil
	}
	cert, err := tls.LoadX509KeyPair(l.TLSCert, l.TLSKey)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("TLS files: %w", err)
	}
	return tls.NewListener(listener, &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, // In this order: who speaks both, as scrapers do, is to take HTTP/1.1, since only gRPC is
		// served over HTTP/2.
		NextProtos: []string{"http/1.1", "h2"},
	}), nil
}

// serve answers gRPC and, on the same address, GET /metrics, until ctx ends.
func (l *Listen) serve(ctx context.Context, listener net.Listener, g *grpc.Server, metrics prometheus.Gatherer) error {
	mux := cmux.New(listener)
	rpc := mux.MatchWithWriters(cmux.HTTP2MatchHeaderFieldPrefixSendSettings("content-type", "application/grpc"))
	web := &http.Server{Handler: l.authorize(handler(metrics)), ReadHeaderTimeout: 10 * time.Second}
	plain := mux.Match(cmux.Any())
	var group errgroup.Group
	serving := func(f func() error) {
		group.Go(func() error {
			if err := f(); err != nil && ctx.Err() == nil {
				listener.Close()
				return err
			}
			return nil
		})
	}
	serving(func() error { return g.Serve(rpc) })
	serving(func() error { return web.Serve(plain) })
	serving(mux.Serve)
	stop := context.AfterFunc(ctx, func() {
		g.Stop() // streams are for ever: their clients find another server, or this one again
		web.Close()
		mux.Close()
		listener.Close()
	})
	err := group.Wait()
	if stop() {
		g.Stop()
		web.Close()
		mux.Close()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	return nil
}

func handler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// authorize demands the token, where there is one.
func (l *Listen) authorize(next http.Handler) http.Handler {
	if l.token == "" {
		return next
	}
	want := sha256.Sum256([]byte("Bearer " + l.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			http.Error(w, "this cell demands a token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
