package nvidia

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/device"
)

// longestRecord of the kernel's log, in bytes; a shorter buffer is refused by the kernel.
const longestRecord = 8 << 10

// faults are those in the kernel's log that are not too long ago, by the bus of the device.
func (s Source) faults() (map[string][]device.Fault, error) {
	if s.Kmsg == "" {
		return nil, nil
	}
	fd, err := unix.Open(s.Kmsg, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("kernel log %s: %w", s.Kmsg, err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	var uptime unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &uptime); err != nil {
		return nil, fmt.Errorf("uptime: %w", err)
	}
	since := time.Duration(uptime.Nano()) - s.Quiet
	faults := map[string][]device.Fault{}
	record := make([]byte, longestRecord)
	for rest := ""; ; {
		n, err := unix.Read(fd, record)
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR): // records were overwritten meanwhile
			continue
		case errors.Is(err, unix.EAGAIN) || err == nil && n == 0:
			return faults, nil
		case err != nil:
			return nil, fmt.Errorf("kernel log %s: %w", s.Kmsg, err)
		}
		rest += string(record[:n])
		for {
			line, more, whole := strings.Cut(rest, "\n")
			if !whole {
				break
			}
			rest = more
			if at, bus, f, ok := parseXid(line); ok && at >= since {
				faults[bus] = append(faults[bus], f)
			}
		}
	}
}
