package chaos

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// empty says what of a task is still on the nodes.
func (r *run) empty() error {
	if left := r.world.leaks(); len(left) > 0 {
		return fmt.Errorf("%d things are left: %s", len(left), strings.Join(left[:min(5, len(left))], "; "))
	}
	return nil
}

// leaks is all that is on the machine of a task: what agents and daemon are for is not.
func (w *world) leaks() (left []string) {
	left = append(left, processes(w.notes, w.Dir, w.nodes)...)
	for _, n := range w.nodes {
		left = append(left, groups(n.cgroup)...)
		dir := filepath.Join(n.dir, "tasks")
		entries, _ := os.ReadDir(dir) // it may not be there yet
		for _, e := range entries {
			left = append(left, "folder "+filepath.Join(dir, e.Name()))
		}
		if n.containerd && w.daemon != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			boxes, err := w.daemon.Left(ctx, n.namespace)
			cancel()
			if err != nil {
				boxes = append(boxes, "what containerd has cannot be told: "+err.Error())
			}
			known, _ := filepath.Glob("/run/containerd/runc/" + n.namespace + "/*") // to runc
			boxes = append(boxes, known...)
			for _, b := range boxes {
				left = append(left, n.name+": "+b)
			}
		}
	}
	return append(left, mounts(w.Dir)...)
}

// processes of tasks, by the mark in their environment, and those between agent and task.
func processes(mark, dir string, nodes []*node) (left []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		line, _ := os.ReadFile(proc + "/cmdline") // of one that has ended nothing is left
		env, _ := os.ReadFile(proc + "/environ")
		words := strings.ReplaceAll(string(line), "\x00", " ")
		switch {
		case strings.Contains(string(env), markEnv+"="+mark+"\x00"):
			left = append(left, "process "+filepath.Base(proc)+" "+words)
		case strings.Contains(words, "containerd-shim") && strings.Contains(words, dir),
			strings.Contains(words, "ohm-init net "+dir),
			strings.Contains(words, "native-shim") && strings.Contains(words, dir),
			strings.Contains(words, "native-init") && strings.Contains(words, dir):
			left = append(left, "shim "+filepath.Base(proc)+" "+words)
		}
	}
	return left
}

// groups of tasks below the cgroup of a node.
func groups(name string) (left []string) {
	tops := []string{}
	for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		found, _ := filepath.Glob(pattern)
		tops = append(tops, found...)
	}
	for _, top := range tops {
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				left = append(left, "cgroup "+path)
			}
			return nil // of one that goes meanwhile nothing is left
		})
	}
	return left
}

// mounts below the run's folder, but the daemon's own.
func mounts(dir string) (left []string) {
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, dir+"/") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	named, _ := filepath.Glob("/run/netns/ohm-*")
	for _, n := range named {
		if strings.Contains(n, filepath.Base(dir)) {
			left = append(left, "network namespace "+n)
		}
	}
	return left
}
