// Package image keeps images as folders, one for each layer, to be put over each other by
// overlayfs. It reads OCI layouts, from a folder or a tar, and images of registries, and
// believes nothing in them: every byte is held against the digest that names it before anything is used, and no entry of a
// layer can reach out of the layer's folder, whatever links come before it.
//
// What is kept is bounded: Sweep removes the layers that were used longest ago.
package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/registry"
)

// Image is one that is ready: its layers' folders, the lowest first, and what it says of
// the programs that run in it.
type Image struct {
	Layers []string
	Config Config

	store *Store // in which they are pinned
}

// Config is what an image says of its program.
type Config struct {
	User       string
	WorkingDir string
	Env        []string // NAME=value
	Entrypoint []string
	Cmd        []string
}

// ErrBroken says that an image is not what it should be; trying again helps nobody.
var ErrBroken = errors.New("it is no image that can be used")

// Store is a folder of layers.
type Store struct {
	dir  string
	max  int64 // bytes that one layer may take
	auth registry.Auth

	mu     sync.Mutex
	pinned map[string]int // layers, by name, of images that are being loaded or about to be used
}

// Open makes a store of a folder. No layer may take more than max bytes; registries that ask
// for credentials get those of auth.
func Open(dir string, max int64, auth registry.Auth) (*Store, error) {
	return &Store{dir: dir, max: max, auth: auth, pinned: map[string]int{}}, os.MkdirAll(dir, 0o755)
}

// descriptor names a blob.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Platform  *struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// manifest is an index or a manifest, whichever it is.
type manifest struct {
	Manifests []descriptor `json:"manifests"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

// source is where an image's files come from.
type source interface {
	index() ([]byte, error) // or the manifest, where there is but one
	blob(d descriptor) (io.ReadCloser, error)
	Close() error
}

// Load has the image's layers ready, and pinned until it is released. The error of one that is
// not there is fs.ErrNotExist, of one that is not given fs.ErrPermission. A registry that has
// answered once for a reference is not asked again while the layers are here.
func (s *Store) Load(ctx context.Context, kind driver.Kind, from string) (Image, error) {
	if kind == driver.RegistryImage {
		if img, ok := s.recall(from); ok {
			return img, nil
		}
	}
	img := Image{store: s}
	err := s.load(ctx, &img, kind, from)
	if err == nil && kind == driver.RegistryImage {
		err = s.remember(from, img)
	}
	if err != nil {
		img.Release()
		return Image{}, err
	}
	return img, nil
}

func (s *Store) load(ctx context.Context, img *Image, kind driver.Kind, from string) error {
	src, err := s.sourceOf(ctx, kind, from)
	if err != nil {
		return err
	}
	defer src.Close()
	data, err := src.index()
	if err != nil {
		return err
	}
	m, err := choose(src, data, 0)
	if err != nil {
		return err
	}
	var config struct {
		Config Config `json:"config"`
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if data, err = readBlob(src, m.Config); err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		return fmt.Errorf("config: %w", broken(err))
	}
	if len(config.Rootfs.DiffIDs) != len(m.Layers) {
		return fmt.Errorf("%w: it has %d layers, and its config names %d", ErrBroken, len(m.Layers), len(config.Rootfs.DiffIDs))
	}
	img.Config = config.Config
	for i, layer := range m.Layers {
		if err := s.layer(ctx, img, src, layer, config.Rootfs.DiffIDs[i]); err != nil {
			return fmt.Errorf("layer %s: %w", layer.Digest, err)
		}
	}
	return nil
}

// broken makes an error one of the image, unless it is one of its registry.
func broken(err error) error {
	if errors.Is(err, ErrAway) || errors.Is(err, ErrBroken) {
		return err
	}
	return fmt.Errorf("%w: %v", ErrBroken, err)
}

// choose finds the manifest for this machine in an index, which may hold indexes.
func choose(src source, data []byte, depth int) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%w: %v", ErrBroken, err)
	}
	if len(m.Layers) > 0 {
		return m, nil
	}
	for _, d := range m.Manifests {
		if p := d.Platform; p != nil && (p.OS != "linux" || p.Architecture != runtime.GOARCH) || depth > 2 {
			continue
		}
		data, err := readBlob(src, d)
		if err != nil {
			return m, fmt.Errorf("manifest %s: %w", d.Digest, broken(err))
		}
		return choose(src, data, depth+1)
	}
	return m, fmt.Errorf("%w: it holds nothing for linux on %s", ErrBroken, runtime.GOARCH)
}

// maxDocument is more than any index, manifest or config has.
const maxDocument = 4 << 20

func readAll(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("%s has more than %d bytes", name, maxDocument)
	}
	return data, err
}

// readBlob reads a document and holds it against its digest.
func readBlob(src source, d descriptor) ([]byte, error) {
	r, err := src.blob(d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := readAll(r, d.Digest)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return data, same(d.Digest, sum[:])
}

// same compares a digest with a sum.
func same(digest string, sum []byte) error {
	if got := "sha256:" + hex.EncodeToString(sum); got != digest {
		return fmt.Errorf("its digest is %s instead of %s", got, digest)
	}
	return nil
}

// blobName is where a layout has a blob; a digest becomes a path nowhere else.
func blobName(digest string) (string, error) {
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest) {
		return "", fmt.Errorf("%q is no sha256 digest", digest)
	}
	return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:"), nil
}

func (s *Store) sourceOf(ctx context.Context, kind driver.Kind, from string) (source, error) {
	switch kind {
	case driver.LayoutImage:
		root, err := os.OpenRoot(from)
		if err != nil {
			return nil, err
		}
		return layout{root, func(name string) (io.ReadCloser, error) { return root.Open(name) }}, nil
	case driver.TarImage:
		a, err := openTar(from)
		if err != nil {
			return nil, err
		}
		return layout{a, a.open}, nil
	}
	return openRegistry(ctx, from, s.auth)
}

// layout is an OCI layout: files by name, in a folder or a tar.
type layout struct {
	io.Closer
	open func(name string) (io.ReadCloser, error)
}

func (l layout) index() ([]byte, error) {
	r, err := l.open("index.json")
	if err != nil {
		return nil, broken(err)
	}
	defer r.Close()
	data, err := readAll(r, "index.json")
	if err != nil {
		return nil, broken(err)
	}
	return data, nil
}

func (l layout) blob(d descriptor) (io.ReadCloser, error) {
	name, err := blobName(d.Digest)
	if err != nil {
		return nil, err
	}
	return l.open(name)
}

// archive is a tar whose entries are found by offset.
type archive struct {
	file  *os.File
	parts map[string]part
}

type part struct{ offset, size int64 }

func openTar(from string) (*archive, error) {
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	a := &archive{f, map[string]part{}}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return a, nil
		}
		var at int64
		if err == nil {
			at, err = f.Seek(0, io.SeekCurrent) // a tar.Reader reads no further than it is asked
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%w: %v", ErrBroken, err)
		}
		if h.Typeflag == tar.TypeReg {
			a.parts[path.Clean(h.Name)] = part{at, h.Size}
		}
	}
}

func (a *archive) open(name string) (io.ReadCloser, error) {
	p, ok := a.parts[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(a.file, p.offset, p.size)), nil
}

func (a *archive) Close() error { return a.file.Close() }

// Name is a layer's folder without the store's.
func Name(layer string) string { return filepath.Base(layer) }
