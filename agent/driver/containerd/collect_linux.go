package containerd

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver/folder"
)

// Images are collected when there are too many, the ones used longest ago first: the agent's
// namespace holds nobody else's. What is in use stays, whatever it takes.

// defaultImageBytes is what images may take.
const defaultImageBytes = 20 << 30

const (
	// collectEvery is how long a collection is good for.
	collectEvery = time.Minute
	// justUsed is how long an image stays that was used: a container is about to be made of it.
	justUsed = time.Minute
)

// labelUsed of an image is when a task last used it; its change is the image's UpdatedAt.
const labelUsed = "ohm.used"

// used notes that a task is about to use an image.
func (d *Driver) used(ctx context.Context, name string) error {
	_, err := d.client.ImageService().Update(ctx, images.Image{
		Name: name, Labels: map[string]string{labelUsed: folder.Now().Format(time.RFC3339Nano)},
	}, "labels."+labelUsed)
	return err
}

// collect removes images beyond the limit, if it was not done a moment ago.
func (d *Driver) collect(ctx context.Context) {
	d.mu.Lock()
	due := time.Since(d.collected) >= collectEvery
	if due {
		d.collected = time.Now()
	}
	d.mu.Unlock()
	if !due {
		return
	}
	limit := d.conf.ImageBytes
	if limit == 0 {
		limit = defaultImageBytes
	}
	if err := d.collectTo(ctx, limit, time.Now().Add(-justUsed)); err != nil { // the next one tries again
		d.log.Warn("images cannot be collected", zap.Error(err))
	}
}

// collectTo removes images that no container is of, and that were last used before a time,
// until all that are left take at most limit bytes. Layers that several share are counted for
// each.
func (d *Driver) collectTo(ctx context.Context, limit int64, before time.Time) error {
	boxes, err := d.client.ContainerService().List(ctx)
	if err != nil {
		return err
	}
	inUse := map[string]bool{}
	for _, box := range boxes {
		inUse[box.Image] = true
	}
	all, err := d.client.ImageService().List(ctx)
	if err != nil {
		return err
	}
	sizes, total := map[string]int64{}, int64(0)
	for _, img := range all {
		size, err := client.NewImage(d.client, img).Usage(ctx, client.WithSnapshotUsage())
		if err != nil && !errdefs.IsNotFound(err) {
			return err
		}
		sizes[img.Name] = size
		total += size
	}
	var errs []error
	slices.SortFunc(all, func(a, b images.Image) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	for _, img := range all {
		if total <= limit {
			break
		}
		if inUse[img.Name] || img.UpdatedAt.After(before) {
			continue
		}
		if err := d.client.ImageService().Delete(ctx, img.Name, images.SynchronousDelete()); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
			continue
		}
		d.log.Info("an image is removed that was not used for long", zap.String("image", img.Name))
		total -= sizes[img.Name]
	}
	return errors.Join(errs...)
}
