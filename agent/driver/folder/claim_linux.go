package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Folders in the making and in the unmaking, beside those of the tasks.
const (
	DraftPrefix = ".draft-"
	GonePrefix  = ".gone-"
)

// Claim makes the folder of a task, locked, among those of all tasks: whole, or not at all. fill
// puts into the draft what is to be there from the first moment. fs.ErrExist if there is one.
func Claim(tasks, id string, fill func(draft string) error) (held *os.File, err error) {
	draft, held, err := draft(tasks)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			held.Close()
			_ = os.RemoveAll(draft)
		}
	}()
	if err := fill(draft); err != nil {
		return nil, err
	}
	if err := os.Rename(draft, filepath.Join(tasks, id)); err != nil { // refused if there is one, as none is ever empty
		return nil, err
	}
	return held, SyncDir(tasks)
}

// draft makes a folder, locked. The gate is shared until it has its lock.
func draft(tasks string) (path string, held *os.File, err error) {
	gate, err := gate(tasks, unix.LOCK_SH)
	if err != nil {
		return "", nil, err
	}
	defer gate.Close()
	if path, err = os.MkdirTemp(tasks, DraftPrefix); err != nil {
		return "", nil, err
	}
	held, taken, err := Lock(path, unix.LOCK_EX)
	if taken {
		err = fmt.Errorf("%s is locked", path)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(path))
	}
	return path, held, nil
}

// Remove removes the folder of a task. Under its name it is never seen half removed, with a
// lock and no end.
func Remove(tasks, id string) error {
	gone := filepath.Join(tasks, GonePrefix+id)
	if err := Discard(gone); err != nil {
		return err
	}
	err := os.Rename(filepath.Join(tasks, id), gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(Discard(gone), SyncDir(tasks))
}

// Sweep removes what claims and removals left that were cut short: with the gate shut, a draft
// that nobody holds is nobody's. While a claim is under way the sweep is left to the next one.
func Sweep(tasks string) error {
	gate, err := gate(tasks, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer gate.Close()
	entries, err := os.ReadDir(tasks)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(tasks, e.Name())
		if strings.HasPrefix(e.Name(), GonePrefix) || strings.HasPrefix(e.Name(), DraftPrefix) && abandoned(path) {
			errs = append(errs, Discard(path))
		}
	}
	return errors.Join(errs...)
}

// abandoned says whether nobody makes that draft any more.
func abandoned(draft string) bool {
	held, err := Held(draft)
	return !held && (err == nil || errors.Is(err, fs.ErrNotExist))
}

// gate locks the folder of all tasks itself, until it is closed.
func gate(tasks string, how int) (*os.File, error) {
	f, err := os.Open(tasks)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", tasks, err)
	}
	return f, nil
}
