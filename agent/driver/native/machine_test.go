//go:build linux

package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestLimits: what the driver says that it enforces stands in the cgroups, with the command
// in them and neither shim nor init, which nobody asked for.
func TestLimits(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *place) {
		if p.v != bare {
			p.needs(t, "cgroup-memory")
		}
		work := driver.Task{
			ID: "one", Command: []string{"sleep", "1000"}, Env: map[string]string{drivertest.MarkEnv: marked("one")},
			Resources: &ohmv1.Resources{MemoryBytes: 64 << 20, CpuMilli: 1500},
		}
		if err := p.Start(t.Context(), work); err != nil {
			t.Fatal(err)
		}
		st := p.state(t, "one")
		for _, c := range []struct{ ability, dir, v1, v1Value, v2, v2Value string }{
			{"cgroup-memory", st.Cgroups.Memory, "memory.limit_in_bytes", "67108864", "memory.max", "67108864"},
			{"cgroup-cpu", st.Cgroups.CPU, "cpu.shares", "1536", "cpu.weight", "150"},
			{"cgroup-pids", st.Cgroups.Pids, "pids.max", "4096", "pids.max", "4096"},
		} {
			if slices.Contains(p.Capabilities(), c.ability) != (c.dir != "") {
				t.Errorf("%s is among %v, but its group is %q", c.ability, p.Capabilities(), c.dir)
			}
			if c.dir == "" {
				continue
			}
			file, value := c.v1, c.v1Value
			if c.dir == st.Cgroups.Unified {
				file, value = c.v2, c.v2Value
			}
			if got := must(os.ReadFile(filepath.Join(c.dir, file)))(t); strings.TrimSpace(string(got)) != value {
				t.Errorf("%s is %s, want %s", file, got, value)
			}
		}
		for _, dir := range st.Cgroups.All() {
			// The thread of the init's that has forked the command there may only be ending.
			drivertest.Eventually(t, "the command is alone in "+dir, func() bool {
				return string(must(os.ReadFile(filepath.Join(dir, "cgroup.procs")))(t)) == fmt.Sprintln(st.Command.Pid)
			})
		}
	})
}

// TestNamespaces: in namespaces a task sees its own processes only, and no mount of it
// reaches the node.
func TestNamespaces(t *testing.T) {
	p := newPlace(t, whole)
	p.needs(t, "namespaces")
	st := p.start(t, "one", "sh", "-c", `mkdir m && mount -t tmpfs none m && echo $$; ls -d /proc/[0-9]* | wc -l; exec sleep 1000`)
	var out []string
	drivertest.Eventually(t, "it has said all", func() bool {
		out = strings.Fields(p.read(t, "one", "stdout"))
		return len(out) == 2
	})
	if out[0] == fmt.Sprint(st.Command.Pid) || len(out[1]) > 1 {
		t.Errorf("its pid is %s, and it sees %s processes", out[0], out[1])
	}
	if info := must(os.ReadFile("/proc/self/mountinfo"))(t); strings.Contains(string(info), p.folder("one")) {
		t.Error("its mount reached the node")
	}
	for _, ns := range []string{"pid", "mnt", "uts", "ipc"} {
		ours := must(os.Readlink("/proc/self/ns/" + ns))(t)
		if theirs := must(os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", st.Command.Pid, ns)))(t); theirs == ours {
			t.Errorf("the %s namespace is ours", ns)
		}
	}
}

func (p *place) read(t *testing.T, id, stream string) string {
	t.Helper()
	r := must(p.Logs(t.Context(), id, stream, driver.From{}))(t)
	defer r.Close()
	return string(must(io.ReadAll(r))(t))
}

// TestRemoveUnmounts: a task without namespaces may leave a mount in its folder, and what
// is mounted there is not the driver's to delete.
func TestRemoveUnmounts(t *testing.T) {
	newPlace(t, whole).needs(t, "namespaces") // who may not make them may not mount either
	p := newPlace(t, plain)
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start(t, "one", "sh", "-c", `mkdir m && mount --bind "`+filepath.Dir(precious)+`" m && ls m`)
	drivertest.Eventually(t, "it has ended", func() bool {
		o := must2(p.Observe(t.Context(), "one"))(t)
		return task.Ended(o.State)
	})
	if out := p.read(t, "one", "stdout"); out != "precious\n" {
		t.Fatalf("mounted %q", out)
	}
	if err := p.Remove(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if left := leftovers(p.Driver, "one"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if data, err := os.ReadFile(precious); string(data) != "data" {
		t.Errorf("precious is %q, %v", data, err)
	}
}

// TestCase108LogIsSomethingElse: a task puts something else in the place of its log.
func TestCase108LogIsSomethingElse(t *testing.T) {
	p := newPlace(t, whole)
	p.start(t, "other", "sleep", "1000")
	secret := filepath.Join(p.dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, trap := range map[string]func(log string) error{
		"symlink":            func(log string) error { return os.Symlink(secret, log) },
		"symlink upwards":    func(log string) error { return os.Symlink("../../secret", log) },
		"symlink to another": func(log string) error { return os.Symlink("../other/stdout", log) },
		"symlink to a fd":    func(log string) error { return os.Symlink("/proc/self/fd/0", log) },
		"hard link":          func(log string) error { return os.Link(secret, log) },
		"FIFO":               func(log string) error { return unix.Mkfifo(log, 0o600) },
		"device":             func(log string) error { return unix.Mknod(log, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
		"folder":             func(log string) error { return os.Mkdir(log, 0o700) },
		"socket": func(log string) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrUnix{Name: log})
		},
	} {
		dir := filepath.Join(string(p.logs), "one")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := trap(filepath.Join(dir, "stdout")); err == unix.EPERM {
			t.Logf("this user cannot make a %s", name)
			continue
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r, err := p.Logs(t.Context(), "one", "stdout", driver.From{}); err == nil {
			data, _ := io.ReadAll(io.LimitReader(r, 10))
			r.Close()
			t.Errorf("%s: read %q", name, data)
		} else if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.RemoveLogs(t.Context(), "one"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Symlink("other", filepath.Join(string(p.logs), "one")); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Logs(t.Context(), "one", "stdout", driver.From{}); err == nil {
		r.Close()
		t.Error("the log's folder is a link, and was followed")
	}
	for _, id := range []string{"..", "../tasks/other", "other/../other", "", ".", "a\x00b", strings.Repeat("a", 241)} {
		if r, err := p.Logs(t.Context(), id, "stdout", driver.From{}); err == nil {
			r.Close()
			t.Errorf("the logs of %q were opened", id)
		}
		if err := p.RemoveLogs(t.Context(), id); err == nil {
			t.Errorf("the logs of %q were removed", id)
		}
		if err := p.Remove(t.Context(), id); err == nil {
			t.Errorf("%q was removed", id)
		}
	}
	if data := must(os.ReadFile(secret))(t); string(data) != "secret" {
		t.Errorf("the secret is %q", data)
	}
	if out := p.read(t, "other", "stdout"); out != "" {
		t.Errorf("the log of the other task is %q", out)
	}
}

// TestFullDiskHidesNoExit: exit.json takes the room that was reserved for it.
func TestFullDiskHidesNoExit(t *testing.T) {
	newPlace(t, whole).needs(t, "namespaces") // who may not make them may not mount either
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	p := &place{must(plain.driver(dir))(t), dir, plain}
	t.Cleanup(func() {
		if err := errors.Join(p.Kill(context.Background(), "one"), p.Remove(context.Background(), "one")); err != nil {
			t.Error(err)
		}
	})
	p.start(t, "one", "sh", "-c", "until [ -e go ]; do sleep 0.02; done; cat /dev/zero >fill; echo x >>fill || exit 42")
	if err := os.WriteFile(filepath.Join(p.folder("one"), scratchDir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	drivertest.Eventually(t, "it has ended", func() bool {
		return task.Ended(must2(p.Observe(t.Context(), "one"))(t).State)
	})
	if err := os.WriteFile(filepath.Join(dir, "more"), make([]byte, 8192), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if o := must2(p.Observe(t.Context(), "one"))(t); o.Cause != task.Exited || o.ExitCode != 42 {
		t.Errorf("observed %+v", o)
	}
}

// TestNobodysIsGivenBack: what runs in a cgroup of the driver, and has no folder any more, ends
// when the next driver begins; what has one goes on.
func TestNobodysIsGivenBack(t *testing.T) {
	p := newPlace(t, whole)
	p.needs(t, "cgroup-kill")
	gone, stays := p.start(t, "gone", "sleep", "1000"), p.start(t, "stays", "sleep", "1000")
	if err := os.RemoveAll(p.folder("gone")); err != nil {
		t.Fatal(err)
	}
	again := must(whole.driver(p.dir))(t)
	drivertest.Eventually(t, "its command has ended", func() bool { return !gone.Command.Lives() && !gone.Shim.Lives() })
	if left := leftovers(again, "gone"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if o, ok, err := again.Observe(t.Context(), "stays"); o.State != task.Running || !ok || err != nil || !stays.Command.Lives() {
		t.Errorf("the other is %+v, %v, %v", o, ok, err)
	}
}
