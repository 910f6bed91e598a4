package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ohmcell/ohm/agent/driver/folder"
)

// What a registry's reference was found to name stands in refs/, so that it is not asked
// again for as long as all layers are here.
const refsDir = "refs"

// known is what is remembered of a reference.
type known struct {
	Ref    string
	Layers []string // folders' names, the lowest first
	Config Config
}

func (s *Store) refFile(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return filepath.Join(s.dir, refsDir, hex.EncodeToString(sum[:])+".json")
}

// recall is the image of a reference, if all of it is here. Its layers are pinned.
func (s *Store) recall(ref string) (Image, bool) {
	k, err := folder.Read[known](s.refFile(ref))
	if err != nil || k.Ref != ref {
		return Image{}, false
	}
	img := Image{Config: k.Config, store: s}
	now := time.Now()
	for _, name := range k.Layers {
		dir := filepath.Join(s.dir, name)
		s.pin(&img, dir)
		if !folder.Exists(dir) || os.Chtimes(dir+".json", now, now) != nil {
			img.Release()
			return Image{}, false
		}
	}
	return img, true
}

// remember notes what a reference names.
func (s *Store) remember(ref string, img Image) error {
	k := known{Ref: ref, Config: img.Config}
	for _, dir := range img.Layers {
		k.Layers = append(k.Layers, Name(dir))
	}
	if err := os.MkdirAll(filepath.Join(s.dir, refsDir), 0o755); err != nil {
		return err
	}
	return folder.Write(s.refFile(ref), k)
}

// forget removes what is remembered of references of which a layer has gone.
func (s *Store) forget() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, refsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		path := filepath.Join(s.dir, refsDir, e.Name())
		k, err := folder.Read[known](path)
		whole := err == nil
		for _, name := range k.Layers {
			whole = whole && folder.Exists(filepath.Join(s.dir, name))
		}
		if !whole {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// pin keeps a layer from being swept until the image is released.
func (s *Store) pin(img *Image, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned[Name(dir)]++
	img.Layers = append(img.Layers, dir)
}

// Release lets the layers be swept again that no task uses.
func (i Image) Release() {
	if i.store == nil {
		return
	}
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	for _, dir := range i.Layers {
		if i.store.pinned[Name(dir)]--; i.store.pinned[Name(dir)] == 0 {
			delete(i.store.pinned, Name(dir))
		}
	}
}
