// Package publish lets a task be reached that has a network of its own: a network namespace in
// which there is the loopback interface and nothing else. Some process of each such task
// listens on the task's ports, on the node, and passes each connection on to the same port
// inside. So everything of it lives and ends with that process, which outlives the agent, and
// there is no interface, rule or mount to be left behind.
//
// For the native driver that process is the task's shim, for containerd's it is an ohm-init
// under the verb net. The latter is small, so this package knows nothing of what a driver is.
package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver/thread"
)

// Bounds of what is passed on for one task.
const (
	passMost = 1024            // connections at the same time; more wait to be accepted
	passDial = 5 * time.Second // for the task to take one
)

// Listen listens on the ports, on the node. Where somebody has one of them (busy) or anything
// else is wrong, it listens on none.
func Listen(ports []int32) (listeners []net.Listener, busy []int32, err error) {
	for _, port := range ports {
		l, listenErr := net.Listen("tcp", fmt.Sprintf(":%d", port))
		switch {
		case errors.Is(listenErr, unix.EADDRINUSE):
			busy = append(busy, port)
		case listenErr != nil:
			err = errors.Join(err, listenErr)
		default:
			listeners = append(listeners, l)
		}
	}
	if busy != nil || err != nil {
		Close(listeners)
		return nil, busy, err
	}
	return listeners, nil, nil
}

// Close ends the listening: who waits to be accepted is told so by the kernel.
func Close(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// Pass serves what is published until the listeners are closed, by what dial connects to for a
// port. It returns at once; what is under way at the end goes on until the process ends.
func Pass(listeners []net.Listener, dial func(ctx context.Context, port int32) (net.Conn, error)) {
	slots := make(chan struct{}, passMost)
	for _, l := range listeners {
		go func() {
			port := int32(l.Addr().(*net.TCPAddr).Port)
			for {
				slots <- struct{}{}
				outside, err := l.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err != nil { // such as no file left: later there is one
					<-slots
					time.Sleep(100 * time.Millisecond)
					continue
				}
				go func() {
					defer func() { <-slots }()
					defer outside.Close()
					ctx, cancel := context.WithTimeout(context.Background(), passDial)
					defer cancel()
					inside, err := dial(ctx, port)
					if err != nil {
						return // the task does not listen: whoever has come sees its connection end
					}
					defer inside.Close()
					copyBoth(outside, inside)
				}()
			}
		}()
	}
}

// copyBoth copies both ways until both ends have said all.
func copyBoth(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, err := io.Copy(way[0], way[1])
			if end, ok := way[0].(interface{ CloseWrite() error }); ok && err == nil {
				_ = end.CloseWrite() // it may be gone
				return
			}
			_ = way[0].Close() // one way that is broken ends the other
			_ = way[1].Close()
		})
	}
	both.Wait()
}

// In runs f on a thread of its own in the network of a process, of which handle is a pidfd, or of which it is the namespace. A
// socket belongs to the network in which it is made, whoever has it afterwards, and so does a
// process.
func In(handle int, f func() error) (err error) {
	thread.Run(func() {
		if err = unix.Setns(handle, unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("join the task's network: %w", err)
			return
		}
		err = f()
	})
	return err
}

// Dial connects to a port on 127.0.0.1 in a network, of which handle is as for In.
func Dial(ctx context.Context, handle int, port int32) (conn net.Conn, err error) {
	err = In(handle, func() error {
		conn, err = DialHere(ctx, port) // one address: its socket is made on this thread
		return err
	})
	return conn, err
}

// DialHere is Dial in the caller's own network.
func DialHere(ctx context.Context, port int32) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
}

// LoopbackUp brings up the one interface of a new network, the caller's. It may be up.
func LoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	return nil
}

// Try says whether this process may make a network.
func Try() (err error) {
	thread.Run(func() { err = unix.Unshare(unix.CLONE_NEWNET) })
	return err
}
