package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
)

// runcRoot is where runc, under a shim, keeps what it knows of containers.
const runcRoot = "/run/containerd/runc"

// shimFor is how long a shim may take to end by itself once its container is deleted.
const shimFor = 2 * time.Second

// endShim ends the shim of a container that containerd has forgotten. A daemon that is killed,
// or not waited for, while it creates a process leaves one: it is in no list of the daemon's.
func (d *Driver) endShim(ctx context.Context, container string) error {
	for begin := time.Now(); ; {
		pid := d.shims()[container]
		if pid == 0 {
			return errors.Join(d.unmountRoot(container), os.RemoveAll(filepath.Join(runcRoot, d.namespace, container)))
		}
		if time.Since(begin) > shimFor {
			if handle, err := unix.PidfdOpen(pid, 0); err == nil {
				if d.shimOf(pid) == container { // now that the pid cannot be another's
					err = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0)
				}
				if err = errors.Join(err, unix.Close(handle)); err != nil && !errors.Is(err, unix.ESRCH) {
					return fmt.Errorf("end the shim of container %s: %w", container, err)
				}
			}
		}
		if err := driver.Pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the shim of container %s does not end: %w", container, err)
		}
	}
}

// doubt is how long a container's shim may live that containerd says it does not know.
const doubt = 10 * time.Second

// doubtful says whether it is too early to believe that containerd does not know a container.
func (d *Driver) doubtful(container string) bool {
	there := d.shims()[container] != 0
	d.mu.Lock()
	defer d.mu.Unlock()
	since, known := d.doubts[container]
	switch {
	case !there, known && time.Since(since) > doubt:
		delete(d.doubts, container)
		return false
	case !known:
		d.doubts[container] = time.Now()
	}
	return true
}

// shims are the living shims in the agent's namespace, by container.
func (d *Driver) shims() map[string]int {
	pids, _ := proc.Pids() // without them there is nothing to be seen
	all := map[string]int{}
	for _, pid := range pids {
		if container := d.shimOf(pid); container != "" {
			all[container] = pid
		}
	}
	return all
}

// shimOf is the container of which the process is the shim, in the agent's namespace; empty:
// it is none, or has ended.
func (d *Driver) shimOf(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") {
		return ""
	}
	value := map[string]string{}
	for i := 1; i+1 < len(args); i++ {
		value[args[i]] = args[i+1]
	}
	if value["-namespace"] != d.namespace {
		return ""
	}
	return value["-id"]
}

// unmountRoot takes away a container's root that no shim is there to unmount any more. Only
// containerd knows where its bundles are; what they are called is known.
func (d *Driver) unmountRoot(container string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	end := fmt.Sprintf("/io.containerd.runtime.v2.task/%s/%s/rootfs", d.namespace, container)
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) > 4 && strings.HasSuffix(f[4], end) {
			point := folder.Unescape(f[4])
			if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("unmount %s: %w", point, err)
			}
		}
	}
	return nil
}
