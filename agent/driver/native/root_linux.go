package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/native/image"
	"github.com/ohmcell/ohm/pkg/task"
)

// defaultImageBytes is what images may take that no task uses, and what one layer may.
const defaultImageBytes = 20 << 30

// scratchTarget is where a task with an image finds its scratch folder.
const scratchTarget = "/scratch"

// boxDir is where a task with an image keeps its root.
const boxDir = "box"

// root is the root file system of a task with an image.
type root struct {
	Store  string   // folder of the layers, which go by their names: all paths would be too long
	Layers []string // the lowest first
	Config image.Config
}

// furnish has the image ready of a task that has one, and completes its spec. The task's
// lock is held. Kill ends it.
func (d *Driver) furnish(ctx context.Context, id string) error {
	path := filepath.Join(d.folder(id), specFile)
	sp, err := folder.Read[spec](path)
	if err != nil || sp.Task == nil {
		return err
	}
	t := *sp.Task
	by := t.StartBy
	if by.IsZero() {
		by = time.Now().Add(startTimeout)
	}
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	d.mu.Lock()
	d.starts[id] = cancel
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.starts, id)
		d.mu.Unlock()
	}()
	killed := func() bool { return folder.Killed(d.folder(id)) }
	var img image.Image
	if !killed() {
		img, err = d.image(ctx, t.Image)
		defer img.Release()
	}
	if killed() {
		return errors.New("killed while it started")
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", t.Image, err)
	}
	if sp.Root, err = rootOf(img, t); err != nil {
		return err
	}
	sp.Command, sp.Env, sp.Box = sp.Root.inside(t)
	sp.Task = nil
	return folder.Write(path, sp)
}

// The first and the longest pause between two tries to get an image.
const (
	firstTry = 250 * time.Millisecond
	lastTry  = 10 * time.Second
)

// image is the image, as soon as its registry gives it.
func (d *Driver) image(ctx context.Context, name string) (image.Image, error) {
	kind, of := driver.ImageKind(name)
	for pause := firstTry; ; pause = min(2*pause, lastTry) {
		img, err := d.images.Load(ctx, kind, of)
		if !errors.Is(err, image.ErrAway) {
			return img, err
		}
		if waitErr := driver.Pause(ctx, pause); waitErr != nil {
			return img, fmt.Errorf("not here in time: %w: %w", waitErr, err)
		}
	}
}

// rootOf is the root file system of a task with an image.
func rootOf(img image.Image, t driver.Task) (root, error) {
	r := root{Config: img.Config}
	for _, layer := range img.Layers {
		r.Store = filepath.Dir(layer)
		r.Layers = append(r.Layers, image.Name(layer))
	}
	if len(r.Layers) == 0 {
		return root{}, fmt.Errorf("image %s: %w: it has no layers", t.Image, image.ErrBroken)
	}
	if len(t.Command) == 0 && len(img.Config.Entrypoint)+len(img.Config.Cmd) == 0 {
		return root{}, fmt.Errorf("neither the task nor the image %s names a command", t.Image)
	}
	return r, nil
}

// sweepImages removes what no task uses of the images, as far as it is too much.
func (d *Driver) sweepImages() error {
	ids, err := folder.IDs(d.tasks)
	if err != nil {
		return err
	}
	inUse := map[string]bool{}
	for _, id := range ids {
		sp, err := folder.Read[spec](filepath.Join(d.folder(id), specFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // nobody knows what it uses
		}
		for _, layer := range sp.Root.Layers {
			inUse[layer] = true
		}
	}
	return d.images.Sweep(d.imageBytes, inUse)
}

// imageEnd is how a task ends whose image cannot be had.
func imageEnd(err error) folder.Exit {
	e := failed(err)
	switch {
	case errors.Is(err, image.ErrBroken):
	case errors.Is(err, context.DeadlineExceeded):
		e.Cause = task.StartDeadline
	case errors.Is(err, fs.ErrNotExist):
		e.Cause = task.ImageNotFound
	case errors.Is(err, fs.ErrPermission):
		e.Cause = task.ImageDenied
	}
	return e
}

// inside is the task with what its image says where it says nothing itself. A task's command
// is all of it: an image's entrypoint is not put before it.
func (r root) inside(t driver.Task) (command, env []string, box driver.Box) {
	box = t.Box
	box.Mounts = slices.Clone(box.Mounts)
	for _, node := range t.DeviceNodes {
		box.Mounts = append(box.Mounts, driver.Mount{Source: node, Target: node})
	}
	for _, file := range t.DeviceFiles {
		box.Mounts = append(box.Mounts, driver.Mount{Source: file, Target: file, ReadOnly: true})
	}
	if command = t.Command; len(command) == 0 {
		command = slices.Concat(r.Config.Entrypoint, r.Config.Cmd)
	}
	all := map[string]string{}
	for _, line := range r.Config.Env {
		if name, value, ok := strings.Cut(line, "="); ok {
			all[name] = value
		}
	}
	for name, value := range t.Env {
		all[name] = value
	}
	if box.User == "" {
		box.User = r.Config.User
	}
	if box.Dir == "" {
		box.Dir = r.Config.WorkingDir
	}
	return command, environment(all, scratchTarget), box
}

// folder is where the command begins.
func (sp spec) folder() string {
	switch {
	case sp.Box.Dir != "":
		return sp.Box.Dir
	case len(sp.Root.Layers) > 0:
		return scratchTarget
	}
	return sp.Scratch
}

// enter makes the image the root of the mount namespace, for all who are in it. What was
// mounted before is out of reach then; before is called when it still is not.
func (r root) enter(b driver.Box, scratch string, before func() error) error {
	dir := filepath.Join(filepath.Dir(scratch), boxDir)
	at := filepath.Join(dir, "root")
	for _, d := range []string{dir, at, filepath.Join(dir, "upper"), filepath.Join(dir, "work")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := r.overlay(dir, at); err != nil {
		return err
	}
	inside, err := openInside(at)
	if err != nil {
		return err
	}
	defer inside.close()
	if err := inside.usual(); err != nil {
		return err
	}
	mounts := []driver.Mount{{Source: scratch, Target: scratchTarget}}
	for _, name := range []string{"/etc/resolv.conf", "/etc/hosts"} { // the network is the node's
		if folder.Exists(name) {
			mounts = append(mounts, driver.Mount{Source: name, Target: name, ReadOnly: true})
		}
	}
	for _, m := range append(mounts, b.Mounts...) {
		if err := inside.mount(m); err != nil {
			return err
		}
	}
	if b.ReadOnlyRoot {
		if err := setReadOnly(at, true, 0); err != nil {
			return fmt.Errorf("make the root read-only: %w", err)
		}
	}
	// The old root comes to lie over the new one, and is taken off (pivot_root(2)).
	err = errors.Join(before(), os.Chdir(at))
	if err == nil {
		err = unix.PivotRoot(".", ".")
	}
	if err == nil {
		err = errors.Join(unix.Unmount(".", unix.MNT_DETACH), os.Chdir("/"))
	}
	if err != nil {
		return fmt.Errorf("enter the image: %w", err)
	}
	return nil
}

// overlay mounts the layers, with a folder above them for what is written. Layers are given
// by name, in their folder, for a mount takes no more than a page of options.
func (r root) overlay(dir, at string) error {
	if err := os.Chdir(r.Store); err != nil {
		return err
	}
	lower := slices.Clone(r.Layers)
	slices.Reverse(lower)
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(lower, ":"), filepath.Join(dir, "upper"), filepath.Join(dir, "work"))
	if len(options) >= os.Getpagesize() {
		return fmt.Errorf("the image has too many layers: %d", len(lower))
	}
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("put the image's layers over each other: %w", err)
	}
	return nil
}

// inside is a root file system from without: no link in it leads out of it.
type inside struct {
	at   string
	root *os.Root
	fd   int
}

func openInside(at string) (inside, error) {
	root, err := os.OpenRoot(at)
	if err != nil {
		return inside{}, err
	}
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		root.Close()
		return inside{}, err
	}
	return inside{at, root, fd}, nil
}

func (i inside) close() {
	i.root.Close()
	unix.Close(i.fd)
}

// target is a path by which to mount at a place inside, which is made if it is not there;
// closing gives it up.
func (i inside) target(name string, isDir bool) (by string, closing func(), err error) {
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
func (i inside) mount(m driver.Mount) error {
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
func (i inside) usual() error {
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

func (i inside) bind(source, target string, readOnly bool) error {
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
