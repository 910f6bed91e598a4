//go:build unix

// Package filelock keeps a folder for one process, until its end however that comes.
package filelock

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld says that another process has the lock.
var ErrHeld = errors.New("another process uses it")

const (
	// patience is how long a lock is waited for. The process that had it may have been killed
	// while a child of its, which had all its files open, was about to become another program.
	patience = 3 * time.Second
	again    = 20 * time.Millisecond
)

// Take locks a file, which it makes where there is none, until unlock or the end of the process.
func Take(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for begin := time.Now(); ; time.Sleep(again) {
		switch err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return f.Close, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			if time.Since(begin) < patience {
				continue
			}
			err = ErrHeld
		}
		return nil, errors.Join(err, f.Close())
	}
}
