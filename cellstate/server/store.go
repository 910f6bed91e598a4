package server

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// carer is the store as one that can be cared for.
func (s *Server) carer() (cellstate.Carer, error) {
	if c, ok := s.cfg.Store.(cellstate.Carer); ok {
		return c, nil
	}
	return nil, refuse(errPrecondition, "this cell's store is in memory, where there is nothing to care for")
}

func (s *cell) StoreStatus(ctx context.Context, _ *ohmv1.StoreStatusRequest) (*ohmv1.StoreStatusResponse, error) {
	c, err := s.carer()
	if err != nil {
		return nil, err
	}
	return c.Status(ctx)
}

// CureStore goes on to the end also if its caller does not wait for it: half a cure helps
// nobody.
func (s *cell) CureStore(_ *ohmv1.CureStoreRequest, stream grpc.ServerStreamingServer[ohmv1.StoreStep]) error {
	c, err := s.carer()
	if err != nil {
		return err
	}
	if err := s.gateway.open(); err != nil {
		return err
	}
	defer s.gateway.streams.Done()
	return c.Cure(context.WithoutCancel(stream.Context()), func(step *ohmv1.StoreStep) {
		s.log.Info("curing the store: " + step.GetStep() + " " + step.GetMember() + ": " + step.GetDetail())
		_ = stream.Send(step)
	})
}

// briefly is how long an answer waits for what it can do without.
const briefly = 300 * time.Millisecond

// storeSize is what the store takes, as far as it says so at once.
func (s *Server) storeSize(ctx context.Context) cellstate.Size {
	c, ok := s.cfg.Store.(cellstate.Compactor)
	if !ok {
		return cellstate.Size{}
	}
	ctx, cancel := context.WithTimeout(ctx, briefly)
	defer cancel()
	size, err := c.Size(ctx)
	if err != nil {
		return cellstate.Size{}
	}
	return size
}
