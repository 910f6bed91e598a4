//go:build linux

package native

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/registry"
)

func TestMain(m *testing.M) {
	switch args := os.Args[1:]; {
	case Hidden(args):
		// Not os.Exit: with the race detector that takes a second, for each of them.
		unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(Main(args)), 0, 0)
	case drivertest.Elsewhere(func(words []string) (driver.Driver, error) { return variant(words[1]).driver(words[0]) }):
	default:
		goleak.VerifyTestMain(m)
	}
}

// variant is a machine that allows less than this one.
type variant string

const (
	whole  variant = "whole"  // all that this machine allows
	plain  variant = "plain"  // no namespaces
	bare   variant = "bare"   // no namespaces and no cgroups
	legacy variant = "legacy" // no cgroup2, no namespaces
	imaged variant = "imaged" // all that it allows, and every task in an image
)

func (v variant) driver(dir string) (*Driver, error) {
	d, err := New(Config{Dir: dir, Logs: drivertest.LogLimits(), RegistryAuth: registryAuth(dir)})
	if err != nil {
		return nil, err
	}
	if v != whole && v != imaged {
		d.namespaces = false
	}
	switch v {
	case bare:
		d.groups = cgroup.Groups{}
	case legacy:
		name := filepath.Base(d.groups.Members())
		mountinfo, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return nil, err
		}
		var v1 []string
		for line := range strings.Lines(string(mountinfo)) {
			if !strings.Contains(line, " - cgroup2 ") {
				v1 = append(v1, line)
			}
		}
		d.groups = cgroup.Detect([]byte(strings.Join(v1, "")), name)
	}
	return d, nil
}

func (v variant) fixture(t *testing.T) drivertest.Fixture {
	dir := t.TempDir()
	again := func(t *testing.T) driver.Driver {
		t.Helper()
		d, err := v.driver(dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := again(t).(*Driver)
	t.Cleanup(func() { // after the tasks' own
		if left := leftovers(d, "*"); len(left) > 0 {
			t.Errorf("left on the machine: %q", left)
		}
		for _, top := range d.groups.All() {
			if folder.Exists(top) {
				t.Errorf("cgroup %s is left", top)
			}
		}
	})
	var tarFile string
	if v == imaged {
		tarFile, _ = drivertest.MakeImage(t, drivertest.Image{})
		tarFile = "tar:" + tarFile
	}
	return drivertest.Fixture{
		Driver: d,
		Image:  tarFile,
		Again:  again,
		Work: func(code int, after time.Duration) driver.Task {
			if after == 0 {
				return driver.Task{Command: []string{"sleep", "1000"}}
			}
			return driver.Task{Command: []string{"sh", "-c", fmt.Sprintf("sleep %f; exit %d", after.Seconds(), code)}}
		},
		RegistryAuth: string(registryAuth(dir)),
		StartElsewhere: func(t *testing.T, tasks ...driver.Task) (kill func()) {
			return drivertest.StartElsewhere(t, tasks, dir, string(v))
		},
		Leftovers: func(t *testing.T, id string) []string { return leftovers(d, id) },
	}
}

// registryAuth is where a driver on the folder has credentials from.
func registryAuth(dir string) registry.Auth { return registry.Auth(filepath.Join(dir, "auth.json")) }

// leftovers looks for a task's rest, or for that of all tasks (*), on the machine itself.
func leftovers(d *Driver, id string) (left []string) {
	if id != "*" {
		left = append(append(left, drivertest.Marked(id)...), drivertest.Marked(marked(id))...)
	}
	dir := strings.TrimSuffix(d.folder(id), "*")
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		data, _ := os.ReadFile(path)
		if line := string(data); strings.Contains(line, "native-") && strings.Contains(line, dir) {
			left = append(left, path+": "+line)
		}
	}
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mountinfo), dir) {
		left = append(left, "a mount")
	}
	for _, pattern := range []string{d.folder(id), filepath.Join(d.tasks, ".*"+id)} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	for _, group := range d.groups.Child(id).All() {
		found, _ := filepath.Glob(group)
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				left = append(left, path)
			}
		}
	}
	return left
}

// TestConformance runs the suite with all that this machine allows, and with less.
func TestConformance(t *testing.T) {
	for _, v := range []variant{whole, plain, bare, legacy, imaged} {
		if v == imaged && !slices.Contains(must(whole.driver(t.TempDir()))(t).Capabilities(), driver.CanImage) {
			t.Log("left out: imaged, this machine has no namespaces for this user")
			continue
		}
		t.Run(string(v), func(t *testing.T) { drivertest.Run(t, v.fixture) })
	}
}
