package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
)

// Faults of a request that cellstate has no word for.
var (
	errInvalid      = errors.New("invalid request")
	errPrecondition = errors.New("not possible now")
	errReused       = errors.New("request id used before")
	errUnavailable  = errors.New("not available now")
	errCredentials  = errors.New("not authenticated")
	errFull         = errors.New("queue full")
)

// refusal is an error whose text is all that a caller needs to read; its kind is for
// the table below.
type refusal struct {
	kind error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.kind }

func refuse(kind error, format string, args ...any) error {
	return &refusal{kind, fmt.Sprintf(format, args...)}
}

// code is the one table from errors to gRPC codes.
func code(err error) codes.Code {
	for _, row := range []struct {
		err  error
		code codes.Code
	}{
		{cellstate.ErrNotFound, codes.NotFound},
		{errInvalid, codes.InvalidArgument},
		{cellstate.ErrRequestLimit, codes.InvalidArgument},
		{errPrecondition, codes.FailedPrecondition},
		{cellstate.ErrNoSpace, codes.FailedPrecondition}, // to try again is of no use before somebody has done something
		{errFull, codes.FailedPrecondition},
		{errReused, codes.AlreadyExists},
		{cellstate.ErrConflict, codes.Aborted},
		{cellstate.ErrCompacted, codes.OutOfRange},
		{cellstate.ErrUnreachable, codes.Unavailable},
		{cellstate.ErrUnknown, codes.Unavailable},
		{cellstate.ErrIncarnation, codes.Unavailable},
		{errUnavailable, codes.Unavailable},
		{errCredentials, codes.Unauthenticated},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
	} {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return codes.Internal
}

// toStatus is err as a caller gets it.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, is := status.FromError(err); is {
		return err
	}
	return status.Error(code(err), err.Error())
}
