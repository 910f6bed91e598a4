package agent

import (
	"strings"
	"testing"
)

func TestLockFolder(t *testing.T) {
	dir := t.TempDir()
	unlock, err := LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockFolder(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second lock: %v; want an error that names %s", err, dir)
	}
	other, err := LockFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := other(); err != nil {
		t.Error(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
	if _, err := LockFolder(dir + "/none"); err == nil {
		t.Error("a folder that is not there was locked")
	}
}
