package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
)

// A task with a network of its own has a network namespace in which there is the loopback
// interface and nothing else. Its shim listens on its ports, on the node, and passes each
// connection on to the same port inside. So everything of it lives and ends with the shim: it
// outlives the agent, and there is no interface, rule or process to be left behind.

// Bounds of what a shim passes on.
const (
	passMost = 1024            // connections at the same time; more wait to be accepted
	passDial = 5 * time.Second // for the task to take one
)

// publish listens on the task's ports, on the node. A port that somebody has is a
// PortBusyError.
func publish(ports []int32) (listeners []net.Listener, err error) {
	var busy driver.PortBusyError
	for _, port := range ports {
		l, listenErr := net.Listen("tcp", fmt.Sprintf(":%d", port))
		switch {
		case errors.Is(listenErr, unix.EADDRINUSE):
			busy.Ports = append(busy.Ports, port)
		case listenErr != nil:
			err = errors.Join(err, listenErr)
		default:
			listeners = append(listeners, l)
		}
	}
	if busy.Ports != nil {
		err = errors.Join(err, &busy)
	}
	if err != nil {
		unpublish(listeners)
		return nil, err
	}
	return listeners, nil
}

func unpublish(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close() // who waits to be accepted is told so by the kernel
	}
}

// pass serves what is published until the listeners are closed, in the network of the
// process. What is under way then ends with the shim.
func pass(listeners []net.Listener, of process) {
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
					_ = driver.Pause(context.Background(), 100*time.Millisecond) // it does not end
					continue
				}
				go func() {
					defer func() { <-slots }()
					defer outside.Close()
					ctx, cancel := context.WithTimeout(context.Background(), passDial)
					defer cancel()
					inside, err := dialIn(ctx, of, port)
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

// dialIn connects to a port on 127.0.0.1 in the network of a process.
func dialIn(ctx context.Context, of process, port int32) (conn net.Conn, err error) {
	handle, err := of.open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(handle)
	// A socket belongs to the network in which it is made, whoever has it afterwards. Dialing
	// one address makes it on the thread of the caller.
	onOtherThread(func() {
		if err = unix.Setns(handle, unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("join the task's network: %w", err)
			return
		}
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	})
	return conn, err
}

// loopbackUp brings up the one interface of a new network, the caller's.
func loopbackUp() error {
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

// Dial connects to a port of a running task: in its own network, if it has one.
func (d *Driver) Dial(ctx context.Context, id string, port int32) (net.Conn, error) {
	if err := folder.CheckID(id); err != nil {
		return nil, err
	}
	sp, err := folder.Read[spec](filepath.Join(d.folder(id), specFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("task %s: %w", id, driver.ErrNotRunning)
	}
	if err != nil {
		return nil, err
	}
	if !sp.OwnNetwork {
		var node net.Dialer
		return node.DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	}
	st, err := folder.Read[state](filepath.Join(d.folder(id), stateFile))
	if err != nil || st.Init.Pid == 0 {
		return nil, fmt.Errorf("task %s is only starting: %w", id, driver.ErrNotRunning)
	}
	conn, err := dialIn(ctx, st.Init, port)
	if errors.Is(err, errGone) {
		err = fmt.Errorf("task %s: %w", id, driver.ErrNotRunning)
	}
	return conn, err
}
