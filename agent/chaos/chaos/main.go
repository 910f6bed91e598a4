// Command chaos kills agents and containerd under a cell's tasks, and exits with 1 if a task
// was doubled, lost or ended needlessly, or if anything is left: `make chaos`. With the word
// agent it is one of the run's own agents, with hold the beginning of a task.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/chaos"
	"github.com/ohmcell/ohm/agent/driver/native"
)

func main() {
	if native.Hidden(os.Args[1:]) { // the native driver's own processes
		os.Exit(native.Main(os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do, args := run, os.Args[1:]
	switch {
	case len(args) == 3 && args[0] == "hold":
		do = hold
	case len(args) > 0 && args[0] == "agent":
		do, args = agent, args[1:]
	}
	if err := do(ctx, args); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	c := chaos.Config{Out: os.Stdout}
	f := flag.NewFlagSet("chaos", flag.ExitOnError)
	f.DurationVar(&c.Duration, "duration", 80*time.Second, "how long processes are killed")
	f.Uint64Var(&c.Seed, "seed", uint64(time.Now().Unix()), "of what is killed when")
	f.StringVar(&c.Ohm, "ohm", "bin/ohm", "the program ohm, with ohm-init beside it")
	logs := f.String("dir", "", "folder for the logs and notes, which stay there; if not given, all files stay where they were after a failure")
	_ = f.Parse(args) // it exits
	if c.Program, err = os.Executable(); err != nil {
		return err
	}
	if c.Dir, err = os.MkdirTemp("", "chaos"); err != nil { // short: sockets are below it
		return err
	}
	fmt.Printf("seed %d, in %s\n", c.Seed, c.Dir)
	report, err := chaos.Run(ctx, c)
	if report != nil && err == nil {
		report.Print(os.Stdout)
		err = report.Err()
	}
	if *logs != "" {
		err = errors.Join(err, keep(c.Dir, *logs))
	}
	if err == nil || *logs != "" {
		err = errors.Join(err, os.RemoveAll(c.Dir))
	}
	return err
}

// keep puts what tells of a run into a folder.
func keep(from, to string) error {
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o700)); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, "*.log"))
	said, _ := filepath.Glob(filepath.Join(from, "*", "logs", "*", "stderr")) // of tasks
	for _, file := range said {
		if data, readErr := os.ReadFile(file); readErr == nil && len(data) > 0 {
			err = errors.Join(err, os.WriteFile(filepath.Join(to, filepath.Base(filepath.Dir(file))+".stderr"), data, 0o600))
		}
	}
	for _, file := range append(files, filepath.Join(from, "ctd", "log"), filepath.Join(from, "notes", "notes")) {
		data, readErr := os.ReadFile(file)
		if readErr != nil {
			continue // the run did not get so far
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(to, filepath.Base(file)), data, 0o600))
	}
	return err
}

func hold(_ context.Context, args []string) error { return chaos.Hold(args[1], args[2]) }

func agent(ctx context.Context, args []string) error {
	var a chaos.Agent
	f := flag.NewFlagSet("agent", flag.ExitOnError)
	f.StringVar(&a.Name, "name", "", "of the node")
	f.StringVar(&a.Dir, "dir", "", "its folder")
	f.StringVar(&a.Cgroup, "cgroup", "", "of its tasks")
	f.StringVar(&a.Namespace, "namespace", "", "in containerd")
	f.StringVar(&a.Address, "address", "", "of the server")
	f.StringVar(&a.Containerd, "containerd", "", "socket of containerd; none: the native driver")
	f.StringVar(&a.Init, "init", "", "the program ohm-init")
	f.StringVar(&a.Image, "image", "", "of the tasks in containerd")
	f.StringVar(&a.Notes, "notes", "", "folder that tasks write to")
	_ = f.Parse(args) // it exits
	var err error
	conf := zap.NewDevelopmentConfig()
	conf.Level, conf.DisableStacktrace, conf.DisableCaller = zap.NewAtomicLevelAt(zap.InfoLevel), true, true
	if a.Log, err = conf.Build(); err != nil {
		return err
	}
	return a.Run(ctx)
}
