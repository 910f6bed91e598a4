package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"github.com/ohmcell/ohm/agent"
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/cmd/ohm/process"
	"github.com/ohmcell/ohm/pkg/config"
)

// part holds the settings of a process that is a part of a cell; each verb takes the
// flags that it needs.
type part struct {
	a        *app
	logLevel string
	dataDir  string
	store    process.Store
	check    time.Duration
	embedded bool
	tlsCert  string
	tlsKey   string
	node     agent.FactsConfig
	runtime  process.Runtime
	keep     agent.Config // what a node keeps
	instance string
}

func (p *part) logFlags(f *pflag.FlagSet, level string) {
	f.StringVar(&p.logLevel, "log-level", level, "debug, info, warn or error; the log goes to stderr")
	config.Settings(f, "log-level")
}

func (p *part) dataFlags(f *pflag.FlagSet, preset, what string) {
	f.StringVar(&p.dataDir, "data-dir", preset, what)
	config.Settings(f, "data-dir")
}

func (p *part) etcdFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&p.store.Endpoints, "etcd", nil, "addresses of the cell's etcd, host:port,…")
	f.StringVar(&p.store.CA, "etcd-ca", "", "PEM file with the certificates that sign etcd's")
	f.StringVar(&p.store.Cert, "etcd-cert", "", "PEM file with the certificate to show to etcd")
	f.StringVar(&p.store.Key, "etcd-key", "", "PEM file with that certificate's key")
	f.StringVar(&p.store.Cell, "cell", "default", "name of the cell: its part of the store")
	config.Settings(f, "etcd", "etcd-ca", "etcd-cert", "etcd-key", "cell")
}

func (p *part) storeFlags(f *pflag.FlagSet) {
	p.etcdFlags(f)
	f.IntVar(&p.store.MaxTxnOps, "etcd-max-txn-ops", 0, "the etcd server's --max-txn-ops; if not given, it is found out")
	f.IntVar(&p.store.MaxRequestBytes, "etcd-max-request-bytes", 0, "the etcd server's --max-request-bytes; if not given, it is found out")
	f.DurationVar(&p.check, "check-every", mirror.DefaultCheck, "time in which the private copy of the whole cell is compared with the store once; 0: never")
	config.Settings(f, "check-every", "etcd-max-txn-ops", "etcd-max-request-bytes")
}

func (p *part) listenFlags(f *pflag.FlagSet) {
	f.StringVar(&p.tlsCert, "tls-cert", "", "PEM file with this server's certificate; with --tls-key and --token-file it may listen beyond loopback")
	f.StringVar(&p.tlsKey, "tls-key", "", "PEM file with that certificate's key")
	config.Settings(f, "tls-cert", "tls-key")
}

func (p *part) nodeFlags(f *pflag.FlagSet) {
	f.StringVar(&p.node.Name, "node", "", "name of this node; if not given, the host's name")
	f.StringSliceVar(&p.runtime.GPUs, "gpus", nil, "this node's GPUs, id=model or id=model@memory,…; or where they are found: nvidia, file:PATH (JSON), none; if not given, nvidia's, where there are any")
	f.StringSliceVar(&p.runtime.GPUCodes, "gpu-codes", nil, "what a fault of a GPU means, code=ignore|bad|lost,…: bad takes no new tasks, lost ends those that have it")
	f.StringVar(&p.runtime.Driver, "driver", process.Drivers()[0], "what runs this node's tasks: "+strings.Join(process.Drivers(), " or ")+" (tasks of an image only)")
	f.StringVar(&p.runtime.Containerd, "containerd-address", "/run/containerd/containerd.sock", "socket of the containerd that --driver containerd uses")
	f.StringVar((*string)(&p.runtime.RegistryAuth), "registry-auth", "", "file with credentials for registries of images, as docker login writes it; it is read anew whenever a registry asks")
	f.StringVar(&p.node.Ports, "ports", "", "ports of this node that tasks may get as dynamic ones, first-last; if not given, 20000-32000, less what the kernel uses for outgoing connections")
	f.StringSliceVar(&p.node.ReservedPorts, "reserved-ports", nil, "ports of this node that no task may own, port,…")
	config.Settings(f, "gpus", "gpu-codes", "ports", "reserved-ports", "driver", "containerd-address", "registry-auth") // not node: every task has OHM_NODE in its environment
	p.keepFlags(f)
}

func (p *part) listen() process.Listen {
	return process.Listen{Address: p.a.client.Address, TLSCert: p.tlsCert, TLSKey: p.tlsKey, TokenFile: p.a.client.TokenFile}
}

// log is the process's log: one line each on stderr.
func (p *part) log() (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(p.logLevel)
	if err != nil {
		return nil, refuse("--log-level %q is not one of debug, info, warn, error", p.logLevel)
	}
	enc := zap.NewDevelopmentEncoderConfig()
	enc.EncodeCaller = nil
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(p.a.stderr)), level)), nil
}

// ended turns the end of a process into an exit code: a signal is a clean end.
func (p *part) ended(ctx context.Context, err error) error {
	switch {
	case err == nil || (ctx.Err() != nil && errors.Is(err, context.Canceled)):
		return nil
	case errors.Is(err, cellstate.ErrUnreachable):
		return failf(exitUnreachable, "", "%v", err)
	}
	return failf(exitUsage, "", "%v", err)
}

// dialSelf connects a part of dev to dev's own server.
func (p *part) dialSelf(address string) (*grpc.ClientConn, error) {
	self := &app{client: p.a.client}
	self.client.Address = address
	if p.tlsCert != "" {
		name, err := certName(p.tlsCert)
		if err != nil {
			return nil, err
		}
		self.client.TLSCA, self.client.TLSServerName = p.tlsCert, name
	}
	return self.connect(agent.DialOptions(0)...)
}

// certName is a name for which a certificate is valid.
func certName(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return "", fmt.Errorf("%s holds no PEM certificate", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", file, err)
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0], nil
	case len(cert.IPAddresses) > 0:
		return cert.IPAddresses[0].String(), nil
	}
	return "", fmt.Errorf("%s is valid for no name", file)
}

// defaultDataDir is where a cell of this user keeps its data.
func (a *app) defaultDataDir() string {
	get := func(name string) string {
		for _, e := range a.env {
			if k, v, _ := strings.Cut(e, "="); k == name {
				return v
			}
		}
		return ""
	}
	switch {
	case os.Geteuid() == 0:
		return "/var/lib/ohm"
	case get("XDG_STATE_HOME") != "":
		return filepath.Join(get("XDG_STATE_HOME"), "ohm")
	case get("HOME") != "":
		return filepath.Join(get("HOME"), ".local", "state", "ohm")
	}
	return "ohm-data"
}

// left says at the end of an agent how many tasks it leaves.
func (p *part) left(tasks int) {
	if tasks == 0 {
		return
	}
	noun := "tasks go"
	if tasks == 1 {
		noun = "task goes"
	}
	fmt.Fprintf(p.a.stderr, "%d %s on running; start again on the same data dir to take them back, and `ohm stop --all` ends them\n", tasks, noun)
}

// profileFlag is for measurements.
func profileFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "cpu-profile", "", "file to write a CPU profile of this process to")
}

// asPart finishes the command of a process.
func asPart(c *cobra.Command) *cobra.Command {
	c.Args = noArgs
	return c
}
