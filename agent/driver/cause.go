package driver

import (
	"errors"
	"syscall"

	"github.com/ohmcell/ohm/pkg/task"
)

// Failure is why a start failed for good, where the driver knows the cause.
type Failure struct {
	Cause string // of pkg/task
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the error without the cause.
func (f *Failure) Unwrap() error { return f.Err }

// StartCause is the cause of a start that failed for good.
func StartCause(err error) string {
	var f *Failure
	switch {
	case errors.As(err, &f):
		return f.Cause
	case errors.Is(err, ErrCannot):
		return task.Refused
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return task.DiskFull
	}
	return task.StartFailed
}
