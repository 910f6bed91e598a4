// Command race shows what a conflict is. Two schedulers decide on one snapshot that their
// tasks shall have the same room on one node, and commit at the same time, each through
// its own mirror. One of them wins; the other learns who did, on which node and over what,
// and that stands in the journal of conflicts:
//
//	go run ./examples/race --address 127.0.0.1:7400
//	ohm conflict list
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func main() {
	address := flag.String("address", "127.0.0.1:7400", "of a server of the cell")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address); err != nil {
		fmt.Fprintln(os.Stderr, "race:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) (err error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	a, err := join(ctx, conn, "race-a")
	if err != nil {
		return err
	}
	defer a.leave()
	b, err := join(ctx, conn, "race-b")
	if err != nil {
		return err
	}
	defer b.leave()

	// One job for each of them. No other scheduler takes jobs that name these two.
	node, cpu, err := a.room(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("both want %dm of the free CPU of node %s\n", cpu, node)
	jobs := ohmv1.NewJobsClient(conn)
	submitted, err := jobs.Submit(ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{a.job(cpu), b.job(cpu)}})
	if err != nil {
		return err
	}
	defer func() { err = end(context.WithoutCancel(ctx), jobs, err) }()

	// One snapshot, two transactions, sent at the same time.
	snapshot, err := a.mirror.WaitSnapshot(ctx, cellstate.Revision(submitted.GetRevision()))
	if err != nil {
		return err
	}
	var results [2]cellstate.Result
	var both errgroup.Group
	for i, r := range []*racer{a, b} {
		txn := r.claim(snapshot, node)
		both.Go(func() (err error) {
			results[i], err = r.commit(ctx, txn)
			return err
		})
	}
	if err := both.Wait(); err != nil {
		return err
	}
	winner, loser := results[0], results[1]
	if len(winner.Committed) == 0 {
		winner, loser, a, b = loser, winner, b, a
	}
	if len(winner.Committed) != 1 || len(loser.Conflicts) != 1 {
		return fmt.Errorf("one should have won and one lost: %+v, %+v", winner, loser)
	}
	c := loser.Conflicts[0]
	if err := b.journal(ctx, loser.Txn, &c); err != nil {
		return err
	}
	fmt.Printf("winner %s  transaction %s  committed at revision %d\n", a.name, winner.Txn.ID, winner.Revision)
	fmt.Printf("loser  %s  transaction %s  refused at revision %d: %s %s, wanted %s, free %s\n",
		b.name, loser.Txn.ID, c.Revision, c.Reason, c.Dimension, c.Wanted, c.Free)
	return nil
}

// end stops both jobs and waits until nothing of them is left.
func end(ctx context.Context, jobs ohmv1.JobsClient, before error) error {
	names := []string{"race-a", "race-b"}
	if _, err := jobs.Stop(ctx, &ohmv1.StopJobsRequest{Namespace: "default", Jobs: names}); err != nil {
		return fmt.Errorf("stopping its jobs: %w (before: %w)", err, before)
	}
	for _, name := range names {
		states, err := jobs.Watch(ctx, &ohmv1.GetJobRequest{Namespace: "default", Job: name})
		for err == nil { // until the job is done: that ends the stream
			_, err = states.Recv()
		}
	}
	return before
}
