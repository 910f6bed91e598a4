package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func jobEndpointsCommand(a *app) *cobra.Command {
	var watches bool
	var port string
	cmd := &cobra.Command{
		Use:   "endpoints JOB[/GROUP]",
		Short: "List where the tasks of a job serve",
		Long: `List the ports of a job's tasks that serve now: of those that run, are ready where the job has a
readiness check, and are not about to leave. -o name prints the addresses alone.

--watch prints all of them again at each change, until the job is over, whichever server is there.`,
		Example: `  ohm job endpoints web
  ohm job endpoints shop/web --port http -o name
  ohm job endpoints web --watch -o json`,
		Args: named("the name of a job, or JOB/GROUP", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, group, grouped := strings.Cut(args[0], "/")
			if job == "" || grouped && group == "" || strings.Contains(group, "/") {
				return refuse("%q is not JOB or JOB/GROUP", args[0])
			}
			return a.endpoints(cmd.Context(), &ohmv1.EndpointsRequest{Namespace: a.namespace(), Job: job, Group: group, Port: port}, watches)
		},
	}
	cmd.Flags().BoolVar(&watches, "watch", false, "again at each change, until the job is over")
	cmd.Flags().StringVar(&port, "port", "", "only ports of this name")
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) endpoints(ctx context.Context, req *ohmv1.EndpointsRequest, watches bool) error {
	c := a.cell()
	if !watches {
		list, err := c.jobs.Endpoints(ctx, req)
		if err != nil {
			return a.unknownJobs(ctx, c, err, req.Job)
		}
		return a.showEndpoints(list)
	}
	var last *ohmv1.EndpointsResponse
	var lost time.Time // since when nothing is heard; zero: it is
	for {
		err := watchEndpoints(ctx, c, req, func(list *ohmv1.EndpointsResponse) error {
			lost = time.Time{}
			if last != nil && slices.EqualFunc(last.Endpoints, list.Endpoints, func(x, y *ohmv1.Endpoint) bool { return proto.Equal(x, y) }) {
				return nil // another server has said the same
			}
			last = list
			return a.showEndpoints(list)
		})
		if lost.IsZero() {
			lost = a.now()
		}
		switch {
		case err == io.EOF:
			return nil
		case status.Code(err) != codes.Unavailable || !a.link.connected.Load() || a.now().Sub(lost) > answerWithin || !sleep(ctx, 250*time.Millisecond):
			return a.unknownJobs(ctx, c, err, req.Job)
		}
	}
}

// watchEndpoints calls each with every list until the stream ends: io.EOF, where the job is over.
func watchEndpoints(ctx context.Context, c *cell, req *ohmv1.EndpointsRequest, each func(*ohmv1.EndpointsResponse) error) error {
	stream, err := c.jobs.WatchEndpoints(ctx, req)
	for err == nil {
		var list *ohmv1.EndpointsResponse
		if list, err = stream.Recv(); err == nil {
			err = each(list)
		}
	}
	return err
}

func (a *app) showEndpoints(list *ohmv1.EndpointsResponse) error {
	return a.show(view{
		json:  many(list.Endpoints),
		names: namesOf(list.Endpoints, (*ohmv1.Endpoint).GetAddress),
		table: func(p *printer) {
			if len(list.Endpoints) == 0 {
				return
			}
			type row = *ohmv1.Endpoint
			columns(p, list.Endpoints,
				column[row]{title: "TASK", cell: row.GetTask},
				column[row]{title: "PORT", cell: row.GetPort},
				column[row]{title: "ADDRESS", cell: row.GetAddress},
				column[row]{title: "ATTEMPT", cell: func(e row) string { return number(e.Attempt) }, skip: !p.wide},
				column[row]{title: "VERSION", cell: func(e row) string { return number(e.Version) }, skip: !p.wide},
			)
		},
	})
}
