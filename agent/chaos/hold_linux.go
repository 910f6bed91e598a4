package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// holdVerb is the word by which the run's program becomes the beginning of a task.
const holdVerb = "hold"

// Hold writes down that an attempt begins, and becomes its script: with the lock of the slot,
// which every process below inherits, so that it is held until none of them lives. It returns
// only if that cannot be done.
func Hold(notes, script string) error {
	slot := os.Getenv("OHM_JOB") + "." + os.Getenv("OHM_INDEX")
	attempt := slot + " " + os.Getenv("OHM_ATTEMPT")
	// Not by os: its files are closed when another program is executed.
	fd, err := syscall.Open(filepath.Join(notes, "locks", slot), syscall.O_RDWR|syscall.O_CREAT, 0o666)
	if err != nil {
		return fmt.Errorf("lock of %s: %w", slot, err)
	}
	word := "begin"
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock of %s: %w", slot, err)
		}
		word = "double"
	}
	f, err := os.OpenFile(filepath.Join(notes, "notes"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, word, attempt) // one write: lines do not mix
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return syscall.Exec("/bin/busybox", []string{"busybox", "sh", "-c", script}, os.Environ())
}
