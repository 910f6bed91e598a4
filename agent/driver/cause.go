package driver

import (
	"errors"
	"syscall"

	"github.com/ohmcell/ohm/pkg/resource"
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
	var busy *PortBusyError
	switch {
	case errors.As(err, &busy):
		return task.PortBusy
	case errors.As(err, &f):
		return f.Cause
	case errors.Is(err, ErrCannot):
		return task.Refused
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return task.DiskFull
	}
	return task.StartFailed
}

// OOMMessage says of a task that was killed for memory what it had used at most, and what it
// may; bytes, 0 where that is not known or there is no limit.
func OOMMessage(peak, limit int64) string {
	text := "killed for want of memory on the node"
	if limit > 0 {
		text = "killed for memory: its limit is " + resource.FormatBytes(limit)
	}
	if peak > 0 {
		text += ", it used up to " + resource.FormatBytes(peak)
	}
	return text
}
