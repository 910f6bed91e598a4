// Package logdir keeps the logs of a node's tasks: a folder for each task, with the files
// stdout and stderr. Whatever a task puts in their place, nothing but a plain file beneath
// the folder is ever read.
package logdir

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver/folder"
)

// Dir is such a folder.
type Dir string

// Open opens nothing but a plain file with one name, beneath the folder of the logs and
// by no link: a task may have put anything in its place. It never waits for a writer.
func (d Dir) Open(id, stream string) (io.ReadCloser, error) {
	if err := folder.CheckID(id); err != nil {
		return nil, err
	}
	if stream != "stdout" && stream != "stderr" {
		return nil, fmt.Errorf("a task has no stream %q", stream)
	}
	path := filepath.Join(id, stream)
	root, err := unix.Open(string(d), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: string(d), Err: err}
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

// List says when the logs of each task were last written to: it takes the later of the two streams' times; that of the folder where there is
// neither.
func (d Dir) List(ctx context.Context) (map[string]time.Time, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	kept := map[string]time.Time{}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if folder.CheckID(e.Name()) != nil {
			continue
		}
		var written time.Time
		for _, part := range []string{"stdout", "stderr", "."} {
			if info, err := os.Lstat(filepath.Join(string(d), e.Name(), part)); err == nil && (part != "." || written.IsZero()) && info.ModTime().After(written) {
				written = info.ModTime()
			}
		}
		if !written.IsZero() { // it has not gone meanwhile
			kept[e.Name()] = written
		}
	}
	return kept, nil
}

// Remove forgets both streams.
func (d Dir) Remove(id string) error {
	if err := folder.CheckID(id); err != nil {
		return err
	}
	return folder.Discard(filepath.Join(string(d), id))
}
