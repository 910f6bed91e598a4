// Package image keeps images as folders, one for each layer, to be put over each other by
// overlayfs. It reads OCI layouts, from a folder or a tar, and believes nothing in them: every
// byte is held against the digest that names it before anything is used, and no entry of a
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

	"github.com/ohmcell/ohm/agent/driver"
)

// Image is one that is ready: its layers' folders, the lowest first, and what it says of
// the programs that run in it.
type Image struct {
	Layers []string
	Config Config
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
	dir string
	max int64 // bytes that one layer may take
}

// Open makes a store of a folder. No layer may take more than max bytes.
func Open(dir string, max int64) (*Store, error) {
	return &Store{dir, max}, os.MkdirAll(dir, 0o755)
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
	open(name string) (io.ReadCloser, error)
	Close() error
}

// Load has the image's layers ready. The error of one that is not there is fs.ErrNotExist.
func (s *Store) Load(ctx context.Context, kind driver.Kind, from string) (Image, error) {
	src, err := sourceOf(kind, from)
	if err != nil {
		return Image{}, err
	}
	defer src.Close()
	data, err := readAll(src, "index.json")
	if err != nil {
		return Image{}, fmt.Errorf("%w: %v", ErrBroken, err)
	}
	m, err := choose(src, data, 0)
	if err != nil {
		return Image{}, err
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
		return Image{}, fmt.Errorf("%w: config: %v", ErrBroken, err)
	}
	if len(config.Rootfs.DiffIDs) != len(m.Layers) {
		return Image{}, fmt.Errorf("%w: it has %d layers, and its config names %d", ErrBroken, len(m.Layers), len(config.Rootfs.DiffIDs))
	}
	img := Image{Config: config.Config}
	for i, layer := range m.Layers {
		dir, err := s.layer(ctx, src, layer, config.Rootfs.DiffIDs[i])
		if err != nil {
			return Image{}, fmt.Errorf("layer %s: %w", layer.Digest, err)
		}
		img.Layers = append(img.Layers, dir)
	}
	return img, nil
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
			return m, fmt.Errorf("%w: manifest %s: %v", ErrBroken, d.Digest, err)
		}
		return choose(src, data, depth+1)
	}
	return m, fmt.Errorf("%w: it holds nothing for linux on %s", ErrBroken, runtime.GOARCH)
}

// maxDocument is more than any index, manifest or config has.
const maxDocument = 4 << 20

func readAll(src source, name string) ([]byte, error) {
	r, err := src.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("%s has more than %d bytes", name, maxDocument)
	}
	return data, err
}

// readBlob reads a document and holds it against its digest.
func readBlob(src source, d descriptor) ([]byte, error) {
	name, err := blobName(d.Digest)
	if err != nil {
		return nil, err
	}
	data, err := readAll(src, name)
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

func sourceOf(kind driver.Kind, from string) (source, error) {
	switch kind {
	case driver.LayoutImage:
		root, err := os.OpenRoot(from)
		if err != nil {
			return nil, err
		}
		return layout{root}, nil
	case driver.TarImage:
		return openTar(from)
	}
	return nil, fmt.Errorf("%w: only layouts and tars can be read", ErrBroken)
}

// layout is a folder.
type layout struct{ *os.Root }

func (l layout) open(name string) (io.ReadCloser, error) { return l.Open(name) }

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
