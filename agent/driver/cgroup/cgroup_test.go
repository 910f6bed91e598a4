//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMounts(t *testing.T) {
	for name, c := range map[string]struct {
		mountinfo string
		want      map[string]string
	}{
		"v1 and v2": {`
22 27 0:21 / /proc rw,relatime - proc proc rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:7 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:32 / /elsewhere/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`, map[string]string{
			"": "/sys/fs/cgroup/unified", "cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
			"memory": "/sys/fs/cgroup/memory", "name=systemd": "/sys/fs/cgroup/systemd", "rw": "/sys/fs/cgroup/cpu,cpuacct",
		}},
		"v2 in a strange place": {`
41 31 0:38 / /a\040b\134c rw,relatime shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate
`, map[string]string{"": `/a b\c`}},
		"none, and lines that are not understood": {"\n - cgroup2\n1 2 3 - cgroup x y\n1 2 3 4 5\n", map[string]string{}},
	} {
		if diff := cmp.Diff(c.want, mounts([]byte(c.mountinfo))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestDoomed: a process that was killed is doomed from then on, whoever has yet to notice.
func TestDoomed(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if Doomed(cmd.Process.Pid) {
		t.Error("one that lives is doomed")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !Doomed(cmd.Process.Pid) {
		t.Error("one that was killed is not doomed")
	}
	_ = cmd.Wait() // killed
	if !Doomed(cmd.Process.Pid) {
		t.Error("one that is gone is not doomed")
	}
}

// TestProbeOfTheDead: what a killed agent has left of its look at what works goes with the
// next one's; that of one that lives stays. (Found by make chaos.)
func TestProbeOfTheDead(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(t.TempDir(), "memory")
	dead, own := fmt.Sprintf("%s%d-1", probePrefix, cmd.Process.Pid), fmt.Sprintf("%s%d-1", probePrefix, os.Getpid())
	for _, name := range []string{dead, own, "a-task"} {
		if err := os.MkdirAll(filepath.Join(top, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g := Groups{Memory: top}
	g.sweepProbes()
	if left := g.Names(); !slices.Equal(left, []string{"a-task", own}) {
		t.Errorf("left: %q", left)
	}
}
