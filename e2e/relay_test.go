package e2e

import (
	"net"
	"sync"
	"testing"
)

// relay is a network between two processes. While it is cut nothing comes through, and
// nobody is told: connections stay as they are.
type relay struct {
	address string
	target  string

	mu     sync.Mutex
	passes *sync.Cond // on mu: cut or closed have changed
	cut    bool
	closed bool
	conns  map[net.Conn]bool
	work   sync.WaitGroup
}

// startRelay listens until the test is over.
func startRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: listener.Addr().String(), target: target, conns: map[net.Conn]bool{}}
	r.passes = sync.NewCond(&r.mu)
	r.work.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			r.work.Go(func() { r.join(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.mu.Lock()
		r.closed = true
		for c := range r.conns {
			_ = c.Close()
		}
		r.passes.Broadcast()
		r.mu.Unlock()
		r.work.Wait()
	})
	return r
}

// set cuts the relay, or mends it.
func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	r.passes.Broadcast()
}

// pass waits until the relay is not cut; false: it is closed.
func (r *relay) pass() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.cut && !r.closed {
		r.passes.Wait()
	}
	return !r.closed
}

// keep has a connection closed with the relay.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = true
	return !r.closed
}

func (r *relay) drop(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

func (r *relay) join(one net.Conn) {
	defer r.drop(one)
	if !r.keep(one) || !r.pass() {
		return
	}
	other, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer r.drop(other)
	if !r.keep(other) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.carry(one, other) })
	r.carry(other, one)
	both.Wait()
}

// carry brings what one says to the other, and the end of either to both.
func (r *relay) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !r.pass() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
