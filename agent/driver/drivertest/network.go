package drivertest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// freePort is a port of the node that nobody has, below those that the kernel gives to
// whoever asks for any.
func freePort(b *bench) int32 {
	b.Helper()
	for range 100 {
		port := 12000 + rand.Int32N(6000)
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			b.must(l.Close())
			return port
		}
	}
	b.Fatal("no port is free")
	return 0
}

// served is a task in a network of its own, in which a web server listens on the port.
func served(port int32) driver.Task {
	return driver.Task{OwnNetwork: true, Publish: []int32{port}, Command: []string{"sh", "-c",
		fmt.Sprintf("echo hello >index.html && exec busybox httpd -f -p 127.0.0.1:%d", port)}}
}

// get reads the page of such a server; empty if it cannot.
func get(dial func(context.Context) (net.Conn, error)) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // else it waits longer
	if _, err := io.WriteString(c, "GET /index.html HTTP/1.0\r\n\r\n"); err != nil {
		return ""
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return ""
	}
	_, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	return body
}

func published(port int32) string {
	return get(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	})
}

// networks are the network namespaces that some process is in.
func networks(b *bench) (all []string) {
	b.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	b.must(err)
	for _, l := range links {
		if ns, err := os.Readlink(l); err == nil { // the process may be gone
			all = append(all, ns)
		}
	}
	return all
}

// ownNetwork: a task in a network of its own is reached at its published port alone, sees
// nothing but its loopback, goes on without the driver that started it, and leaves nothing.
func ownNetwork(t *testing.T, b *bench) {
	port := freePort(b)
	id := b.start(served(port))
	Eventually(t, "its page can be got", func() bool { return published(port) == "hello\n" })
	if _, out, errs := b.exec(id, "sed -n 's/^ *\\([^ :]*\\):.*/\\1/p' /proc/net/dev", nil); !slices.Contains(strings.Fields(out), "lo") || strings.Contains(out, "eth") {
		t.Errorf("it sees the interfaces %q; %s", out, errs)
	}
	_, ns, _ := b.exec(id, "readlink /proc/self/ns/net", nil)
	ns = strings.TrimSpace(ns)
	if own, err := os.Readlink("/proc/self/ns/net"); err != nil || ns == own || !slices.Contains(networks(b), ns) {
		t.Errorf("its network is %s, the node's %s, %v", ns, own, err)
	}
	b.restart()
	if got := published(port); got != "hello\n" {
		t.Errorf("with another driver its page is %q", got)
	}
	dialer, ok := b.driver.(driver.Dialer)
	if !ok {
		t.Fatalf("the %s driver is no Dialer", b.driver.Name())
	}
	if got := get(func(ctx context.Context) (net.Conn, error) { return dialer.Dial(ctx, id, port) }); got != "hello\n" {
		t.Errorf("dialed inside its page is %q", got)
	}
	if c, err := dialer.Dial(t.Context(), id, freePort(b)); err == nil {
		c.Close()
		t.Error("somebody listens on a port inside that nobody has")
	}
	b.must(b.driver.Kill(t.Context(), id))
	b.ended(id)
	Eventually(t, "its port is free and its network gone", func() bool {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			l.Close()
		}
		return err == nil && !slices.Contains(networks(b), ns)
	})
	b.must(b.driver.Remove(t.Context(), id))
	b.clean(id)
}

// ownNetworkPortBusy: a task whose port somebody has does not run, and says why.
func ownNetworkPortBusy(t *testing.T, b *bench) {
	l, err := net.Listen("tcp", ":0")
	b.must(err)
	defer l.Close()
	w := b.named(served(int32(l.Addr().(*net.TCPAddr).Port)))
	if err := b.driver.Start(t.Context(), w); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("start: %v", err)
	}
	if o := b.observe(w.ID); o.State != task.Failed || o.Cause != task.PortBusy {
		t.Errorf("observed %+v", o)
	}
	b.must(b.driver.Remove(t.Context(), w.ID))
	b.clean(w.ID)
}

// containersShareNetwork: the containers of a task are in one network.
func containersShareNetwork(t *testing.T, b *bench) {
	if !slices.Contains(b.driver.Capabilities(), driver.CanOwnNetwork) {
		return
	}
	port := freePort(b)
	w := b.named(driver.Task{})
	serve := fmt.Sprintf("echo hello >index.html && exec busybox httpd -f -p 127.0.0.1:%d", port)
	w.Containers = []driver.Container{
		b.container("first", driver.Init, "readlink /proc/self/ns/net"),
		b.container("beside", driver.Sidecar, serve),
		b.container("main", driver.Main, "readlink /proc/self/ns/net"+stay),
	}
	for i := range w.Containers {
		w.Containers[i].Env = w.Env
	}
	w.Env, w.Box, w.OwnNetwork, w.Publish = nil, driver.Box{}, true, []int32{port}
	b.must(b.driver.Start(t.Context(), w))
	Eventually(t, "the sidecar's page can be got", func() bool {
		b.observe(w.ID) // by that some drivers go on to the next container
		return published(port) == "hello\n" && len(strings.Fields(b.log(w.ID, "stdout"))) == 2
	})
	if in := strings.Fields(b.log(w.ID, "stdout")); in[0] != in[1] || !slices.Contains(networks(b), in[0]) {
		t.Errorf("two containers are in %q", in)
	}
	b.must(b.driver.Kill(t.Context(), w.ID))
	b.ended(w.ID)
	b.must(b.driver.Remove(t.Context(), w.ID))
	b.clean(w.ID)
}
