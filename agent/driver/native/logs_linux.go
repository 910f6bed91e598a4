package native

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Logs opens nothing but a plain file with one name, beneath the folder of the logs and
// by no link: a task may have put anything in its place. It never waits for a writer.
func (d *Driver) Logs(_ context.Context, id, stream string) (io.ReadCloser, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if stream != "stdout" && stream != "stderr" {
		return nil, fmt.Errorf("a task has no stream %q", stream)
	}
	path := filepath.Join(id, stream)
	root, err := unix.Open(d.logs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.logs, Err: err}
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open log", Path: path, Err: err}
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open log", Path: path, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG || info.Nlink != 1 {
		unix.Close(fd)
		return nil, fmt.Errorf("log %s is not a plain file with one name: refused", path)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// RemoveLogs forgets both streams.
func (d *Driver) RemoveLogs(_ context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return discard(filepath.Join(d.logs, id))
}
