package agent

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// localPorts is the range from which the kernel takes ports for outgoing connections; 0,
// 0 if it does not say.
func localPorts() (first, last int32) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0
	}
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return 0, 0
	}
	return first, last
}

// PortBusy says whether a process of this machine has a port, for TCP or UDP and on
// whatever address: an outgoing connection's own port counts, too. It binds the port and
// lets it go; nobody can connect meanwhile.
func PortBusy(port int32) bool {
	for _, family := range []int{unix.AF_INET6, unix.AF_INET} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
			if errors.Is(bind(family, kind, int(port)), unix.EADDRINUSE) {
				return true
			}
		}
	}
	return false
}

func bind(family, kind, port int) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err // such as no IPv6 here
	}
	defer func() { _ = unix.Close(fd) }() // nothing was sent
	if kind == unix.SOCK_STREAM {         // as servers do: what lingers of their connections is in nobody's way
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
	}
	if family == unix.AF_INET {
		return unix.Bind(fd, &unix.SockaddrInet4{Port: port})
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet6{Port: port})
}
