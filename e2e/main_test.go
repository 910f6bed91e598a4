package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// programs is the folder of the binaries under test.
var programs string

func TestMain(m *testing.M) {
	if dir := os.Getenv(etcdDirVar); dir != "" { // this is the etcd of a test
		os.Exit(etcdMain(dir, os.Getenv(etcdURLVar)))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "ohm-e2e")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		programs = dir
		build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./cmd/ohm", "./examples/customscheduler", "./examples/race")
		build.Dir, build.Stdout, build.Stderr = "..", os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building:", err)
			return 1
		}
		// It runs in images that hold nothing else.
		build = exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+string(filepath.Separator), "./cmd/ohm-init")
		build.Dir, build.Env, build.Stdout, build.Stderr = "..", append(os.Environ(), "CGO_ENABLED=0"), os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building:", err)
			return 1
		}
		code := m.Run()
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}
