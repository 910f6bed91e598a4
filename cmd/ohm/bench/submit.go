package bench

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const (
	mostSubmitted = 100 // jobs that a server takes in one request
	submitters    = 8   // requests under way
)

// submit brings jobs through the API.
type submit struct {
	client ohmv1.JobsClient
	took   clock
}

func newSubmit(conn grpc.ClientConnInterface) *submit {
	return &submit{client: ohmv1.NewJobsClient(conn)}
}

// jobs submits some as one request.
func (s *submit) jobs(ctx context.Context, jobs []*ohmv1.JobSpec) error {
	begin := time.Now()
	_, err := s.client.Submit(ctx, &ohmv1.SubmitRequest{Jobs: jobs, RequestId: ulid.Make().String()})
	s.took.add(time.Since(begin))
	return err
}
