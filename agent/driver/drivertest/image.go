package drivertest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Busybox is where Debian's busybox-static puts the one program of the test's images.
const Busybox = "/bin/busybox"

// Image is what makes up an image for a test. Every image has busybox with its applets in
// /bin, and the users root and nobody.
type Image struct {
	User, Dir string
	Env       []string
	Command   []string
	Layers    []Layer // on top of the first one
}

// Layer is files by path: a folder if the name ends with "/", a link if the content begins
// with "->", nothing but what is to be there else.
type Layer map[string]string

// blob of an image.
type blob struct {
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
	MediaType string `json:"mediaType"`
	data      []byte
}

func blobOf(kind string, data []byte) blob {
	sum := sha256.Sum256(data)
	return blob{"sha256:" + hex.EncodeToString(sum[:]), len(data), kind, data}
}

// The media types of an OCI image.
const (
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
)

// MakeImage writes the image as an OCI tar and as an OCI layout; it fails where busybox is
// not installed.
func MakeImage(t testing.TB, image Image) (tarFile, layout string) {
	t.Helper()
	tarFile, layout, err := WriteImage(t.TempDir(), image)
	if err != nil {
		t.Fatal(err)
	}
	return tarFile, layout
}

// WriteImage is MakeImage in a given folder.
func WriteImage(dir string, image Image) (tarFile, layout string, err error) {
	files, err := imageFiles(image)
	if err != nil {
		return "", "", err
	}
	layout = filepath.Join(dir, "layout")
	for name, data := range files {
		path := filepath.Join(layout, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", "", err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return "", "", err
		}
	}
	tarFile = filepath.Join(dir, "image.tar")
	f, err := os.Create(tarFile)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	return tarFile, layout, errors.Join(w.AddFS(os.DirFS(layout)), w.Close())
}

// imageFiles are the files of the image's OCI layout, by path.
func imageFiles(image Image) (map[string][]byte, error) {
	busybox, err := os.ReadFile(Busybox)
	if err != nil {
		return nil, fmt.Errorf("%w: apt-get install busybox-static", err)
	}
	var layers []blob
	for _, l := range append([]Layer{base(busybox)}, image.Layers...) {
		data, err := layerOf(l)
		if err != nil {
			return nil, err
		}
		layers = append(layers, blobOf(typeLayer, data))
	}
	var ids []string
	for _, l := range layers {
		ids = append(ids, l.Digest)
	}
	config, err := encode(typeConfig, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": image.User, "WorkingDir": image.Dir, "Env": append([]string{"PATH=/bin"}, image.Env...), "Cmd": image.Command},
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := encode(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": layers})
	if err != nil {
		return nil, err
	}
	index, err := encode(typeIndex, map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []blob{manifest}})
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`),
		"index.json": index.data,
	}
	for _, b := range append(layers, config, manifest) {
		files["blobs/sha256/"+strings.TrimPrefix(b.Digest, "sha256:")] = b.data
	}
	return files, nil
}

func encode(kind string, v any) (blob, error) {
	data, err := json.Marshal(v)
	return blobOf(kind, data), err
}

// base is a root file system of busybox alone.
func base(busybox []byte) Layer {
	l := Layer{
		"bin/": "", "bin/busybox": string(busybox), "tmp/": "", "root/": "",
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
		"etc/group":  "root:x:0:\nnogroup:x:65534:\nstaff:x:50:nobody\n",
	}
	for _, applet := range strings.Fields(`sh cat chmod chown cp cut dd df echo env expr false grep head hostname id kill ln ls mkdir
		mknod mount mv nproc printf ps pwd readlink rm seq setsid sleep sort stat stty tail tee test touch true tty umount uname unshare wc yes [`) {
		l["bin/"+applet] = "->busybox"
	}
	return l
}

func layerOf(files Layer) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) { // a folder before what is in it
		content := files[name]
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
			if name == "tmp/" {
				h.Mode = 0o1777
			}
		}
		if strings.Contains(name, ".wh.") {
			h.Mode = 0
		}
		if target, ok := strings.CutPrefix(content, "->"); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, content); err != nil {
				return nil, err
			}
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
