// Package folder keeps what a driver knows of one task in files that a crash leaves whole:
// each is replaced as one, for good, and whoever works on a task holds its lock.
package folder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
)

// lockFile is held by whoever works on the folder's task.
const lockFile = "lock"

// CheckID refuses what cannot be one file name.
func CheckID(id string) error {
	if id == "" || len(id) > 240 || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\x00") {
		return fmt.Errorf("task id %q cannot be a file name", id)
	}
	return nil
}

// Lock takes the lock of a task's folder without waiting. held says that somebody else
// has it. Whoever makes the folder takes it exclusively and gives it on to the shim;
// everybody else only looks, and shares it.
func Lock(dir string, how int) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, false, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, true, nil
		}
		return nil, false, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, false, nil
}

// Take waits for the lock of a folder until ctx ends.
func Take(ctx context.Context, dir string) (*os.File, error) {
	if _, err := os.Lstat(filepath.Join(dir, lockFile)); err != nil {
		return nil, err // never make one here
	}
	for {
		f, taken, err := Lock(dir, unix.LOCK_EX)
		if !taken {
			return f, err
		}
		if err := driver.Pause(ctx, 2*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the lock of %s: %w", dir, err)
		}
	}
}

// Held says whether somebody holds the folder's lock.
func Held(dir string) (bool, error) {
	if _, err := os.Lstat(filepath.Join(dir, lockFile)); err != nil {
		return false, err // never make one here
	}
	f, held, err := Lock(dir, unix.LOCK_SH)
	if f != nil {
		f.Close()
	}
	return held, err
}

// Read reads a file that Write wrote.
func Read[T any](path string) (v T, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// Write replaces a file as a whole and for good.
func Write(path string, v any) error {
	return Replace(path, path+".new", v)
}

// Replace is Write by way of a given draft, such as one whose room was reserved.
func Replace(path, draft string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes what was renamed in the folder last.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Discard removes a folder and never what is mounted in it.
func Discard(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(Unescape(f[4]), dir+"/") {
			points = append(points, Unescape(f[4]))
		}
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return os.RemoveAll(dir)
}

// Exists says whether anything has that name, be it a broken link.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Unescape undoes the octal escapes of mountinfo.
func Unescape(s string) string {
	for _, c := range []string{" ", "\t", "\n", "\\"} {
		s = strings.ReplaceAll(s, fmt.Sprintf("\\%03o", c[0]), c)
	}
	return s
}
