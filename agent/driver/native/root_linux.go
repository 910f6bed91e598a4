package native

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/native/image"
)

// scratchTarget is where a task with an image finds its scratch folder.
const scratchTarget = "/scratch"

// boxDir is where a container with an image keeps its root, in the task's folder. That of one
// that is not the main one goes by its name, too.
const boxDir = "box"

// root is the root file system of a container with an image.
type root struct {
	Store  string   // folder of the layers, which go by their names: all paths would be too long
	Layers []string // the lowest first
	Dir    string   // name of the folder in which it is mounted and written to
	Hooks  []driver.Hook
}

// inside is a container of a task in its image, which says what the container leaves out.
func inside(img image.Image, t driver.Task, c driver.Container) (program, error) {
	p := program{Name: c.Name, Role: c.Role, Box: c.Box, Root: root{Dir: boxDir, Hooks: t.Hooks}}
	if c.Role != driver.Main {
		p.Root.Dir += "-" + c.Name
	}
	for _, layer := range img.Layers {
		p.Root.Store = filepath.Dir(layer)
		p.Root.Layers = append(p.Root.Layers, image.Name(layer))
	}
	if len(p.Root.Layers) == 0 {
		return p, fmt.Errorf("image %s: %w: it has no layers", c.Image, image.ErrBroken)
	}
	var err error
	if p.Command, err = driver.CommandOf(c, img.Config.Entrypoint, img.Config.Cmd); err != nil {
		return p, err
	}
	p.Env = driver.Environment(img.Config.Env, c.Env, scratchTarget)
	p.Box.User = cmp.Or(c.User, img.Config.User)
	p.Box.Dir = cmp.Or(c.Dir, img.Config.WorkingDir)
	p.Box.Mounts = slices.Clone(c.Mounts)
	for _, node := range t.DeviceNodes {
		p.Box.Mounts = append(p.Box.Mounts, driver.Mount{Source: node, Target: node})
	}
	for _, file := range t.DeviceFiles {
		p.Box.Mounts = append(p.Box.Mounts, driver.Mount{Source: file, Target: file, ReadOnly: true})
	}
	return p, nil
}

// enter makes the image the root of the mount namespace, for all who are in it. What was
// mounted before is out of reach then; before is called when it still is not.
func (r root) enter(b driver.Box, scratch string, before func() error) error {
	dir := filepath.Join(filepath.Dir(scratch), r.Dir)
	at := filepath.Join(dir, "root")
	for _, d := range []string{dir, at, filepath.Join(dir, "upper"), filepath.Join(dir, "work")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := r.overlay(dir, at); err != nil {
		return err
	}
	in, err := openRoot(at)
	if err != nil {
		return err
	}
	defer in.close()
	if err := in.usual(); err != nil {
		return err
	}
	mounts := []driver.Mount{{Source: scratch, Target: scratchTarget}}
	for _, name := range []string{"/etc/resolv.conf", "/etc/hosts"} { // the network is the node's
		if folder.Exists(name) {
			mounts = append(mounts, driver.Mount{Source: name, Target: name, ReadOnly: true})
		}
	}
	for _, m := range append(mounts, b.Mounts...) {
		if err := in.mount(m); err != nil {
			return err
		}
	}
	for _, h := range r.Hooks {
		if err := runHook(h, dir, at); err != nil {
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
