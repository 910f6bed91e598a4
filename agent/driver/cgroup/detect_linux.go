package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/ohmcell/ohm/agent/driver/folder"
)

// mounts are where the machine shows its cgroup hierarchies: by v1 controller, and
// cgroup2 under "".
func mounts(mountinfo []byte) map[string]string {
	at := map[string]string{}
	for line := range bytes.Lines(mountinfo) {
		front, back, ok := strings.Cut(string(line), " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 5 || len(b) < 3 {
			continue
		}
		path := folder.Unescape(f[4])
		switch b[0] {
		case "cgroup2":
			if at[""] == "" {
				at[""] = path
			}
		case "cgroup":
			for _, option := range strings.Split(b[2], ",") {
				if at[option] == "" {
					at[option] = path
				}
			}
		}
	}
	return at
}

// Detect finds the cgroups that a driver may use under name, by trying them.
func Detect(mountinfo []byte, name string) Groups {
	at := mounts(mountinfo)
	var g Groups
	if at[""] != "" {
		g.Unified = filepath.Join(at[""], name)
		if try(Groups{Unified: g.Unified}) != nil {
			g.Unified = ""
		}
	}
	for _, c := range []struct {
		controller string
		dir        *string
		limit      func(dir string) Groups
	}{
		{"memory", &g.Memory, func(d string) Groups { return Groups{Memory: d} }},
		{"cpu", &g.CPU, func(d string) Groups { return Groups{CPU: d} }},
		{"pids", &g.Pids, func(d string) Groups { return Groups{Pids: d} }},
		{"cpuacct", &g.Account, func(d string) Groups { return Groups{Account: d} }},
		{"freezer", &g.Freezer, func(d string) Groups { return Groups{Freezer: d} }},
	} {
		if c.controller == "freezer" && g.Unified != "" || c.controller == "cpuacct" && at[c.controller] == "" {
			continue // of cgroup2's own
		}
		where := g.Unified
		if at[c.controller] != "" {
			where = filepath.Join(at[c.controller], name)
		}
		if where == "" {
			continue
		}
		one := c.limit(where)
		if where == g.Unified {
			one.Unified = where
		}
		if try(one) == nil {
			*c.dir = where
		}
	}
	return g
}

// try makes a task's cgroups with every limit and gives them back.
func try(g Groups) error {
	g.sweepProbes()
	probe := g.Child(fmt.Sprintf("%s%d-%016x", probePrefix, os.Getpid(), rand.Uint64()))
	err := probe.Create(Limits{Memory: 1 << 30, CPUMilli: 1000, Pids: 4096})
	return errors.Join(err, probe.Remove())
}
