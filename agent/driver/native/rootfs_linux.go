package native

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
)

// rootFS is a root file system from without: no link in it leads out of it.
type rootFS struct {
	at   string
	root *os.Root
	fd   int
}

func openRoot(at string) (rootFS, error) {
	root, err := os.OpenRoot(at)
	if err != nil {
		return rootFS{}, err
	}
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		root.Close()
		return rootFS{}, err
	}
	return rootFS{at, root, fd}, nil
}

func (i rootFS) close() {
	i.root.Close()
	unix.Close(i.fd)
}

// target is a path by which to mount at a place inside, which is made if it is not there;
// closing gives it up.
func (i rootFS) target(name string, isDir bool) (by string, closing func(), err error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(i.fd, name, how)
	if err == unix.ENOENT {
		relative := strings.TrimPrefix(path.Clean(name), "/")
		if isDir {
			err = i.root.MkdirAll(relative, 0o755)
		} else if err = i.root.MkdirAll(path.Dir(relative), 0o755); err == nil {
			err = i.root.WriteFile(relative, nil, 0o644)
		}
		if err != nil {
			return "", nil, err
		}
		fd, err = unix.Openat2(i.fd, name, how)
	}
	if err != nil {
		return "", nil, fmt.Errorf("find %s in the image: %w", name, err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { unix.Close(fd) }, nil
}

// mount mounts what the task asks for.
func (i rootFS) mount(m driver.Mount) error {
	isDir := true
	if m.Source != "" {
		info, err := os.Stat(m.Source)
		if err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
		}
		isDir = info.IsDir()
	}
	by, closing, err := i.target(m.Target, isDir)
	if err != nil {
		return err
	}
	defer closing()
	target := m.Target
	if m.Target = by; m.Source == "" {
		return bindMount(m)
	}
	err = unix.Mount(m.Source, by, "", unix.MS_BIND|unix.MS_REC, "")
	if err == nil {
		again, closing, err2 := i.target(target, isDir) // what is mounted there now
		if err2 != nil {
			return err2
		}
		defer closing()
		err = setReadOnly(again, m.ReadOnly, 0)
	}
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.Source, target, err)
	}
	return nil
}

// usual mounts what every container has: its own /proc and /dev, and the node's /sys to be
// read; of what would let it change or see the node there is nothing, or nothing to write.
func (i rootFS) usual() error {
	const quiet = unix.MS_NOSUID | unix.MS_NOEXEC
	for _, m := range []struct {
		kind, at, options string
		flags             uintptr
	}{
		{"proc", "/proc", "", quiet | unix.MS_NODEV},
		{"sysfs", "/sys", "", quiet | unix.MS_NODEV | unix.MS_RDONLY},
		{"tmpfs", "/dev", "mode=755,size=64k", quiet},
		{"devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=0620,gid=5", quiet},
		{"tmpfs", "/dev/shm", "mode=1777,size=64m", quiet | unix.MS_NODEV},
	} {
		by, closing, err := i.target(m.at, true)
		if err != nil {
			return err
		}
		err = unix.Mount(m.kind, by, m.kind, m.flags, m.options)
		closing()
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := i.bind("/dev/"+name, "/dev/"+name, false); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, filepath.Join(i.at, "dev", name)); err != nil { // /dev is the box's own, and empty
			return err
		}
	}
	for _, name := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"} {
		if folder.Exists(filepath.Join(i.at, name)) {
			if err := i.bind(filepath.Join(i.at, name), name, true); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug"} {
		if folder.Exists(filepath.Join(i.at, name)) {
			if err := i.bind("/dev/null", name, false); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"/proc/acpi", "/proc/scsi", "/sys/firmware"} {
		if folder.Exists(filepath.Join(i.at, name)) {
			if err := i.mount(driver.Mount{Target: name, ReadOnly: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i rootFS) bind(source, target string, readOnly bool) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	by, closing, err := i.target(target, info.IsDir())
	if err != nil {
		return err
	}
	defer closing()
	if err := unix.Mount(source, by, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, target, err)
	}
	if !readOnly {
		return nil
	}
	again, closing, err := i.target(target, info.IsDir())
	if err != nil {
		return err
	}
	defer closing()
	return setReadOnly(again, true, 0)
}
