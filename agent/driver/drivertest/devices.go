package drivertest

import (
	"os"
	"path/filepath"
	"testing"

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
