package server

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Endpoints are the ports of a job's tasks that serve now.
func (s *jobs) Endpoints(ctx context.Context, req *ohmv1.EndpointsRequest) (*ohmv1.EndpointsResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	row, err := find(snapshot, jobName(req.GetNamespace(), req.GetJob()))
	if err != nil {
		return nil, err
	}
	return endpoints(snapshot, row, req)
}

// WatchEndpoints sends them now and whenever they have changed, until the job is over.
func (s *jobs) WatchEndpoints(req *ohmv1.EndpointsRequest, stream grpc.ServerStreamingServer[ohmv1.EndpointsResponse]) error {
	if _, err := s.snapshot(stream.Context()); err != nil {
		return err
	}
	var last *ohmv1.EndpointsResponse
	return s.eachChange(stream.Context(), jobName(req.GetNamespace(), req.GetJob()), func(at *cellstate.Snapshot, row *cellstate.Job) (done bool, err error) {
		now, err := endpoints(at, row, req)
		if err != nil {
			return true, err
		}
		over := !row.Live() && len(now.GetEndpoints()) == 0
		if last != nil && slices.EqualFunc(last.GetEndpoints(), now.GetEndpoints(), func(a, b *ohmv1.Endpoint) bool { return proto.Equal(a, b) }) {
			return over, nil
		}
		last = now
		return over, stream.Send(now)
	})
}

func endpoints(s *cellstate.Snapshot, row *cellstate.Job, req *ohmv1.EndpointsRequest) (*ohmv1.EndpointsResponse, error) {
	if g := req.GetGroup(); g != "" && row.Record != nil && row.Group(g) == nil {
		return nil, refuse(cellstate.ErrNotFound, "job %s has no group %s; it has %s", row.Name, g, groupNames(row.Record.GetSpec()))
	}
	return &ohmv1.EndpointsResponse{Endpoints: reconcile.Endpoints(s, row, req.GetGroup(), req.GetPort()), Revision: int64(s.Revision())}, nil
}

// expand puts the endpoints that a variable names in its place, as they are when the task is
// assigned: with commas between, empty where there are none.
func expand(s *cellstate.Snapshot, namespace, value string) string {
	text, err := jobspec.ExpandEndpoints(value, func(job, group, port string) string {
		row := s.Job(jobName(namespace, job))
		if row == nil {
			return ""
		}
		var addresses []string
		for _, e := range reconcile.Endpoints(s, row, group, port) {
			addresses = append(addresses, e.GetAddress())
		}
		return strings.Join(addresses, ",")
	})
	if err != nil { // of a job that was stored before this had a meaning
		return value
	}
	return text
}
