//go:build unix

package filelock

import (
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(path); !errors.Is(err, ErrHeld) {
		t.Errorf("taken twice: %v", err)
	}
	freed := make(chan error, 1)
	time.AfterFunc(patience/10, func() { freed <- unlock() }) // as by the end of a child
	second, err := Take(path)
	if err != nil {
		t.Fatalf("not taken once it was free: %v", err)
	}
	if err := errors.Join(<-freed, second()); err != nil {
		t.Error(err)
	}
	if _, err := Take(filepath.Join(t.TempDir(), "none", "lock")); err == nil {
		t.Error("locked in a folder that is not there")
	}
}
