package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/pkg/near"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// namespace is the one that a job's name is in.
func (a *app) namespace() string {
	if a.client.Namespace == "" {
		return "default"
	}
	return a.client.Namespace
}

func notFound(err error) bool { return status.Code(err) == codes.NotFound }

// unknownJobs words the server's answer that one of these jobs is not there: which,
// and what was probably meant. Any other error stays as it is.
func (a *app) unknownJobs(ctx context.Context, c *cell, err error, names ...string) error {
	if !notFound(err) {
		return err
	}
	list, listErr := c.jobs.List(ctx, &ohmv1.ListJobsRequest{})
	if listErr != nil {
		return err
	}
	var here, missing, elsewhere []string
	for _, j := range list.Jobs {
		if j.Namespace == a.namespace() {
			here = append(here, j.Job)
		}
	}
	for _, name := range names {
		if !slices.Contains(here, name) {
			missing = append(missing, fmt.Sprintf("%q", name))
		}
	}
	if len(missing) == 0 { // the job is there: something else is missing
		return err
	}
	for _, j := range list.Jobs {
		if j.Job == names[0] {
			elsewhere = append(elsewhere, j.Namespace)
		}
	}
	next := "`ohm status` lists all jobs"
	switch meant := near.Of(strings.Trim(missing[0], `"`), here); {
	case meant != "":
		next = fmt.Sprintf("did you mean %q?", meant)
	case len(names) == 1 && len(elsewhere) > 0:
		next = fmt.Sprintf("there is one in namespace %q", elsewhere[0])
	}
	return failf(exitNotFound, next, "there is no job %s in namespace %q", strings.Join(missing, ", "), a.namespace())
}

// unknownNode is the same for a node.
func (a *app) unknownNode(ctx context.Context, c *cell, err error, name string) error {
	if !notFound(err) {
		return err
	}
	list, listErr := c.nodes.List(ctx, &ohmv1.ListNodesRequest{})
	if listErr != nil {
		return err
	}
	next := "`ohm node list` lists all nodes"
	var names []string
	for _, n := range list.Nodes {
		names = append(names, n.Node)
	}
	if meant := near.Of(name, names); meant != "" {
		next = fmt.Sprintf("did you mean %q?", meant)
	}
	return failf(exitNotFound, next, "there is no node %q", name)
}
