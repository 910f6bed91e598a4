// Package containerdtest runs a containerd of a test's own: with root, state and sockets in a
// folder, so that it can be killed at will and nothing of it stays.
package containerdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// Daemon is one containerd. Its methods are for one goroutine.
type Daemon struct {
	Dir string // short: the path of a socket is bounded
	cmd *exec.Cmd
}

// patience is for a daemon on a machine that is out of breath.
const patience = 20 * time.Second

// New writes the configuration of a daemon in an existing folder; Start starts it.
func New(dir string) (*Daemon, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("containerd needs root")
	}
	for program, of := range map[string]string{"containerd": "containerd", "containerd-shim-runc-v2": "containerd", "runc": "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: apt-get install %s", err, of)
		}
	}
	d := &Daemon{Dir: dir}
	config := fmt.Sprintf(`version = 2
root = %q
state = %q
oom_score = 0
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`, dir+"/root", dir+"/state", d.Socket(), d.Socket()+".ttrpc")
	return d, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600)
}

// Socket is the daemon's address.
func (d *Daemon) Socket() string { return filepath.Join(d.Dir, "containerd.sock") }

// Launch starts the daemon's process. Its log is appended to the file log in its folder.
func (d *Daemon) Launch() error {
	log, err := os.OpenFile(filepath.Join(d.Dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command("containerd", "-c", filepath.Join(d.Dir, "config.toml"))
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return d.cmd.Start()
}

// Start launches the daemon and waits until it answers.
func (d *Daemon) Start() error {
	if err := d.Launch(); err != nil {
		return err
	}
	c, err := client.New(d.Socket())
	if err != nil {
		return err
	}
	defer c.Close()
	for begin := time.Now(); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := c.Version(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if time.Since(begin) > patience {
			return fmt.Errorf("containerd does not answer: %w", err)
		}
	}
}

// End ends the daemon with a signal and waits for it. No task ends with it.
func (d *Daemon) End(sig syscall.Signal) {
	if d.cmd != nil {
		_ = d.cmd.Process.Signal(sig) // it may have ended
		_ = d.cmd.Wait()              // by that signal: that is its error
	}
	d.cmd = nil
}

// Left is what the daemon has of a namespace but images: containers, and file systems that
// are not an image's.
func (d *Daemon) Left(ctx context.Context, namespace string) (left []string, err error) {
	c, err := client.New(d.Socket(), client.WithDefaultNamespace(namespace), client.WithTimeout(patience))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx = namespaces.WithNamespace(ctx, namespace)
	boxes, err := c.Containers(ctx)
	if err != nil {
		return nil, err
	}
	for _, box := range boxes {
		left = append(left, "container "+box.ID())
	}
	err = c.SnapshotService("overlayfs").Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		if info.Kind != snapshots.KindCommitted {
			left = append(left, "snapshot "+info.Name)
		}
		return nil
	})
	return left, err
}

// Mounts are those below the daemon's folder.
func (d *Daemon) Mounts() (points []string) {
	data, _ := os.ReadFile("/proc/self/mountinfo") // without it nothing can be said
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], d.Dir+"/") {
			points = append(points, f[4])
		}
	}
	return points
}

// Run starts a daemon that ends with the test, with nothing left of it.
func Run(t testing.TB) *Daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctd") // not below the test's folder, which is long
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(dir)
	if err == nil {
		err = d.Start()
	}
	t.Cleanup(func() {
		d.End(syscall.SIGTERM)
		if left := d.Mounts(); len(left) > 0 {
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
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Again starts a daemon that has ended.
func (d *Daemon) Again(t testing.TB) {
	t.Helper()
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
}

// BuildInit builds ohm-init for a test.
func BuildInit(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ohm-init")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "github.com/ohmcell/ohm/cmd/ohm-init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build ohm-init: %v\n%s", err, out)
	}
	return path
}
