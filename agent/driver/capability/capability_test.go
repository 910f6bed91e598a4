//go:build linux

package capability

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
)

func TestNumbers(t *testing.T) {
	names := Names()
	for name, number := range map[string]int{
		"CAP_CHOWN": unix.CAP_CHOWN, "CAP_KILL": unix.CAP_KILL, "CAP_SETPCAP": unix.CAP_SETPCAP, "CAP_NET_RAW": unix.CAP_NET_RAW,
		"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_SYS_RESOURCE": unix.CAP_SYS_RESOURCE, "CAP_MKNOD": unix.CAP_MKNOD,
		"CAP_SETFCAP": unix.CAP_SETFCAP, "CAP_SYSLOG": unix.CAP_SYSLOG, "CAP_BPF": unix.CAP_BPF,
	} {
		if slices.Index(names, name) != number {
			t.Errorf("%s is number %d, want %d", name, slices.Index(names, name), number)
		}
	}
	if len(names) != unix.CAP_LAST_CAP+1 {
		t.Errorf("there are %d names for %d capabilities", len(names), unix.CAP_LAST_CAP+1)
	}
	for _, name := range Usual() {
		if !slices.Contains(names, name) {
			t.Errorf("%s is usual, and has no number", name)
		}
	}
}

func TestOf(t *testing.T) {
	usual, own := []string{"CAP_KILL", "CAP_CHOWN", "CAP_MKNOD"}, []string{"CAP_KILL", "CAP_CHOWN", "CAP_BPF"}
	for name, c := range map[string]struct {
		box  driver.Box
		want string // separated by blanks; with "!": in the error
	}{
		"nothing asked":          {driver.Box{}, "CAP_KILL CAP_CHOWN"},
		"one dropped":            {driver.Box{DropCaps: []string{"CAP_KILL"}}, "CAP_CHOWN"},
		"one dropped it has not": {driver.Box{DropCaps: []string{"CAP_MKNOD"}}, "CAP_KILL CAP_CHOWN"},
		"all dropped":            {driver.Box{DropCaps: []string{"ALL"}}, ""},
		"all but one":            {driver.Box{DropCaps: []string{"ALL"}, AddCaps: []string{"CAP_BPF"}}, "CAP_BPF"},
		"one more":               {driver.Box{AddCaps: []string{"CAP_BPF", "CAP_KILL"}}, "CAP_KILL CAP_CHOWN CAP_BPF"},
		"dropped and added":      {driver.Box{AddCaps: []string{"CAP_KILL"}, DropCaps: []string{"CAP_KILL"}}, "CAP_CHOWN CAP_KILL"},
		"not the agent's":        {driver.Box{AddCaps: []string{"CAP_MKNOD"}}, "!CAP_MKNOD"},
		"unknown, added":         {driver.Box{AddCaps: []string{"CAP_NONE"}}, "!CAP_NONE"},
		"unknown, dropped":       {driver.Box{DropCaps: []string{"KILL"}}, "!KILL"},
	} {
		list, err := Of(c.box, usual, own)
		if text, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, %v", name, list, err)
			}
		} else if got := strings.Join(list, " "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}
