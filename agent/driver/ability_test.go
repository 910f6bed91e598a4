package driver

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestCheck: what makes no sense is refused whatever the driver can, and a driver that can
// nothing takes nothing.
func TestCheck(t *testing.T) {
	one := func(change func(*Task)) Task {
		w := Task{ID: "one", Command: []string{"true"}}
		change(&w)
		return w
	}
	main := Container{Name: "main", Command: []string{"true"}}
	all := []string{
		CanHostRoot, CanImage, CanRegistry, CanUser, CanMount, CanReadOnly, CanCaps, CanConfine, CanContainers, CanCPUMax, CanPids,
	}
	for name, c := range map[string]struct {
		task Task
		bad  string // in the error of any driver; empty: it makes sense
		need []string
	}{
		"plain":       {one(func(*Task) {}), "", []string{CanHostRoot}},
		"image":       {one(func(w *Task) { w.Image = "tar:/a" }), "", []string{CanImage}},
		"image alone": {Task{ID: "one", Box: Box{Image: "example.org/a"}}, "", []string{CanRegistry}},
		"everything": {one(func(w *Task) {
			w.Box = Box{"oci:a", "1", "/d", []Mount{{Target: "/m"}}, true, nil, []string{"ALL"}, true}
			w.Pids, w.CPUMax = 1, 1
		}), "", []string{CanCaps, CanCPUMax, CanPids, CanConfine, CanImage, CanMount, CanReadOnly, CanUser}},
		"several":          {Task{ID: "one", Containers: []Container{{Name: "a", Role: Init, Command: []string{"x"}}, {Name: "b", Role: Sidecar, Box: Box{Image: "i"}}, main}}, "", []string{CanContainers, CanHostRoot, CanRegistry}},
		"no id":            {Task{Command: []string{"true"}}, "file name", nil},
		"id that climbs":   {one(func(w *Task) { w.ID = "../x" }), "file name", nil},
		"long id":          {one(func(w *Task) { w.ID = strings.Repeat("x", 241) }), "file name", nil},
		"no command":       {Task{ID: "one"}, "no command", nil},
		"empty command":    {one(func(w *Task) { w.Image, w.Command = "a", []string{""} }), "no command", nil},
		"image of nothing": {one(func(w *Task) { w.Image = "oci:" }), "names nothing", nil},
		"relative folder":  {one(func(w *Task) { w.Dir = "a" }), "not absolute", nil},
		"relative target":  {one(func(w *Task) { w.Mounts = []Mount{{Target: "a"}} }), "target", nil},
		"target climbs":    {one(func(w *Task) { w.Mounts = []Mount{{Target: "/a/../.."}} }), "target", nil},
		"target is root":   {one(func(w *Task) { w.Mounts = []Mount{{Target: "/"}} }), "target", nil},
		"relative source":  {one(func(w *Task) { w.Mounts = []Mount{{Target: "/a", Source: "b"}} }), "source", nil},
		"size of a folder": {one(func(w *Task) { w.Mounts = []Mount{{Target: "/a", Source: "/b", Size: 1}} }), "tmpfs", nil},
		"negative size":    {one(func(w *Task) { w.Mounts = []Mount{{Target: "/a", Size: -1}} }), "tmpfs", nil},
		"negative pids":    {one(func(w *Task) { w.Pids = -1 }), "below zero", nil},
		"negative cpu":     {one(func(w *Task) { w.CPUMax = -1 }), "below zero", nil},
		"both":             {one(func(w *Task) { w.Containers = []Container{main} }), "of its own", nil},
		"no main":          {Task{ID: "one", Containers: []Container{{Name: "a", Role: Init, Command: []string{"x"}}}}, "0 main", nil},
		"two mains":        {Task{ID: "one", Containers: []Container{main, {Name: "b", Command: []string{"x"}}}}, "2 main", nil},
		"same name":        {Task{ID: "one", Containers: []Container{main, {Name: "main", Role: Init, Command: []string{"x"}}}}, "twice", nil},
		"after main":       {Task{ID: "one", Containers: []Container{main, {Name: "b", Role: Sidecar, Command: []string{"x"}}}}, "after its main", nil},
		"bad name":         {Task{ID: "one", Containers: []Container{{Name: "../x", Command: []string{"x"}}}}, "label", nil},
		"no such role":     {Task{ID: "one", Containers: []Container{main, {Name: "b", Role: 3, Command: []string{"x"}}}}, "role", nil},
	} {
		err := Check(c.task, all)
		if c.bad != "" {
			if err == nil || errors.Is(err, ErrCannot) || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: %v, want an error with %q", name, err, c.bad)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		slices.Sort(c.need)
		if needs := Needs(c.task).Names(); !slices.Equal(needs, c.need) {
			t.Errorf("%s needs %v, want %v", name, needs, c.need)
		}
		for _, lack := range c.need {
			without := slices.DeleteFunc(slices.Clone(all), func(can string) bool { return can == lack })
			if err := Check(c.task, without); !errors.Is(err, ErrCannot) || !strings.Contains(err.Error(), lack) {
				t.Errorf("%s without %s: %v", name, lack, err)
			}
		}
	}
}
