// Package check tries out a scheduler that runs in a cell, of which it knows the name and
// nothing else: it brings simulated nodes, submits jobs for them, and looks at what the cell
// has stored of it. All of it goes through the API, so it does for any scheduler, whatever it
// is written in, and for any address.
package check

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cmd/ohm/process"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Config is what to check, and where.
type Config struct {
	Scheduler string
	Kinds     []string // of jobs that it is for; none: all
	Patience  time.Duration
	Conn      grpc.ClientConnInterface
	Log       *zap.Logger // of the nodes
}

// Kinds are the kinds of jobs.
func Kinds() []string { return []string{"batch", "service", "ml", "system"} }

// Result says whether a rule is kept for jobs of a kind.
type Result struct {
	Rule    string  `json:"rule"`
	Kind    string  `json:"kind"`
	Kept    bool    `json:"kept"`
	Problem string  `json:"problem,omitempty"` // what was seen instead
	Seconds float64 `json:"seconds"`
}

// Rule is one thing that every scheduler owes.
type Rule struct {
	Name, Owes string
	kinds      []string // it is about; none: all
	try        func(*trial) error
}

// nodes is how many simulated nodes there are; each has room for one task of wholeNode.
const (
	nodes     = 3
	wholeNode = 4000
)

// Run tries all rules, one after the other, and leaves no job behind.
func Run(ctx context.Context, c Config) ([]Result, error) {
	t := &trial{
		scheduler: c.Scheduler, patience: c.Patience, jobs: ohmv1.NewJobsClient(c.Conn), nodes: ohmv1.NewNodesClient(c.Conn),
		insight: ohmv1.NewInsightClient(c.Conn), namespace: "check-" + c.Scheduler,
	}
	if err := live(ctx, c.Conn, c.Scheduler); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- process.Fleet(ctx, t.fleet(), c.Conn, time.Second, c.Log) }()
	defer func() {
		t.ctx = context.WithoutCancel(ctx)
		_ = t.clear()
		cancel()
		<-done
	}()
	t.ctx = ctx
	if err := t.ready(); err != nil {
		return nil, err
	}
	kinds := c.Kinds
	if len(kinds) == 0 {
		kinds = Kinds()
	}
	var results []Result
	for _, r := range Rules() {
		for _, kind := range kinds {
			if len(r.kinds) > 0 && !slices.Contains(r.kinds, kind) {
				continue
			}
			began := time.Now()
			t.kind = kind
			err := r.try(t)
			if clearing := t.clear(); err == nil {
				err = clearing
			}
			if ctx.Err() != nil {
				return results, context.Cause(ctx)
			}
			result := Result{Rule: r.Name, Kind: kind, Kept: err == nil, Seconds: time.Since(began).Round(10 * time.Millisecond).Seconds()}
			if err != nil {
				result.Problem = err.Error()
			}
			results = append(results, result)
		}
	}
	return results, nil
}

// live says whether a process of the scheduler is there.
func live(ctx context.Context, conn grpc.ClientConnInterface, name string) error {
	list, err := ohmv1.NewCellClient(conn).ListSchedulers(ctx, &ohmv1.ListSchedulersRequest{})
	if err != nil {
		return err
	}
	var names []string
	for _, s := range list.GetSchedulers() {
		if s.GetState() == "Live" {
			names = append(names, s.GetScheduler())
		}
	}
	if !slices.Contains(names, name) {
		return status.Errorf(codes.NotFound, "no process of scheduler %s is there; live are %s", name, strings.Join(names, ", "))
	}
	return nil
}
