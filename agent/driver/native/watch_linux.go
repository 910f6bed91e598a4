package native

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
)

// rescan is how often Watch looks for tasks that another process has started.
const rescan = time.Second

// watch is one call of Watch.
type watch struct {
	bell   int            // an eventfd that ends its poll
	shims  map[string]int // pidfd by task id; noShim if the task has none any more
	driver *Driver
}

const noShim = -1

// wake makes the watch look again now.
func (w *watch) wake() {
	_, _ = unix.Write(w.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // a bell that is full rings already
}

// Watch names every task once when it is first seen, and again when its shim is gone.
// It returns nil when ctx ends.
func (d *Driver) Watch(ctx context.Context, changed func(id string)) error {
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch tasks: %w", err)
	}
	w := &watch{bell: bell, shims: map[string]int{}, driver: d}
	d.mu.Lock()
	d.watches = append(d.watches, w)
	d.mu.Unlock()
	rung := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { w.wake(); close(rung) })
	defer func() {
		if !stop() {
			<-rung // nobody rings a bell that is closed
		}
		d.mu.Lock()
		d.watches = slices.DeleteFunc(d.watches, func(o *watch) bool { return o == w })
		d.mu.Unlock()
		unix.Close(bell)
		for _, fd := range w.shims {
			if fd != noShim {
				unix.Close(fd)
			}
		}
	}()
	for ctx.Err() == nil {
		news, err := w.scan()
		if err != nil {
			return err
		}
		ended, err := w.poll(len(news) == 0)
		if err != nil {
			return err
		}
		d.reapShims()
		for _, id := range append(news, ended...) {
			changed(id)
		}
	}
	return nil
}

// scan takes up new tasks and drops those that were removed.
func (w *watch) scan() (news []string, err error) {
	ids, err := folder.IDs(w.driver.tasks)
	if err != nil {
		return nil, err
	}
	for id, fd := range w.shims {
		if _, found := slices.BinarySearch(ids, id); !found {
			if fd != noShim {
				unix.Close(fd)
			}
			delete(w.shims, id)
		}
	}
	for _, id := range ids {
		if _, known := w.shims[id]; known {
			continue
		}
		dir := w.driver.folder(id)
		held, err := folder.Held(dir)
		if err != nil {
			continue // it was removed, or the next scan may be luckier
		}
		if !held && unbegun(dir) {
			continue // Start may go on with it
		}
		fd := noShim
		if held {
			st, err := folder.Read[state](filepath.Join(dir, stateFile))
			if err != nil || st.Command.Pid == 0 {
				continue // only starting
			}
			if fd, err = st.Shim.Open(); errors.Is(err, proc.ErrGone) {
				fd = noShim
			} else if err != nil {
				return news, fmt.Errorf("watch task %s: %w", id, err)
			}
		}
		w.shims[id] = fd
		news = append(news, id)
	}
	return news, nil
}

// poll waits, at most until the next scan is due, for a shim to end.
func (w *watch) poll(wait bool) (ended []string, err error) {
	fds := []unix.PollFd{{Fd: int32(w.bell), Events: unix.POLLIN}}
	ids := []string{""}
	for id, fd := range w.shims {
		if fd != noShim {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			ids = append(ids, id)
		}
	}
	timeout := 0
	if wait {
		timeout = int(rescan.Milliseconds())
	}
	if _, err := unix.Poll(fds, timeout); err != nil && err != unix.EINTR {
		return nil, fmt.Errorf("watch tasks: %w", err)
	}
	if fds[0].Revents != 0 {
		_, _ = unix.Read(w.bell, make([]byte, 8)) // only to quiet it
	}
	for i, fd := range fds[1:] {
		if fd.Revents != 0 {
			id := ids[i+1]
			unix.Close(w.shims[id])
			w.shims[id] = noShim
			ended = append(ended, id)
		}
	}
	return ended, nil
}
