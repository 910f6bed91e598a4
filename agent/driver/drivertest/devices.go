package drivertest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// devices: a task with an image can use the device files that it is given, and no others; other
// files come with them, to be read only.
func devices(t *testing.T, b *bench) {
	dir := t.TempDir()
	b.must(os.Chmod(dir, 0o755))
	node, hidden, file := filepath.Join(dir, "card"), filepath.Join(dir, "other"), filepath.Join(dir, "lib.so")
	for _, name := range []string{node, hidden} {
		b.must(unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))) // what /dev/zero is
	}
	b.must(os.WriteFile(file, []byte("library\n"), 0o644))
	given := in(driver.Box{Image: imageOf(t, Image{})},
		"head -c 3 "+node+" | wc -c; echo x >"+node+" && echo written; cat "+file+"; echo x 2>/dev/null >"+file+" || echo kept; test -e "+hidden+" || echo hidden"+stay)
	given.DeviceNodes, given.DeviceFiles = []string{node}, []string{file}
	id := b.start(given)
	b.says(id, "hidden")
	if out := b.log(id, "stdout"); out != "3\nwritten\nlibrary\nkept\nhidden\n" {
		t.Errorf("it said %q", out)
	}
	missing := in(driver.Box{Image: imageOf(t, Image{})}, "true")
	missing.DeviceNodes = []string{filepath.Join(dir, "missing")}
	b.fails(missing, task.StartFailed, "missing")
}

// hook is a script that finds the root which it is to complete as NVIDIA's hooks do.
const hook = `#!/bin/sh
state=$(cat)
bundle=$(echo "$state" | sed -n 's/.*"bundle":"\([^"]*\)".*/\1/p')
root=$(sed -n 's/.*"root":{"path":"\([^"]*\)".*/\1/p' "$bundle/config.json")
case $root in /*) ;; *) root=$bundle/$root ;; esac
[ -e "$root/bin/sh" ] || { echo "no root at $root"; exit 3; }
ln -s library "$root/usr-link"
echo "$0 $* A=$A $(env | grep -c '^DRIVERTEST')" >>"$root/hooked"
[ "$1" != fail ] || { echo "so it failed" >&2; exit 4; }
[ "$1" != hang ] || exec sleep 1000
`

// hooks: a device's hooks complete the root of each container, in order, also of one that is
// read-only; one that fails, or takes too long, fails the start.
func hooks(t *testing.T, b *bench) {
	path := filepath.Join(t.TempDir(), "hook.sh")
	b.must(os.WriteFile(path, []byte(hook), 0o755))
	image := imageOf(t, Image{})
	given := in(driver.Box{Image: image, ReadOnlyRoot: true}, "cat /hooked; readlink /usr-link"+stay)
	given.Hooks = []driver.Hook{{Path: path, Args: []string{"called", "one", "two"}, Env: []string{"A=b", "PATH=/bin:/usr/bin"}}}
	id := b.start(given)
	b.says(id, "library")
	if out := b.log(id, "stdout"); out != path+" one two A=b 0\nlibrary\n" {
		t.Errorf("it said %q", out)
	}
	for _, how := range []string{"fail", "hang"} {
		bad := in(driver.Box{Image: image}, "true")
		bad.Hooks = []driver.Hook{{Path: path, Args: []string{"called", how}, Env: []string{"PATH=/bin:/usr/bin"}, Timeout: time.Second}}
		b.fails(bad, task.StartFailed, "hook")
	}
	missing := in(driver.Box{Image: image}, "true")
	missing.Hooks = []driver.Hook{{Path: filepath.Join(t.TempDir(), "missing")}}
	b.fails(missing, task.StartFailed, "missing")
	for _, h := range []driver.Hook{{Path: "hook.sh"}, {Path: path, Timeout: -1}} {
		missing.ID, missing.Hooks = fmt.Sprint("never-", h.Timeout), []driver.Hook{h}
		if err := b.driver.Start(t.Context(), missing); err == nil {
			t.Errorf("%+v was taken", h)
		}
	}
}
