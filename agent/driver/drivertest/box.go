package drivertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// in is a shell script in a box.
func in(box driver.Box, script string) driver.Task {
	return driver.Task{Command: []string{"sh", "-c", script}, Box: box}
}

// stay keeps a task running.
const stay = "; while :; do sleep 0.05; done"

// status is one field of /proc/<pid>/status.
func (b *bench) status(pid int, field string) string {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	b.must(err)
	for line := range strings.Lines(string(data)) {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	b.Fatalf("process %d has no %s", pid, field)
	return ""
}

// mount is how something is mounted at a place, as the process sees it: file system, and the
// options of mount and file system.
func (b *bench) mount(pid int, at string) (kind string, options []string) {
	b.Helper()
	kind, options, err := mountOf(pid, at)
	b.must(err)
	return kind, options
}

func mountOf(pid int, at string) (kind string, options []string, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return "", nil, err
	}
	for line := range strings.Lines(string(data)) { // the last one hides the others
		front, back, _ := strings.Cut(line, " - ")
		f, k := strings.Fields(front), strings.Fields(back)
		if len(f) > 5 && len(k) > 2 && f[4] == at {
			kind, options = k[0], append(strings.Split(f[5], ","), strings.Split(k[2], ",")...)
		}
	}
	return kind, options, nil
}

// fails expects of a start that it fails with the text in its error, and of the task that
// it ended with the cause.
func (b *bench) fails(t driver.Task, cause, text string) driver.Observation {
	b.Helper()
	t = b.named(t)
	err := b.driver.Start(b.Context(), t)
	if err == nil || !strings.Contains(err.Error(), text) {
		b.Errorf("start: %v, want an error with %q", err, text)
	}
	b.restart()
	o := b.observe(t.ID)
	if o.State != task.Failed || o.Cause != cause || !strings.Contains(o.Message, text) || o.Pid != 0 {
		b.Errorf("observed %+v, want cause %s, with %q", o, cause, text)
	}
	b.must(b.driver.Remove(b.Context(), t.ID))
	b.clean(t.ID)
	return o
}

// refusesWhatItCannot: whatever a driver does not say that it can, it refuses, and does
// nothing for.
func refusesWhatItCannot(t *testing.T, b *bench) {
	plain := func(box driver.Box) driver.Task {
		w := b.Work(0, 0)
		w.Box = box
		return w
	}
	limited := func(change func(*driver.Task)) driver.Task {
		w := b.Work(0, 0)
		change(&w)
		return w
	}
	several := driver.Task{Containers: []driver.Container{{Name: "one", Command: []string{"true"}}}}
	for ability, w := range map[string]driver.Task{
		driver.CanHostRoot:   plain(driver.Box{}),
		driver.CanImage:      plain(driver.Box{Image: "oci:/somewhere"}),
		driver.CanRegistry:   plain(driver.Box{Image: "example.org/some:1"}),
		driver.CanUser:       plain(driver.Box{User: "1"}),
		driver.CanMount:      plain(driver.Box{Mounts: []driver.Mount{{Target: "/mnt"}}}),
		driver.CanReadOnly:   plain(driver.Box{ReadOnlyRoot: true}),
		driver.CanCaps:       plain(driver.Box{DropCaps: []string{"ALL"}}),
		driver.CanConfine:    plain(driver.Box{Confined: true}),
		driver.CanContainers: several,
		driver.CanCPUMax:     limited(func(w *driver.Task) { w.CPUMax = 100 }),
		driver.CanDevices:    limited(func(w *driver.Task) { w.Image, w.DeviceNodes = "oci:/somewhere", []string{"/dev/null"} }),
		driver.CanProbe:      limited(func(w *driver.Task) { w.Probed = true }),
		driver.CanOwnNetwork: limited(func(w *driver.Task) { w.OwnNetwork = true }),
		driver.CanPids:       limited(func(w *driver.Task) { w.Pids = 100 }),
	} {
		if !slices.Contains(driver.Needs(w).Names(), ability) {
			t.Errorf("a task for %s needs %v", ability, driver.Needs(w))
		}
		if slices.Contains(b.driver.Capabilities(), ability) {
			continue
		}
		w.ID = "refused-" + ability
		if err := b.driver.Start(b.Context(), w); !errors.Is(err, driver.ErrCannot) || !strings.Contains(err.Error(), ability) {
			t.Errorf("%s: %v", ability, err)
		}
		if o, ok, err := b.driver.Observe(b.Context(), w.ID); ok || err != nil {
			t.Errorf("%s: it is known as %+v, %v", ability, o, err)
		}
	}
	if !slices.IsSorted(b.driver.Capabilities()) {
		t.Errorf("not sorted: %v", b.driver.Capabilities())
	}
}

func user(t *testing.T, b *bench) {
	for name, want := range map[string][2]string{
		"65534": {"65534", ""}, "nobody": {"65534", "65534"}, "1234:4321": {"1234", "4321"}, "nobody:50": {"65534", "50"},
	} {
		id := b.start(in(driver.Box{User: name}, "echo x >file && echo written"+stay))
		b.says(id, "written")
		pid := b.observe(id).Pid
		if got := b.status(pid, "Uid"); got != strings.Repeat(want[0]+" ", 3)+want[0] {
			t.Errorf("user %s runs as %s", name, got)
		}
		if got := b.status(pid, "Gid"); want[1] != "" && got != strings.Repeat(want[1]+" ", 3)+want[1] {
			t.Errorf("user %s has the groups %s", name, got)
		}
		if got := b.status(pid, "CapEff"); strings.Trim(got, "0") != "" {
			t.Errorf("user %s has the capabilities %s", name, got)
		}
		b.must(b.driver.Signal(b.Context(), id, syscall.SIGTERM))
		b.expectSignal(b.ended(id), int(syscall.SIGTERM))
		b.must(b.driver.Remove(b.Context(), id))
		b.clean(id)
	}
}

func userUnknown(t *testing.T, b *bench) {
	b.fails(in(driver.Box{User: "not-a-user"}, "true"), task.StartFailed, "not-a-user")
}

func workingFolder(t *testing.T, b *bench) {
	id := b.start(in(driver.Box{Dir: "/tmp"}, "pwd"+stay))
	b.says(id, "/tmp\n")
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", b.observe(id).Pid)); dir != "/tmp" {
		t.Errorf("it is in %s, %v", dir, err)
	}
}

func mountOfTheNode(t *testing.T, b *bench) {
	dir := t.TempDir()
	b.must(os.WriteFile(filepath.Join(dir, "file"), []byte("of the node\n"), 0o644))
	id := b.start(in(driver.Box{Mounts: []driver.Mount{
		{Source: dir, Target: "/mnt"}, {Source: dir, Target: "/media", ReadOnly: true},
		{Source: filepath.Join(dir, "file"), Target: "/etc/hostname", ReadOnly: true},
	}}, "cat /mnt/file /media/file /etc/hostname; echo new >/mnt/new; echo no >/media/no || echo refused"+stay))
	b.says(id, "refused")
	if out := b.log(id, "stdout"); strings.Count(out, "of the node\n") != 3 {
		t.Errorf("it reads %q", out)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "new")); string(data) != "new\n" {
		t.Errorf("what it wrote is %q, %v", data, err)
	}
	pid := b.observe(id).Pid
	if _, options := b.mount(pid, "/media"); !slices.Contains(options, "ro") {
		t.Errorf("/media is mounted %v", options)
	}
	if _, options := b.mount(os.Getpid(), "/mnt"); options != nil {
		t.Errorf("the node has /mnt mounted, too: %v", options)
	}
	b.must(b.driver.Kill(b.Context(), id))
	b.must(b.driver.Remove(b.Context(), id))
	b.clean(id)
	if data, err := os.ReadFile(filepath.Join(dir, "file")); err != nil {
		t.Errorf("with the task went the node's file: %q, %v", data, err)
	}
}

func mountMissing(t *testing.T, b *bench) {
	missing := filepath.Join(t.TempDir(), "missing")
	b.fails(in(driver.Box{Mounts: []driver.Mount{{Source: missing, Target: "/mnt"}}}, "true"), task.StartFailed, missing)
}

func tmpfs(t *testing.T, b *bench) {
	id := b.start(in(driver.Box{User: "65534", Mounts: []driver.Mount{{Target: "/srv", Size: 1 << 20}}},
		"echo x >/srv/small && echo small; dd if=/dev/zero of=/srv/big bs=65536 count=64 2>/dev/null || echo full"+stay))
	b.says(id, "full")
	if out := b.log(id, "stdout"); out != "small\nfull\n" {
		t.Errorf("it said %q", out)
	}
	if kind, options := b.mount(b.observe(id).Pid, "/srv"); kind != "tmpfs" || !slices.Contains(options, "size=1024k") {
		t.Errorf("/srv is a %s, %v", kind, options)
	}
	if _, err := os.Stat("/srv/small"); err == nil {
		t.Error("it is on the node")
	}
}

func readOnlyRoot(t *testing.T, b *bench) {
	id := b.start(in(driver.Box{ReadOnlyRoot: true, Mounts: []driver.Mount{{Target: "/srv"}}},
		"echo x >/tmp/drivertest-read-only || echo refused; echo x >mine && echo x >/srv/mine && echo written"+stay))
	b.says(id, "written")
	if out := b.log(id, "stdout"); out != "refused\nwritten\n" {
		t.Errorf("it said %q", out)
	}
	if _, options := b.mount(b.observe(id).Pid, "/"); !slices.Contains(options, "ro") {
		t.Errorf("its root is mounted %v", options)
	}
}

// capsOf are the capabilities of a process that stand in a field of its status.
func (b *bench) capsOf(pid int, field string) uint64 {
	b.Helper()
	bits, err := strconv.ParseUint(b.status(pid, field), 16, 64)
	b.must(err)
	return bits
}

// Numbers of capabilities, of linux/capability.h.
const (
	capKill     = 5
	capNetAdmin = 12
	capNetRaw   = 13
)

func capabilitiesDropped(t *testing.T, b *bench) {
	all := b.start(in(driver.Box{DropCaps: []string{"ALL"}}, stay[2:]))
	some := b.start(in(driver.Box{DropCaps: []string{"CAP_NET_RAW"}}, stay[2:]))
	but := b.start(in(driver.Box{DropCaps: []string{"ALL"}, AddCaps: []string{"CAP_KILL"}}, stay[2:]))
	for _, field := range []string{"CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"} {
		if bits := b.capsOf(b.observe(all).Pid, field); bits != 0 {
			t.Errorf("without any, %s is %x", field, bits)
		}
		if bits := b.capsOf(b.observe(some).Pid, field); bits&(1<<capNetRaw) != 0 {
			t.Errorf("without CAP_NET_RAW, %s is %x", field, bits)
		}
		if bits := b.capsOf(b.observe(but).Pid, field); bits&^(1<<capKill) != 0 {
			t.Errorf("with nothing but CAP_KILL, %s is %x", field, bits)
		}
	}
	if bits := b.capsOf(b.observe(some).Pid, "CapEff"); bits&(1<<capKill) == 0 {
		t.Errorf("with CAP_KILL left, CapEff is %x", bits)
	}
	if bits := b.capsOf(b.observe(but).Pid, "CapEff"); bits != 1<<capKill {
		t.Errorf("with nothing but CAP_KILL, CapEff is %x", bits)
	}
}

func capabilitiesAdded(t *testing.T, b *bench) {
	o := b.observe(b.start(in(driver.Box{AddCaps: []string{"CAP_NET_ADMIN"}}, stay[2:])))
	if bits := b.capsOf(o.Pid, "CapEff"); bits&(1<<capNetAdmin) == 0 {
		t.Errorf("with CAP_NET_ADMIN, CapEff is %x", bits)
	}
	b.fails(in(driver.Box{AddCaps: []string{"CAP_NONE_SUCH"}}, "true"), task.StartFailed, "CAP_NONE_SUCH")
	const resource = 24 // CAP_SYS_RESOURCE, which many a container does not have
	if b.capsOf(os.Getpid(), "CapBnd")&(1<<resource) == 0 {
		b.fails(in(driver.Box{AddCaps: []string{"CAP_SYS_RESOURCE"}}, "true"), task.StartFailed, "CAP_SYS_RESOURCE")
	}
}

// confined: without seccomp any process may make itself a user namespace; with the usual
// profile only one that has CAP_SYS_ADMIN may.
func confined(t *testing.T, b *bench) {
	id := b.start(in(driver.Box{Confined: true, DropCaps: []string{"CAP_SYS_ADMIN"}}, "unshare -U true && echo got out; echo done"+stay))
	b.says(id, "done")
	if out := b.log(id, "stdout"); out != "done\n" {
		t.Errorf("it said %q", out)
	}
	pid := b.observe(id).Pid
	if got := b.status(pid, "NoNewPrivs"); got != "1" {
		t.Errorf("NoNewPrivs is %s", got)
	}
	if got := b.status(pid, "Seccomp"); got != "2" {
		t.Errorf("Seccomp is %s", got)
	}
}

func pidsLimit(t *testing.T, b *bench) {
	spawn := func(n int) driver.Task {
		w := in(driver.Box{}, fmt.Sprintf("for i in $(seq %d); do sleep 1000 & done; echo all", n))
		w.Pids = 20
		return w
	}
	few := b.start(spawn(15))
	b.expectExit(b.ended(few), 0)
	if out := b.log(few, "stdout"); out != "all\n" {
		t.Errorf("with room for 15 it said %q", out)
	}
	many := b.start(spawn(40))
	if o := b.ended(many); o.State != task.Failed || b.log(many, "stdout") != "" {
		t.Errorf("with room for 20 it started 40 processes: %+v", o)
	}
	if out := b.log(many, "stderr"); !strings.Contains(out, "fork") {
		t.Errorf("it said %q", out)
	}
}
