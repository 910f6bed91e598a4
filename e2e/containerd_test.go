package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// daemon is a containerd of a test's own, with root, state and socket in a folder.
type daemon struct {
	dir string
	cmd *exec.Cmd
}

// socket is where it listens.
func (d *daemon) socket() string { return filepath.Join(d.dir, "containerd.sock") }

// startContainerd starts one that ends with the test, with nothing left of it. It fails where
// containerd is not installed.
func startContainerd(t *testing.T) *daemon {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("a containerd of one's own needs root")
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

// start starts the daemon and waits until it listens.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(d.dir+"/log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := os.Remove(d.socket()); err != nil && !os.IsNotExist(err) { // of one that was killed
		t.Fatal(err)
	}
	d.cmd = exec.Command("containerd", "-c", d.dir+"/config.toml")
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "containerd listens", func() bool {
		c, err := net.Dial("unix", d.socket())
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
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
