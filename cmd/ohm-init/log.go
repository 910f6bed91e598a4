//go:build linux

package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ohmcell/ohm/agent/driver/segment"
)

// logVerb makes this program write logs. The shim that starts it passes one word and its
// value, as it finds them in the container's address for logs.
const logVerb = "log"

// Files that containerd's shim hands to a program for logs.
const (
	shimStdout = 3 + iota
	shimStderr
	shimReady // closed when the container may begin
)

// writeLogs writes what the container says until it has said all. The shim asks it to end
// when the container has; what has been said by then is written first.
func writeLogs(target string) error {
	over := make(chan struct{})
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	// Nothing else that is sent to the shim's group ends it before its time.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	dir, limits, err := segment.ParseTarget(target)
	if err != nil {
		return err
	}
	var pipes []*os.File
	var writers []*segment.Writer
	for _, of := range []struct {
		fd     int
		stream string
	}{{shimStdout, segment.Stdout}, {shimStderr, segment.Stderr}} {
		if err := syscall.SetNonblock(of.fd, true); err != nil {
			return fmt.Errorf("%s of the container: %w", of.stream, err)
		}
		w, err := segment.Open(dir, of.stream, limits)
		if err != nil {
			return err
		}
		pipes, writers = append(pipes, os.NewFile(uintptr(of.fd), of.stream)), append(writers, w)
	}
	if err := syscall.Close(shimReady); err != nil {
		return err
	}
	go func() { <-asked; close(over) }()
	segment.Copy(pipes, writers, over)
	return nil
}
