//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
)

// entry of a layer.
type entry struct {
	name, content string
	kind          byte // default: a file
	link          string
}

func layerOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.content)), Mode: 0o4755, ModTime: time.Unix(1e9, 0)}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// layoutOf writes an image of these layers, packed by pack, and returns its folder.
func layoutOf(t *testing.T, pack func([]byte) []byte, layers ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	blob := func(data []byte) map[string]any {
		d := digestOf(data)
		write("blobs/sha256/"+strings.TrimPrefix(d, "sha256:"), data)
		return map[string]any{"digest": d, "size": len(data)}
	}
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var ids []string
	var blobs []map[string]any
	for _, l := range layers {
		ids = append(ids, digestOf(l))
		blobs = append(blobs, blob(pack(l)))
	}
	config := blob(encode(map[string]any{"rootfs": map[string]any{"diff_ids": ids}, "config": map[string]any{"User": "me"}}))
	m := blob(encode(map[string]any{"config": config, "layers": blobs}))
	write("index.json", encode(map[string]any{"manifests": []any{m}}))
	return dir
}

func plain(data []byte) []byte { return data }

func zipped(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(data) // to memory
	_ = w.Close()
	return out.Bytes()
}

func zstandard(data []byte) []byte {
	w, _ := zstd.NewWriter(nil) // that has no options to be wrong
	defer w.Close()
	return w.EncodeAll(data, nil)
}

func newStore(t *testing.T, max int64) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"), max, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLoad: what a layer holds is there, whether it was packed or not, once for both.
func TestLoad(t *testing.T) {
	s := newStore(t, 1<<30)
	layer := layerOf(t, entry{name: "a/b/file", content: "text"}, entry{name: "a/link", kind: tar.TypeSymlink, link: "/a/b/file"},
		entry{name: "a/same", kind: tar.TypeLink, link: "a/b/file"}, entry{name: "pipe", kind: tar.TypeFifo},
		entry{name: "disk", kind: tar.TypeBlock}, entry{name: "./", kind: tar.TypeDir}, entry{name: "a/b/file", content: "again"})
	var dirs []string
	for _, pack := range []func([]byte) []byte{plain, zipped, zstandard} {
		s := s
		if len(dirs) == 2 { // or it would not be unpacked
			s = newStore(t, 1<<30)
		}
		img, err := s.Load(t.Context(), driver.LayoutImage, layoutOf(t, pack, layer))
		if err != nil || len(img.Layers) != 1 || img.Config.User != "me" {
			t.Fatalf("%+v, %v", img, err)
		}
		dirs = append(dirs, img.Layers...)
	}
	if dirs[0] != dirs[1] || Name(dirs[0]) != Name(dirs[2]) {
		t.Errorf("the same content stands in %q", dirs)
	}
	for name, want := range map[string]string{"a/b/file": "again", "a/same": "text"} {
		for _, dir := range dirs[1:] {
			if data, err := os.ReadFile(filepath.Join(dir, name)); string(data) != want {
				t.Errorf("%s is %q, %v", name, data, err)
			}
		}
	}
	if target, err := os.Readlink(filepath.Join(dirs[0], "a/link")); target != "/a/b/file" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	info, err := os.Stat(filepath.Join(dirs[0], "a/b/file"))
	if err != nil || info.Mode() != 0o755|os.ModeSetuid || info.ModTime().Unix() != 1e9 {
		t.Errorf("its mode is %v, its time %v, %v", info.Mode(), info.ModTime(), err)
	}
	if _, err := os.Lstat(filepath.Join(dirs[0], "disk")); err == nil {
		t.Error("there is a device")
	}
}

// TestWhiteouts: what a layer takes away is marked as overlayfs understands it.
func TestWhiteouts(t *testing.T) {
	s := newStore(t, 1<<30)
	img, err := s.Load(t.Context(), driver.LayoutImage, layoutOf(t, plain, layerOf(t,
		entry{name: "dir/.wh.gone"}, entry{name: "empty/.wh..wh..opq"}, entry{name: "empty/new", content: "x"})))
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(img.Layers[0], "dir/gone"), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		t.Errorf("gone is %+v, %v", st, err)
	}
	value := make([]byte, 8)
	n, err := unix.Getxattr(filepath.Join(img.Layers[0], "empty"), "trusted.overlay.opaque", value)
	if err != nil || string(value[:n]) != "y" {
		t.Errorf("opaque is %q, %v", value, err)
	}
}

// TestNothingOutside: no entry reaches out of its layer. What tries either stays within or
// makes the image unusable; nothing of it is kept then.
func TestNothingOutside(t *testing.T) {
	for name, entries := range map[string][]entry{
		"upwards":            {{name: "../../escaped", content: "x"}},
		"absolute":           {{name: "/escaped", content: "x"}},
		"through a link":     {{name: "out", kind: tar.TypeSymlink, link: "../.."}, {name: "out/escaped", content: "x"}},
		"through a long one": {{name: "out", kind: tar.TypeSymlink, link: "HERE"}, {name: "out/escaped", content: "x"}},
		"onto a link":        {{name: "out", kind: tar.TypeSymlink, link: "HERE/escaped"}, {name: "out", content: "x"}},
		"by a hard link":     {{name: "out", kind: tar.TypeLink, link: "../../secret"}, {name: "out", content: "x"}},
		"hard link to link":  {{name: "l", kind: tar.TypeSymlink, link: "HERE/secret"}, {name: "out", kind: tar.TypeLink, link: "l"}},
		"whiteout upwards":   {{name: ".wh..."}, {name: "a/.wh..", content: ""}},
		"whiteout of a link": {{name: "out", kind: tar.TypeSymlink, link: "HERE"}, {name: "out/.wh.secret"}},
		"opaque link":        {{name: "out", kind: tar.TypeSymlink, link: "HERE"}, {name: "out/.wh..wh..opq"}},
		"folder over a link": {{name: "out", kind: tar.TypeSymlink, link: "HERE"}, {name: "out", kind: tar.TypeDir}},
	} {
		here := t.TempDir()
		secret := filepath.Join(here, "secret")
		if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			entries[i].link = strings.ReplaceAll(entries[i].link, "HERE", here)
		}
		s, err := Open(filepath.Join(here, "store"), 1<<30, "")
		if err != nil {
			t.Fatal(err)
		}
		img, err := s.Load(t.Context(), driver.LayoutImage, layoutOf(t, plain, layerOf(t, entries...)))
		if err != nil && !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
		left, _ := os.ReadDir(s.dir)
		if err != nil && len(left) > 0 {
			t.Errorf("%s: of a broken image %v are left", name, left)
		}
		if err == nil && len(img.Layers) != 1 {
			t.Errorf("%s: %+v", name, img)
		}
		info, statErr := os.Lstat(secret)
		if data, err := os.ReadFile(secret); string(data) != "secret" || statErr != nil || info.Mode() != 0o600 {
			t.Errorf("%s: the secret is %q, %v, %v", name, data, info, err)
		}
		for _, path := range []string{filepath.Join(here, "escaped"), filepath.Join(s.dir, "escaped"), "/escaped"} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s: there is %s", name, path)
			}
		}
	}
}

// TestDigests: not a byte is believed that is not what its name says.
func TestDigests(t *testing.T) {
	layer := layerOf(t, entry{name: "file", content: "aaaa"})
	dir := layoutOf(t, zipped, layer)
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs/sha256/*"))
	if err != nil || len(blobs) != 3 {
		t.Fatal(blobs, err)
	}
	for _, path := range blobs {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, broken := range map[string][]byte{"one bit": slices.Concat(data[:len(data)-1], []byte{data[len(data)-1] ^ 1}), "more": append(slices.Clone(data), ' '), "less": data[:len(data)-1], "none": nil} {
			if err := os.WriteFile(path, broken, 0o600); err != nil {
				t.Fatal(err)
			}
			s := newStore(t, 1<<30)
			if img, err := s.Load(t.Context(), driver.LayoutImage, dir); !errors.Is(err, ErrBroken) {
				t.Errorf("%s in %s: %+v, %v", what, filepath.Base(path), img, err)
			}
			if left, _ := os.ReadDir(s.dir); len(left) > 0 {
				t.Errorf("%s in %s: %v are left", what, filepath.Base(path), left)
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newStore(t, 1<<30).Load(t.Context(), driver.LayoutImage, dir); err != nil {
		t.Errorf("mended: %v", err)
	}
	if _, err := newStore(t, 1024).Load(t.Context(), driver.LayoutImage, layoutOf(t, zipped, layerOf(t, entry{name: "bomb", content: strings.Repeat("0", 1<<20)}))); !errors.Is(err, ErrBroken) {
		t.Errorf("a layer that is too large: %v", err)
	}
	if _, err := newStore(t, 1).Load(t.Context(), driver.TarImage, filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a tar that is not there: %v", err)
	}
}

// TestSweep: the layers used longest ago go first, none that is in use, and no more than
// there must.
func TestSweep(t *testing.T) {
	s := newStore(t, 1<<30)
	var names []string
	for i, content := range []string{"oldest", "in use", "newer", "newest"} {
		img, err := s.Load(t.Context(), driver.LayoutImage, layoutOf(t, plain, layerOf(t, entry{name: "file", content: content})))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, Name(img.Layers[0]))
		img.Release()
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(img.Layers[0]+".json", at, at); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (left []string) {
		for i, name := range names {
			if _, err := os.Stat(filepath.Join(s.dir, name, "file")); err == nil {
				left = append(left, []string{"oldest", "in use", "newer", "newest"}[i])
			}
		}
		return left
	}
	data, err := os.ReadFile(filepath.Join(s.dir, names[0]+".json"))
	var size int64
	if err := errors.Join(err, json.Unmarshal(data, &size)); err != nil || size < 512 {
		t.Fatal(size, err)
	}
	inUse := map[string]bool{names[1]: true}
	// What a start has loaded and not yet written down stays, too.
	pinned := Image{store: s}
	s.pin(&pinned, filepath.Join(s.dir, names[0]))
	if err := s.Sweep(4*size-1, inUse); err != nil || !slices.Equal(kept(), []string{"oldest", "in use", "newest"}) {
		t.Errorf("beside a start %q are left, %v", kept(), err)
	}
	pinned.Release()
	for _, c := range []struct {
		limit int64
		want  []string
	}{
		{3 * size, []string{"oldest", "in use", "newest"}},
		{3*size - 1, []string{"in use", "newest"}},
		{0, []string{"in use"}},
	} {
		if err := s.Sweep(c.limit, inUse); err != nil {
			t.Error(err)
		}
		if left := kept(); !slices.Equal(left, c.want) {
			t.Errorf("with room for %d, %q are left", c.limit, left)
		}
	}
	left, _ := os.ReadDir(s.dir)
	if len(left) != 2 {
		t.Errorf("in the store are %v", left)
	}
}
