package image

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver/folder"
)

// A layer stands in <digest>/, and how many bytes it takes in <digest>.json, written first.
const draftPrefix = ".draft-"

// layer adds a layer to the image, and unpacks it unless it is here.
func (s *Store) layer(ctx context.Context, img *Image, src source, d descriptor, diffID string) error {
	if _, err := blobName(d.Digest); err != nil {
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	// By what is in it: the same content is the same layer, however it was packed.
	if _, err := blobName(diffID); err != nil {
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	dir := filepath.Join(s.dir, strings.TrimPrefix(diffID, "sha256:"))
	s.pin(img, dir)
	if now := time.Now(); folder.Exists(dir) {
		return os.Chtimes(dir+".json", now, now)
	}
	r, err := src.blob(d)
	if err != nil {
		return broken(err)
	}
	defer r.Close()
	draft, err := os.MkdirTemp(s.dir, draftPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft) // it is gone by then, if all went well
	if err := os.Chmod(draft, 0o755); err != nil {
		return err
	}
	size, err := s.unpack(ctx, r, draft, d.Digest, diffID)
	if err != nil {
		return err
	}
	// By way of a draft of its own: several may be unpacking the same layer.
	if err := folder.Replace(dir+".json", draft+".json", size); err != nil {
		return err
	}
	if err := os.Rename(draft, dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return folder.SyncDir(s.dir)
}

// unpack fills a folder and compares both digests at the end: of what was packed, and of
// what was unpacked.
func (s *Store) unpack(ctx context.Context, r io.Reader, dir, digest, diffID string) (int64, error) {
	packed, plain := sha256.New(), sha256.New()
	blob := bufio.NewReader(io.TeeReader(r, packed))
	var content io.Reader = blob
	if magic, _ := blob.Peek(4); len(magic) > 1 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(blob)
		if err != nil {
			return 0, fmt.Errorf("%w: %v", ErrBroken, err)
		}
		content = z
	} else if slices.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		z, err := zstd.NewReader(blob, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return 0, fmt.Errorf("%w: %v", ErrBroken, err)
		}
		defer z.Close()
		content = z
	}
	counted := &counter{r: io.TeeReader(content, plain), ctx: ctx, left: s.max}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	u := unpacker{root: root}
	err = u.all(tar.NewReader(counted))
	if err == nil {
		_, err = io.Copy(io.Discard, counted) // what follows the last entry counts, too
	}
	if err == nil {
		_, err = io.Copy(io.Discard, blob)
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, unix.ENOSPC), errors.Is(err, ErrAway):
		return 0, err
	case err == nil:
		err = errors.Join(same(digest, packed.Sum(nil)), same(diffID, plain.Sum(nil)))
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %v", ErrBroken, err)
	}
	return s.max - counted.left, nil
}

// maxWindow bounds the memory that a layer packed by zstd takes to unpack: what its own
// program takes unless it is told otherwise.
const maxWindow = 128 << 20

// counter reads so many bytes and no more, and ends with its context.
type counter struct {
	r    io.Reader
	ctx  context.Context
	left int64
}

func (c *counter) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if c.left <= 0 {
		return 0, errors.New("it is larger than a layer may be")
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// unpacker writes entries below a root that none can leave.
type unpacker struct{ root *os.Root }

func (u unpacker) all(r *tar.Reader) error {
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := u.entry(h, r); err != nil {
			return fmt.Errorf("entry %q: %w", h.Name, err)
		}
	}
}

// The names that take away what is below.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

func (u unpacker) entry(h *tar.Header, content io.Reader) error {
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	if name == "" {
		return nil // the root's own
	}
	dir, base := path.Split(name)
	if dir = path.Clean(dir); dir != "." {
		if err := u.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	switch {
	case base == opaque:
		return u.at(dir, func(fd int) error { return unix.Fsetxattr(fd, "trusted.overlay.opaque", []byte("y"), 0) })
	case strings.HasPrefix(base, whiteout):
		hidden := strings.TrimPrefix(base, whiteout)
		if hidden == "" || hidden == "." || hidden == ".." {
			return errors.New("it takes away nothing that has a name")
		}
		if err := u.root.RemoveAll(path.Join(dir, hidden)); err != nil {
			return err
		}
		return u.at(dir, func(fd int) error { return unix.Mknodat(fd, hidden, unix.S_IFCHR, 0) })
	}
	if old, err := u.root.Lstat(name); err == nil && !(old.IsDir() && h.Typeflag == tar.TypeDir) {
		if err := u.root.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := u.make(h, name, dir, base, content); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeLink, tar.TypeChar, tar.TypeBlock:
		return nil
	}
	if err := u.root.Lchown(name, h.Uid, h.Gid); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		return nil
	}
	if err := u.root.Chmod(name, h.FileInfo().Mode()); err != nil { // after the owner, which clears setuid
		return err
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

// make makes what the entry names. Devices are left out: a box has its own.
func (u unpacker) make(h *tar.Header, name, dir, base string, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case tar.TypeReg:
		f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return u.root.Link(strings.TrimPrefix(path.Clean("/"+h.Linkname), "/"), name)
	case tar.TypeFifo:
		return u.at(dir, func(fd int) error { return unix.Mknodat(fd, base, unix.S_IFIFO|0o600, 0) })
	case tar.TypeChar, tar.TypeBlock:
		return nil
	}
	return fmt.Errorf("it is of a kind (%q) that no layer has", h.Typeflag)
}

// at does something in a folder of the layer.
func (u unpacker) at(dir string, do func(fd int) error) error {
	f, err := u.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(int(f.Fd()))
}

// Sweep removes layers until all that is kept takes at most limit bytes: the ones used
// longest ago first, none that is in use (by Name), and none of the last minute, for a task
// that is about to start. Drafts that were given up go, too.
func (s *Store) Sweep(limit int64, inUse map[string]bool) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	type layer struct {
		name string
		size int64
		used time.Time
	}
	var layers []layer
	var total int64
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // it has gone
		}
		name, isSize := strings.CutSuffix(e.Name(), ".json")
		switch {
		case strings.HasPrefix(e.Name(), draftPrefix) && time.Since(info.ModTime()) > time.Hour:
			errs = append(errs, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		case isSize:
			data, err := os.ReadFile(filepath.Join(s.dir, e.Name()))
			var size int64
			if err == nil {
				err = json.Unmarshal(data, &size)
			}
			if err != nil {
				size = s.max // it cannot be less sure
			}
			layers = append(layers, layer{name, size, info.ModTime()})
			total += size
		}
	}
	slices.SortFunc(layers, func(a, b layer) int { return a.used.Compare(b.used) })
	for _, l := range layers {
		if total <= limit {
			break
		}
		if inUse[l.name] || s.isPinned(l.name) || time.Since(l.used) < time.Minute {
			continue
		}
		gone := filepath.Join(s.dir, draftPrefix+l.name)
		if err := os.Rename(filepath.Join(s.dir, l.name), gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, os.RemoveAll(gone), os.Remove(filepath.Join(s.dir, l.name+".json")))
		total -= l.size
	}
	return errors.Join(append(errs, s.forget())...)
}

func (s *Store) isPinned(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pinned[name] > 0
}
