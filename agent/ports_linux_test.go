package agent

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// freePort is a port of this machine that nobody has, below those that the kernel gives to
// whoever asks for any: other tests run beside this one.
func freePort(t *testing.T) int32 {
	t.Helper()
	for range 100 {
		if port := 10000 + rand.Int32N(2000); !PortBusy(port) {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// A port is busy with a listener on any address, a socket for UDP, and the local end of an
// outgoing connection; not once they are gone.
func TestPortBusy(t *testing.T) {
	listen := func(address string) net.Listener {
		l, err := net.Listen("tcp4", address)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for name, occupy := range map[string]func(port int32) (release func()){
		"tcp on one address": func(port int32) func() {
			l := listen(fmt.Sprintf("127.0.0.1:%d", port))
			return func() { l.Close() }
		},
		"tcp on all": func(port int32) func() {
			l := listen(fmt.Sprintf(":%d", port))
			return func() { l.Close() }
		},
		"udp": func(port int32) func() {
			c, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			return func() { c.Close() }
		},
		"an outgoing connection": func(port int32) func() {
			l := listen("127.0.0.1:0")
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}}
			c, err := d.Dial("tcp4", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			peer, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return func() { // the end that closes first lingers: the other one
				peer.Close()
				_, _ = c.Read(make([]byte, 1)) // its end
				c.Close()
				l.Close()
			}
		},
	} {
		port := freePort(t)
		release := occupy(port)
		if !PortBusy(port) {
			t.Errorf("%s: port %d is not busy", name, port)
		}
		release()
		if PortBusy(port) {
			t.Errorf("%s: port %d is busy after its end", name, port)
		}
	}
}
