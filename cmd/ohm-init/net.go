//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/ohmcell/ohm/agent/driver/publish"
)

// netVerb makes this program the keeper of a task's network, in which it is started: the
// network is there as long as it is, and connections to the task's ports are passed on into it.
const netVerb = "net"

// Files that the driver hands to it.
const (
	netReady     = 3 + iota // to say "ready" on, or what is wrong
	netListeners            // and so on: listen on the node
)

// keepNetwork ends only by a signal, or with an error before it was ready.
func keepNetwork(listeners string) error {
	// The terminal of whoever has started the agent is not this process's.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	ready := os.NewFile(netReady, "ready")
	all, err := openNetwork(listeners)
	if err != nil {
		_, _ = fmt.Fprint(ready, oneLine(err)) // whoever asks may be gone
		return err
	}
	publish.Pass(all, publish.DialHere)
	_, _ = fmt.Fprint(ready, "ready")
	ready.Close()
	select {}
}

// openNetwork takes over the given number of listeners, and brings the network up.
func openNetwork(number string) (all []net.Listener, err error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	for fd := netListeners; fd < netListeners+n; fd++ {
		f := os.NewFile(uintptr(fd), "listener")
		l, err := net.FileListener(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, publish.LoopbackUp()
}
