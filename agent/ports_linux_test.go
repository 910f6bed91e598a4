package agent

import (
	"net"
	"testing"
)

// A port is busy with a listener on any address, a socket for UDP, and the local end of an
// outgoing connection; not once they are gone.
func TestPortBusy(t *testing.T) {
	free := func() int32 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return int32(l.Addr().(*net.TCPAddr).Port)
	}
	if port := free(); PortBusy(port) {
		t.Errorf("port %d is nobody's", port)
	}
	for name, occupy := range map[string]func() (port int, release func()){
		"tcp on one address": func() (int, func()) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return l.Addr().(*net.TCPAddr).Port, func() { l.Close() }
		},
		"tcp on all": func() (int, func()) {
			l, err := net.Listen("tcp", ":0")
			if err != nil {
				t.Fatal(err)
			}
			return l.Addr().(*net.TCPAddr).Port, func() { l.Close() }
		},
		"udp": func() (int, func()) {
			c, err := net.ListenPacket("udp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return c.LocalAddr().(*net.UDPAddr).Port, func() { c.Close() }
		},
		"an outgoing connection": func() (int, func()) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			c, err := net.Dial("tcp4", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			peer, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return c.LocalAddr().(*net.TCPAddr).Port, func() { peer.Close(); c.Close(); l.Close() }
		},
	} {
		port, release := occupy()
		if !PortBusy(int32(port)) {
			t.Errorf("%s: port %d is not busy", name, port)
		}
		release()
		if PortBusy(int32(port)) {
			t.Errorf("%s: port %d is busy after its end", name, port)
		}
	}
}
