//go:build linux

package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/pkg/task"
)

// served is a task in a network of its own, which answers at a port.
func (p *place) served(id string) (w driver.Task, port int32) {
	p.t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		p.t.Fatal(err)
	}
	defer l.Close()
	port = int32(l.Addr().(*net.TCPAddr).Port)
	return driver.Task{
		ID: id, OwnNetwork: true, Publish: []int32{port}, Env: map[string]string{drivertest.MarkEnv: id}, Box: driver.Box{Image: p.setup.image},
		Command: []string{"sh", "-c", fmt.Sprintf("exec busybox nc -ll -p %d -e echo hello", port)},
	}, port
}

// answers says whether the task answers at its port of the node.
func answers(port int32) bool {
	c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // else it waits longer
	word := make([]byte, 6)
	n, err := c.Read(word)
	return err == nil && string(word[:n]) == "hello\n"
}

func (p *place) startServed(id string) (port int32) {
	p.t.Helper()
	w, port := p.served(id)
	if err := p.Start(p.t.Context(), w); err != nil {
		p.t.Fatal(err)
	}
	drivertest.Eventually(p.t, id+" answers", func() bool { return answers(port) })
	return port
}

// remove ends a task and gives it back; then nobody keeps its network any more.
func (p *place) remove(id string) {
	p.t.Helper()
	if err := errors.Join(p.Kill(p.t.Context(), id), p.Remove(p.t.Context(), id)); err != nil {
		p.t.Error(err)
	}
	if left := p.keepers()[id]; len(left) > 0 {
		p.t.Errorf("keepers of %s are left: %v", id, left)
	}
}

// TestNetworkOutlivesDaemon: a task goes on being reached while containerd is killed, and is
// ended as any other when it is back.
func TestNetworkOutlivesDaemon(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	port := p.startServed("one")
	keepers := p.keepers()["one"]
	s.End(syscall.SIGKILL)
	if !answers(port) {
		t.Error("without the daemon it does not answer")
	}
	s.Again(t)
	drivertest.Eventually(t, "the daemon is found again", func() bool {
		o, ok, err := p.Observe(t.Context(), "one")
		return err == nil && ok && o.State == task.Running
	})
	if again := p.keepers()["one"]; len(again) != 1 || !slices.Equal(again, keepers) {
		t.Errorf("its keepers were %v, are %v", keepers, again)
	}
	p.remove("one")
	if answers(port) {
		t.Error("somebody answers at the port of a task that is gone")
	}
}

// TestKeeperKilled: who keeps a task's network is killed. While a driver watches, another one
// takes over, in the same network, and the task goes on.
func TestKeeperKilled(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	port := p.startServed("one")
	before := p.see("one")
	keeper := p.keepers()["one"]
	if len(keeper) != 1 {
		t.Fatalf("its keepers are %v", keeper)
	}
	if err := syscall.Kill(keeper[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	drivertest.Eventually(t, "it is not reached", func() bool { return !answers(port) })
	if c, err := p.Dial(t.Context(), "one", port); !errors.Is(err, driver.ErrNotRunning) {
		t.Errorf("dialed: %v, %v", c, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- p.Watch(ctx, func(string) {}) }()
	drivertest.Eventually(t, "it is reached again", func() bool { return answers(port) })
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
	in := func(pid int) string {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			t.Error(err)
		}
		return ns
	}
	if keeper, of := in(p.keeper("one").Pid), in(before.Pid); keeper != of || of == in(os.Getpid()) {
		t.Errorf("the other keeper is in %s, the task in %s", keeper, of)
	}
	if after := p.see("one"); after != before {
		t.Errorf("it was %+v, is %+v", before, after)
	}
	p.remove("one")
}

// TestKeeperOfNobody: a start was cut short after the network was made and before that was
// written down. The next try makes it anew; and a keeper whose task has no folder is ended.
func TestKeeperOfNobody(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	for _, id := range []string{"again", "nobody"} {
		w, port := p.served(id)
		if err := p.claim(w); err != nil {
			t.Fatal(err)
		}
		if _, err := p.network(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		first := p.keepers()[id]
		if err := os.Remove(filepath.Join(p.folder(id), networkFile)); err != nil {
			t.Fatal(err)
		}
		if id == "nobody" {
			if err := errors.Join(folder.Discard(p.folder(id)), p.sweep(t.Context())); err != nil {
				t.Error(err)
			}
		} else {
			if err := p.Start(t.Context(), w); err != nil {
				t.Error(err)
			}
			drivertest.Eventually(t, id+" answers", func() bool { return answers(port) })
		}
		if now := p.keepers()[id]; len(first) != 1 || slices.Contains(now, first[0]) || len(now) != map[string]int{"again": 1}[id] {
			t.Errorf("%s had the keepers %v, has %v", id, first, now)
		}
	}
	p.remove("again")
}
