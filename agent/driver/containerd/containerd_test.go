//go:build linux

package containerd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
)

// verbElsewhere makes the test's program an agent of its own: it starts tasks and waits
// to be killed.
const verbElsewhere = "test-start-elsewhere"

func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) == 5 && args[0] == verbElsewhere {
		if err := elsewhere(args[1], args[2], args[3], args[4]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func elsewhere(socket, dir, init, tasks string) error {
	d, err := New(Config{Address: socket, Dir: dir, Init: init})
	if err != nil {
		return err
	}
	var list []driver.Task
	if err := json.Unmarshal([]byte(tasks), &list); err != nil {
		return err
	}
	for _, t := range list {
		if err := d.Start(context.Background(), t); err != nil {
			return err
		}
	}
	fmt.Println("started")
	_, err = os.Stdin.Read(make([]byte, 1)) // until the test's end at the latest
	return err
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
		StartElsewhere: func(t *testing.T, tasks ...driver.Task) (kill func()) {
			return s.startElsewhere(t, dir, tasks)
		},
		Leftovers: func(t *testing.T, id string) []string { return leftovers(d, id) },
	}
}

func (s *setup) startElsewhere(t *testing.T, dir string, tasks []driver.Task) (kill func()) {
	t.Helper()
	list, err := json.Marshal(tasks)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", verbElsewhere, s.socket(), dir, s.init, string(list))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	kill = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed: that is its error
			stdin.Close()
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "started\n" {
		t.Fatalf("the other agent says %q, %v", line, err)
	}
	return kill
}

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
		if line := string(data); strings.Contains(line, "containerd-shim") && strings.Contains(line, name) {
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
