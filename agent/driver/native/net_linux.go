package native

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/agent/driver/publish"
	"github.com/ohmcell/ohm/agent/driver/thread"
)

// publish reads what is to be run, and listens on the ports that it is reached at. A port that
// somebody has is a PortBusyError.
func (t *tended) publish() (listeners []net.Listener, err error) {
	if t.spec, err = folder.Read[spec](filepath.Join(t.dir, specFile)); err != nil {
		return nil, err
	}
	listeners, busy, err := publish.Listen(t.spec.Publish)
	if busy != nil {
		err = errors.Join(err, &driver.PortBusyError{Ports: busy})
	}
	return listeners, err
}

// dialIn connects to a port on 127.0.0.1 in the network of a process.
func dialIn(ctx context.Context, of proc.Process, port int32) (net.Conn, error) {
	handle, err := of.Open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(handle)
	return publish.Dial(ctx, handle, port)
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
		return publish.DialHere(ctx, port)
	}
	st, err := folder.Read[state](filepath.Join(d.folder(id), stateFile))
	if err != nil || !st.begun() {
		return nil, fmt.Errorf("task %s is only starting: %w", id, driver.ErrNotRunning)
	}
	for _, init := range slices.Backward(st.inits()) { // they are all in one network
		conn, err := dialIn(ctx, init, port)
		if !errors.Is(err, proc.ErrGone) {
			return conn, err
		}
	}
	return nil, fmt.Errorf("task %s: %w", id, driver.ErrNotRunning)
}

// network makes the network that the containers of the task are in, if it has one of its own.
// It is there for as long as the file is open, or anything in it.
func (t *tended) network() (err error) {
	if !t.spec.OwnNetwork {
		return nil
	}
	thread.Run(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("make a network: %w", err)
			return
		}
		if err = publish.LoopbackUp(); err == nil {
			t.net, err = os.Open("/proc/thread-self/ns/net")
		}
	})
	return err
}

// dial connects to a port on 127.0.0.1 in the task's network.
func (t *tended) dial(ctx context.Context, port int32) (net.Conn, error) {
	return publish.Dial(ctx, int(t.net.Fd()), port)
}
