package native

import (
	"fmt"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	profiles "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
)

// filter is a seccomp profile that can be loaded.
type filter struct{ policy seccomp.Policy }

// confined says whether the box asks for a filter; with an image there always is one.
func confined(b driver.Box) bool { return b.Confined || b.Image != "" }

// filterOf is Docker's default profile for a command with these capabilities; nothing for
// a box that is not confined.
func filterOf(b driver.Box, caps []string) (filter, error) {
	if !confined(b) {
		return filter{}, nil
	}
	profile, err := profiles.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: caps}}})
	if err != nil {
		return filter{}, fmt.Errorf("seccomp profile: %w", err)
	}
	info, err := arch.GetInfo("")
	if err != nil {
		return filter{}, err
	}
	if profile.DefaultAction != specs.ActErrno {
		return filter{}, fmt.Errorf("the seccomp profile's default is %s", profile.DefaultAction)
	}
	p := seccomp.Policy{DefaultAction: seccomp.ActionErrno}
	for _, rule := range profile.Syscalls {
		action, err := actionOf(rule)
		if err != nil {
			return filter{}, err
		}
		group := seccomp.SyscallGroup{Action: action}
		conditions, err := conditionsOf(rule.Args)
		if err != nil {
			return filter{}, err
		}
		for _, name := range rule.Names {
			switch _, known := info.SyscallNames[name]; {
			case !known: // of another architecture, or newer than the table: refused by default
			case len(conditions) == 0:
				group.Names = append(group.Names, name)
			default:
				group.NamesWithCondtions = append(group.NamesWithCondtions, seccomp.NameWithConditions{Name: name, Conditions: conditions})
			}
		}
		if len(group.Names)+len(group.NamesWithCondtions) > 0 {
			p.Syscalls = append(p.Syscalls, group)
		}
	}
	return filter{p}, nil
}

func actionOf(rule specs.LinuxSyscall) (seccomp.Action, error) {
	switch rule.Action {
	case specs.ActAllow:
		return seccomp.ActionAllow, nil
	case specs.ActErrno:
		if rule.ErrnoRet == nil {
			return seccomp.ActionErrno, nil
		}
		return seccomp.Action(unix.SECCOMP_RET_ERRNO | uint32(*rule.ErrnoRet)), nil
	}
	return 0, fmt.Errorf("the seccomp profile has the action %s for %v", rule.Action, rule.Names)
}

func conditionsOf(args []specs.LinuxSeccompArg) (all seccomp.ArgumentConditions, err error) {
	for _, a := range args {
		c := seccomp.Condition{Argument: uint32(a.Index), Value: a.Value}
		switch {
		case a.Op == specs.OpEqualTo:
			c.Operation = seccomp.Equal
		case a.Op == specs.OpNotEqual:
			c.Operation = seccomp.NotEqual
		case a.Op == specs.OpMaskedEqual && a.ValueTwo == 0:
			c.Operation = seccomp.BitsNotSet
		case a.Op == specs.OpGreaterThan:
			c.Operation = seccomp.GreaterThan
		case a.Op == specs.OpGreaterEqual:
			c.Operation = seccomp.GreaterOrEqual
		case a.Op == specs.OpLessThan:
			c.Operation = seccomp.LessThan
		case a.Op == specs.OpLessEqual:
			c.Operation = seccomp.LessOrEqual
		default:
			return nil, fmt.Errorf("the seccomp profile asks for %s, %d", a.Op, a.ValueTwo)
		}
		all = append(all, c)
	}
	return all, nil
}

// load holds this thread, and what it executes, to the filter and to no new privileges.
func (f filter) load() error {
	if err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Policy: f.policy}); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}
