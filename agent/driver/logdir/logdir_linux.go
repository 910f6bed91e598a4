// Package logdir reads the logs of a node's tasks: a folder for each task, with the
// segments of stdout and stderr. Whatever a task puts in their place, nothing but a plain
// file beneath the folder is ever read, and nothing that a task can do makes a reader wait.
package logdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/segment"
)

// Dir is the folder of all tasks' logs.
type Dir string

const noLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openTask opens the folder of one task's logs, by no link.
func (d Dir) openTask(id string) (*os.File, error) {
	if err := folder.CheckID(id); err != nil {
		return nil, err
	}
	root, err := unix.Open(string(d), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: string(d), Err: err}
	}
	defer unix.Close(root)
	return openAt(root, id, toRead|unix.O_DIRECTORY)
}

// toRead waits for nobody.
const toRead = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

// openAt opens what is beneath a folder, by no link.
func openAt(dir int, name string, how uint64) (*os.File, error) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_NOFOLLOW | unix.O_CLOEXEC | how, Resolve: noLinks})
	if err != nil {
		return nil, &fs.PathError{Op: "open log", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openPlain opens a plain file with one name, and nothing else. What is opened is looked at
// before anything is done with it that a device could feel.
func openPlain(dir *os.File, name string) (*os.File, error) {
	var info unix.Stat_t
	found, err := openAt(int(dir.Fd()), name, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	err = unix.Fstat(int(found.Fd()), &info)
	found.Close()
	if err == nil && !segment.Plain(&info) {
		err = errors.New("it is no plain file with one name: refused")
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open log", Path: name, Err: err}
	}
	f, err := openAt(int(dir.Fd()), name, toRead)
	if err != nil {
		return nil, err
	}
	var again unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &again)
	if err == nil && (!segment.Plain(&again) || again.Ino != info.Ino || again.Dev != info.Dev) {
		err = errors.New("it was replaced while it was opened: refused")
	}
	if err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "open log", Path: name, Err: err}
	}
	return f, nil
}

// List says when the logs of each task were last written to; that of the folder where there
// is no segment.
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
		if _, written, err := d.look(e.Name()); err == nil { // it has not gone meanwhile
			kept[e.Name()] = written
		}
	}
	return kept, nil
}

// Size is what a task's logs take of the disk, in bytes; 0 where there are none.
func (d Dir) Size(id string) (int64, error) {
	if err := folder.CheckID(id); err != nil {
		return 0, err
	}
	size, _, err := d.look(id)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return size, err
}

// look looks at what is in a task's folder, and follows no link there.
func (d Dir) look(id string) (size int64, written time.Time, err error) {
	dir := filepath.Join(string(d), id)
	info, err := os.Lstat(dir)
	if err != nil {
		return 0, written, err
	}
	if info.IsDir() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return 0, written, err
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				size += info.Size()
				if info.ModTime().After(written) {
					written = info.ModTime()
				}
			}
		}
	}
	if written.IsZero() {
		written = info.ModTime()
	}
	return size, written, nil
}

// Remove forgets both streams.
func (d Dir) Remove(id string) error {
	if err := folder.CheckID(id); err != nil {
		return err
	}
	if err := folder.Discard(filepath.Join(string(d), id)); err != nil {
		return fmt.Errorf("remove the logs of %s: %w", id, err)
	}
	return nil
}
