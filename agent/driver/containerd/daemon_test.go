//go:build linux

package containerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"

	"github.com/ohmcell/ohm/agent/driver/drivertest"
)

// daemon is a containerd of the test's own, with root, state and socket in a folder.
type daemon struct {
	dir string
	cmd *exec.Cmd
}

func (d *daemon) socket() string { return filepath.Join(d.dir, "containerd.sock") }

// newDaemon starts one that ends with the test, with nothing left of it.
func newDaemon(t testing.TB) *daemon {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("the containerd driver's tests need root")
	}
	for program, of := range map[string]string{"containerd": "containerd", "containerd-shim-runc-v2": "containerd", "runc": "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: apt-get install %s", err, of)
		}
	}
	// Not below the test's folder: the path of a socket is short.
	dir, err := os.MkdirTemp("", "ctd")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{dir: dir}
	config := fmt.Sprintf(`version = 2
root = %q
state = %q
oom_score = 0
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`, dir+"/root", dir+"/state", d.socket(), d.socket()+".ttrpc")
	if err := os.WriteFile(dir+"/config.toml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start(t)
	t.Cleanup(func() {
		d.end(syscall.SIGTERM)
		if left := mountsBelow(dir); len(left) > 0 {
			t.Errorf("containerd leaves mounts: %q", left)
		}
		if t.Failed() {
			log, _ := os.ReadFile(dir + "/log")
			t.Logf("containerd's log ends: %s", log[max(0, len(log)-6000):])
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *daemon) start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(d.dir+"/log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	d.cmd = exec.Command("containerd", "-c", d.dir+"/config.toml")
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(d.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begin := time.Now()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := c.Version(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("containerd does not answer: %v", err)
		}
	}
}

// end ends the daemon, and no task.
func (d *daemon) end(sig syscall.Signal) {
	_ = d.cmd.Process.Signal(sig)
	_ = d.cmd.Wait() // by that signal: that is its error
}

func mountsBelow(dir string) (points []string) {
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	return points
}

// buildInit builds ohm-init once for all tests.
func buildInit(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ohm-init")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "github.com/ohmcell/ohm/cmd/ohm-init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build ohm-init: %v\n%s", err, out)
	}
	return path
}

// setup is what all tests share: a daemon, the program ohm-init, an image.
type setup struct {
	*daemon
	init, image, layout string
}

func newSetup(t testing.TB) *setup {
	t.Helper()
	tarFile, layout := drivertest.MakeImage(t, drivertest.Image{})
	return &setup{newDaemon(t), buildInit(t), "tar:" + tarFile, "oci:" + layout}
}

func (s *setup) driver(t testing.TB, dir string) *Driver {
	t.Helper()
	d, err := New(Config{Address: s.socket(), Dir: dir, Init: s.init, Logs: drivertest.LogLimits()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
