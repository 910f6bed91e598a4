// Command robust runs a cell while everything around it fails, and exits with 1 if a
// promise was broken or if the run proves nothing: `make robust`. With the words member and
// part it is one of the run's own processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate/robustness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	verb, args := "", os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	run, ok := map[string]func(context.Context, []string) error{"": robust, "member": member, "part": part}[verb]
	err := fmt.Errorf("there is no %q", verb)
	if ok {
		err = run(ctx, args)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

func robust(ctx context.Context, args []string) (err error) {
	c := robustness.Config{Out: os.Stdout}
	f := flag.NewFlagSet("robust", flag.ExitOnError)
	f.DurationVar(&c.Duration, "duration", 90*time.Second, "how long faults are injected, at least")
	f.Uint64Var(&c.Seed, "seed", uint64(time.Now().Unix()), "of the order of the faults")
	f.StringVar(&c.Dir, "dir", "", "folder for histories and logs, which stays; if not given, it stays only after a failure")
	f.Func("fault", "inject only this fault; may be given more than once", func(name string) error {
		c.Only = append(c.Only, name)
		return nil
	})
	_ = f.Parse(args) // it exits
	if c.Program, err = os.Executable(); err != nil {
		return err
	}
	given := c.Dir != ""
	if given {
		if err := errors.Join(os.RemoveAll(c.Dir), os.MkdirAll(c.Dir, 0o700)); err != nil {
			return err
		}
	} else if c.Dir, err = os.MkdirTemp("", "ohm-robust-"); err != nil {
		return err
	}
	fmt.Printf("seed %d, logs and histories in %s\n", c.Seed, c.Dir)
	report, err := robustness.Run(ctx, c)
	if report != nil {
		report.Print(os.Stdout)
		err = errors.Join(err, report.Err())
	}
	if err == nil && !given {
		return os.RemoveAll(c.Dir)
	}
	return err
}

func member(ctx context.Context, args []string) error {
	var m robustness.Member
	f := flag.NewFlagSet("member", flag.ExitOnError)
	f.StringVar(&m.Name, "name", "", "of the member")
	f.StringVar(&m.Dir, "dir", "", "its folder")
	f.StringVar(&m.Client, "client", "", "its address for clients")
	f.StringVar(&m.Peer, "peer", "", "its address for the others")
	f.StringVar(&m.Cluster, "cluster", "", "all members: name=url,…")
	limits(f, &m.Limits)
	_ = f.Parse(args) // it exits
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process, which is to end with the run
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return m.Run(ctx, os.Stdout)
}

func part(ctx context.Context, args []string) error {
	var p robustness.Part
	f := flag.NewFlagSet("part", flag.ExitOnError)
	f.StringVar(&p.Name, "name", "", "of this process in the history")
	f.StringVar(&p.Instance, "instance", "", "stays the same over restarts")
	f.StringVar(&p.History, "history", "", "file")
	f.StringVar(&p.Policy, "policy", "", "of a scheduler")
	f.StringVar(&p.Address, "address", "", "of a server")
	endpoints := f.String("etcd", "", "addresses")
	limits(f, &p.Limits)
	_ = f.Parse(args) // it exits
	p.Endpoints = strings.Split(*endpoints, ",")
	var err error
	conf := zap.NewDevelopmentConfig()
	conf.Level, conf.DisableStacktrace, conf.DisableCaller = zap.NewAtomicLevelAt(zap.InfoLevel), true, true
	if p.Log, err = conf.Build(); err != nil {
		return err
	}
	return p.Run(ctx, os.Stdin, os.Stdout)
}

func limits(f *flag.FlagSet, l *robustness.Limits) {
	f.IntVar(&l.TxnOps, "txn-ops", 128, "of the etcd")
	f.IntVar(&l.RequestBytes, "request-bytes", 3<<19, "of the etcd")
}
