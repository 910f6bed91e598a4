package folder

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Size is what folders take of the disk, in bytes: whole blocks, a file of several names once,
// no link followed. What vanishes meanwhile counts nothing, and neither does a folder that is
// not there. It fails when ctx ends.
func Size(ctx context.Context, dirs ...string) (bytes int64, err error) {
	type file struct{ device, inode uint64 }
	seen := map[file]bool{} // those with several names
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil {
				err = ctx.Err()
			}
			var info fs.FileInfo
			if err == nil {
				info, err = d.Info()
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			st, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return nil
			}
			if st.Nlink > 1 && !d.IsDir() {
				if f := (file{st.Dev, st.Ino}); seen[f] {
					return nil
				} else {
					seen[f] = true
				}
			}
			bytes += st.Blocks * 512
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return bytes, nil
}
