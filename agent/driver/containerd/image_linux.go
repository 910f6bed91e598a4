package containerd

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/registry"
	"github.com/ohmcell/ohm/pkg/task"
)

// snapshotter that gives containers their root file systems.
const snapshotter = "overlayfs"

// The first and the longest pause between two tries to get an image.
const (
	firstTry = 250 * time.Millisecond
	lastTry  = 10 * time.Second
)

// image has the image ready for containers to be made of it. It gives up at once what
// cannot get better, and at the end of ctx, by StartDeadline, what could.
func (d *Driver) image(ctx context.Context, name string) (client.Image, error) {
	kind, of := driver.ImageKind(name)
	// One at a time: containerd has those that fetch the same wait for each other so long that
	// none gets it in time. Whoever comes next finds it here.
	done, err := d.fetch(ctx, name)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, &driver.Failure{Cause: task.StartDeadline, Err: fmt.Errorf("image %s: not here in time: %w", name, err)}
	}
	defer done()
	for pause := firstTry; ; pause = min(2*pause, lastTry) {
		var img client.Image
		var err error
		switch kind {
		case driver.RegistryImage:
			img, err = d.pull(ctx, of)
		case driver.LayoutImage, driver.TarImage:
			img, err = d.load(ctx, kind, of)
		default:
			return nil, fmt.Errorf("a container of containerd needs an image")
		}
		if err == nil {
			err = d.used(ctx, img.Name())
		}
		if err == nil {
			return img, nil
		}
		err = fmt.Errorf("image %s: %w", name, err)
		d.unclean() // what was unpacked of it
		if cause := imageCause(err); cause != "" {
			return nil, &driver.Failure{Cause: cause, Err: err}
		}
		if ctx.Err() == nil && driver.Pause(ctx, pause) == nil {
			continue
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, err
		}
		return nil, &driver.Failure{Cause: task.StartDeadline, Err: fmt.Errorf("not here in time: %w", err)}
	}
}

// fetch waits until nobody else fetches that image, and keeps others from it until done.
func (d *Driver) fetch(ctx context.Context, name string) (done func(), err error) {
	for {
		d.mu.Lock()
		busy := d.fetches[name]
		if busy == nil {
			over := make(chan struct{})
			d.fetches[name] = over
			d.mu.Unlock()
			return func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				delete(d.fetches, name)
				close(over)
			}, nil
		}
		d.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// errBroken says that an image will not become better by trying again.
var errBroken = errors.New("it is no image")

// imageCause is the cause of an error that is final; empty: the next try may be luckier.
func imageCause(err error) string {
	meaning := registry.Meaning(err)
	switch {
	case meaning == fs.ErrPermission, errors.Is(err, fs.ErrPermission):
		return task.ImageDenied
	case meaning == fs.ErrNotExist, errors.Is(err, fs.ErrNotExist):
		return task.ImageNotFound
	case errors.Is(err, errBroken), errdefs.IsInvalidArgument(err):
		return task.StartFailed
	}
	return ""
}

// pull gets a registry's image, if it is not here.
func (d *Driver) pull(ctx context.Context, ref string) (client.Image, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	if img, err := d.unpacked(ctx, named.String()); err == nil || !errdefs.IsNotFound(err) {
		return img, err
	}
	return d.client.Pull(ctx, named.String(), client.WithPullUnpack, client.WithPullSnapshotter(snapshotter), client.WithResolver(registry.Resolver(d.conf.RegistryAuth)))
}

// unpacked is an image that containerd has, with its snapshots; errdefs' NotFound if it
// has it not.
func (d *Driver) unpacked(ctx context.Context, name string) (client.Image, error) {
	img, err := d.client.GetImage(ctx, name)
	if err != nil {
		return nil, err
	}
	ready, err := img.IsUnpacked(ctx, snapshotter)
	if err == nil && !ready {
		err = img.Unpack(ctx, snapshotter)
	}
	return img, err
}

// load imports a layout or a tar, unless the same one was imported before: its index, which
// names everything in it by digest, is its name.
func (d *Driver) load(ctx context.Context, kind driver.Kind, from string) (client.Image, error) {
	key, err := indexOf(kind, from)
	if err != nil {
		return nil, err
	}
	name := "ohm.local/" + key + ":imported"
	if img, err := d.unpacked(ctx, name); err == nil || !errdefs.IsNotFound(err) {
		return img, err
	}
	r, err := archive(kind, from)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := d.client.Import(ctx, r, client.WithIndexName(name)); err != nil {
		if away(err) || ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %v", errBroken, err) // what it misses may be "not found"
	}
	img, err := d.unpacked(ctx, name)
	if errdefs.IsNotFound(err) { // a blob: nothing has the digest that is asked for
		err = fmt.Errorf("%w: %v", errBroken, err)
	}
	return img, err
}

// indexOf is the hash of a layout's index.json (of a docker archive's manifest.json).
func indexOf(kind driver.Kind, from string) (string, error) {
	if kind == driver.LayoutImage {
		data, err := os.ReadFile(filepath.Join(from, "index.json"))
		return sumOf(data), err
	}
	f, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer f.Close()
	found := ""
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF && found != "" {
			return found, nil
		}
		if err != nil {
			return "", fmt.Errorf("%w: no index in %s: %w", errBroken, from, err)
		}
		switch path.Clean(h.Name) {
		case "index.json", "manifest.json":
			data, err := io.ReadAll(io.LimitReader(r, maxIndex))
			if err != nil {
				return "", err
			}
			if found = sumOf(data); path.Clean(h.Name) == "index.json" {
				return found, nil
			}
		}
	}
}

// maxIndex is more than any index has.
const maxIndex = 4 << 20

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// archive is a tar of the image.
func archive(kind driver.Kind, from string) (io.ReadCloser, error) {
	if kind == driver.TarImage {
		return os.Open(from)
	}
	r, w := io.Pipe()
	go func() { // ends with the reader at the latest
		t := tar.NewWriter(w)
		err := t.AddFS(os.DirFS(from))
		w.CloseWithError(errors.Join(err, t.Close()))
	}()
	return r, nil
}
