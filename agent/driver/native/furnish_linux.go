package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/native/image"
	"github.com/ohmcell/ohm/pkg/task"
)

// furnish has the images ready of a task that has any, and completes its spec. The task's
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
	for _, c := range t.All() {
		if c.Image == "" {
			continue
		}
		var img image.Image
		killed := folder.Killed(d.folder(id))
		if !killed {
			img, err = d.image(ctx, c.Image)
			defer img.Release() // when the spec says that it is in use
			killed = folder.Killed(d.folder(id))
		}
		if killed {
			return driver.ErrKilledEarly
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", c.Image, err)
		}
		p, err := inside(img, t, c)
		if err != nil {
			return err
		}
		sp.set(p)
	}
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
		for _, p := range sp.all() {
			for _, layer := range p.Root.Layers {
				inUse[layer] = true
			}
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
