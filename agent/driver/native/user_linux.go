package native

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/capability"
)

// identity is who a command runs as.
type identity struct {
	uid, gid int
	groups   []int
	same     bool // the agent's own: nothing is changed
}

// userOf looks a user up in the node's files, as name, number, or either with a group.
func userOf(name string) (identity, error) {
	if name == "" {
		return identity{uid: os.Getuid(), gid: os.Getgid(), same: true}, nil // root, or there would be no box
	}
	name, group, grouped := strings.Cut(name, ":")
	users, err := table("/etc/passwd")
	if err != nil {
		return identity{}, err
	}
	all, err := table("/etc/group")
	if err != nil {
		return identity{}, err
	}
	var who identity
	entry := lookup(users, name)
	switch n, err := number(name); {
	case len(entry) > 3:
		who.uid, err = number(entry[2])
		if err == nil {
			who.gid, err = number(entry[3])
		}
		if err != nil {
			return who, fmt.Errorf("user %q: %w", name, err)
		}
		name = entry[0]
	case err == nil:
		who.uid = n
	default:
		return who, fmt.Errorf("there is no user %q", name)
	}
	for _, g := range all {
		if gid, err := number(g[2]); len(g) > 3 && err == nil && slices.Contains(strings.Split(g[3], ","), name) {
			who.groups = append(who.groups, gid)
		}
	}
	if grouped {
		entry := lookup(all, group)
		n, err := number(group)
		if entry != nil {
			n, err = number(entry[2])
		}
		if err != nil {
			return who, fmt.Errorf("there is no group %q", group)
		}
		who.gid = n
	}
	return who, nil
}

// table reads a file of lines with fields between colons, at least three.
func table(path string) (lines [][]string, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) > 2 {
			lines = append(lines, f)
		}
	}
	return lines, err
}

// lookup finds an entry by name, or by number.
func lookup(lines [][]string, name string) []string {
	for _, by := range []int{0, 2} {
		for _, f := range lines {
			if f[by] == name && name != "" {
				return f
			}
		}
	}
	return nil
}

func number(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

// capsOf are the capabilities of a command in a box: all of the agent's, and with an image
// Docker's usual ones, but for what the box says.
func capsOf(b driver.Box) ([]string, error) {
	own, err := capability.Own()
	if err != nil {
		return nil, err
	}
	if b.Image != "" {
		return capability.Of(b, capability.Usual(), own)
	}
	return capability.Of(b, own, own)
}

// become makes this thread, and what it executes, this user with these capabilities at most.
func (who identity) become(list []string) error {
	names := capability.Names()
	keep := bitsOf(list, names)
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	for n := range 64 {
		if keep&(1<<n) != 0 {
			continue
		}
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0); err != nil || has == 0 {
			continue // the kernel does not know it, or it is gone already
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0); err != nil {
			return fmt.Errorf("give up capability %d: %w", n, err)
		}
	}
	if !who.same {
		for _, err := range []error{syscall.Setgroups(who.groups), syscall.Setresgid(who.gid, who.gid, who.gid), syscall.Setresuid(who.uid, who.uid, who.uid)} {
			if err != nil {
				return fmt.Errorf("become user %d: %w", who.uid, err)
			}
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for i := range data {
		word := uint32(keep >> (32 * i))
		data[i].Effective &= word
		data[i].Permitted &= word
		data[i].Inheritable = 0
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return nil
}
