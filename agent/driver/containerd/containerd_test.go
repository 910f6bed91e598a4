//go:build linux

package containerd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/containerd/containerdtest"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/agent/driver/registry"
)

func TestMain(m *testing.M) {
	open := func(words []string) (driver.Driver, error) {
		return New(Config{Address: words[0], Dir: words[1], Init: words[2]})
	}
	if !drivertest.Elsewhere(open) {
		goleak.VerifyTestMain(m)
	}
}

// setup is what all tests share: a daemon, the program ohm-init, an image.
type setup struct {
	*containerdtest.Daemon
	init, image, layout string
}

func newSetup(t testing.TB) *setup {
	t.Helper()
	tarFile, layout := drivertest.MakeImage(t, drivertest.Image{})
	return &setup{containerdtest.Run(t), containerdtest.BuildInit(t), "tar:" + tarFile, "oci:" + layout}
}

func (s *setup) driver(t testing.TB, dir string) *Driver {
	t.Helper()
	d, err := New(Config{
		Address: s.Socket(), Dir: dir, Init: s.init, Logs: drivertest.LogLimits(), RegistryAuth: registryAuth(dir),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fixture is a driver with a folder, and so a namespace, of its own.
func (s *setup) fixture(t *testing.T) drivertest.Fixture {
	dir := t.TempDir()
	again := func(t *testing.T) driver.Driver {
		d := s.driver(t, dir)
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	d := again(t).(*Driver)
	t.Cleanup(func() { // after the tasks' own
		if left := leftovers(d, ""); len(left) > 0 {
			t.Errorf("left on the machine: %q", left)
		}
	})
	return drivertest.Fixture{
		Driver: d, Again: again, Image: s.image,
		Work: func(code int, after time.Duration) driver.Task {
			if after == 0 {
				return driver.Task{Command: []string{"sleep", "1000"}}
			}
			return driver.Task{Command: []string{"sh", "-c", fmt.Sprintf("sleep %f; exit %d", after.Seconds(), code)}}
		},
		RegistryAuth: string(registryAuth(dir)),
		StartElsewhere: func(t *testing.T, tasks ...driver.Task) (kill func()) {
			return drivertest.StartElsewhere(t, tasks, s.Socket(), dir, s.init)
		},
		Leftovers: func(t *testing.T, id string) []string { return leftovers(d, id) },
	}
}

// registryAuth is where a driver on the folder has credentials from.
func registryAuth(dir string) registry.Auth { return registry.Auth(filepath.Join(dir, "auth.json")) }

// leftovers looks for a task's rest, or for that of all tasks (empty), on the machine
// itself and in containerd.
func leftovers(d *Driver, id string) (left []string) {
	name := d.namespace
	if id != "" {
		left, name = drivertest.Marked(id), hash(id)
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		data, _ := os.ReadFile(path)
		line := string(data)
		if strings.Contains(line, "containerd-shim") && strings.Contains(line, name) || strings.Contains(line, "ohm-init\x00net\x00"+d.folder(id)) {
			left = append(left, path+": "+line)
		}
	}
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mountinfo)) {
		if strings.Contains(line, name) || id == "" && strings.Contains(line, d.tasks) {
			left = append(left, "mount "+line)
		}
	}
	found, _ := filepath.Glob(filepath.Join(d.tasks, "*"+id+"*"))
	left = append(left, found...)
	for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/*/*/", "/sys/fs/cgroup/*/*/*/"} {
		found, _ := filepath.Glob(pattern + "*" + name + "*")
		left = append(left, found...)
	}
	ctx := context.Background()
	boxes, err := d.client.Containers(ctx)
	if err != nil {
		left = append(left, err.Error())
	}
	for _, box := range boxes {
		if id == "" || strings.HasPrefix(box.ID(), name) {
			left = append(left, "container "+box.ID())
		}
	}
	own := map[string]bool{}
	keys, err := d.strays(ctx, own)
	if err != nil {
		left = append(left, err.Error())
	}
	for _, key := range keys {
		if id == "" || strings.HasPrefix(key, name) {
			left = append(left, "snapshot "+key)
		}
	}
	return left
}

// TestConformance runs the suite against a daemon of the test's own.
func TestConformance(t *testing.T) {
	s := newSetup(t)
	drivertest.Run(t, s.fixture)
}
