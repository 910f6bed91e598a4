// Command customscheduler is a whole scheduler of somebody's own: it registers as
// "first-fit", gets the jobs that name it and puts each task on the first node, by name,
// that fits. Queue, retries, conflicts and last words are the Runner's.
//
//	go run ./examples/customscheduler --address 127.0.0.1:7400
//	ohm run examples/customscheduler/job.yaml --wait
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/lifecycle"
	"github.com/ohmcell/ohm/schedulers"
)

func main() {
	address := flag.String("address", "127.0.0.1:7400", "of a server of the cell")
	instance := flag.String("instance", "one", "name of this process among those of the same scheduler")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *instance); err != nil {
		fmt.Fprintln(os.Stderr, "customscheduler:", err)
		os.Exit(1)
	}
}

// run schedules until ctx ends.
func run(ctx context.Context, address, instance string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	// The server says where the store is; the sender's name must be unique in the cell.
	store, err := etcdstore.Discover(ctx, conn, etcdstore.Config{Sender: "first-fit-" + instance})
	if err != nil {
		return err
	}
	defer store.Close()
	log := zap.Must(zap.NewProduction())
	cell := mirror.New(store, log) // a private copy of the whole cell state
	runner := schedulers.New(schedulers.Config{
		Cell: cell, Store: store, Scheduler: newFirstFit(),
		Name: "first-fit", Instance: instance, Version: "example", Log: log,
	})
	return lifecycle.Run(ctx,
		lifecycle.Part{Name: "mirror", Run: cell.Run},
		lifecycle.Part{Name: "scheduler", Run: runner.Run})
}
