package nvidia

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ohmcell/ohm/agent/device"
)

// xid is how the driver tells a fault.
var xid = regexp.MustCompile(`^\d+,\d+,(\d+),[^;]*;NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+), (.*)$`)

// parseXid reads a record of the kernel's log; at is since the boot.
func parseXid(line string) (at time.Duration, bus string, f device.Fault, ok bool) {
	m := xid.FindStringSubmatch(line)
	if m == nil {
		return 0, "", f, false
	}
	micro, err := strconv.ParseInt(m[1], 10, 64)
	code, err2 := strconv.Atoi(m[3])
	bus, err3 := busOf(m[2])
	if errors.Join(err, err2, err3) != nil {
		return 0, "", f, false
	}
	return time.Duration(micro) * time.Microsecond, bus, device.Fault{Code: code, What: m[4]}, true
}

// busOf is one form of an address on the PCI bus, of which the tools write the domain with
// four or eight digits, and the function or not: "0000:3b:00".
func busOf(text string) (string, error) {
	parts := strings.Split(strings.ToLower(text), ":")
	if len(parts) != 3 {
		return "", fmt.Errorf("%q is no address on the PCI bus", text)
	}
	domain, err := strconv.ParseUint(parts[0], 16, 32)
	if err != nil {
		return "", fmt.Errorf("%q is no address on the PCI bus", text)
	}
	slot, _, _ := strings.Cut(parts[2], ".")
	return fmt.Sprintf("%04x:%s:%s", domain, parts[1], slot), nil
}
