package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/device"
	"github.com/ohmcell/ohm/agent/device/nvidia"
	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// bench is a source of devices that a test changes.
type bench struct {
	mu      sync.Mutex
	devices []device.Device
	err     error
	slow    time.Duration // of each look
}

func (b *bench) Devices(ctx context.Context) ([]device.Device, error) {
	b.mu.Lock()
	slow := b.slow
	b.mu.Unlock()
	pause(ctx, slow)
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]device.Device(nil), b.devices...), b.err
}

func (b *bench) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// withDevices has the agent find its devices: so many T4 at first.
func (w *world) withDevices(n int) *bench {
	b := &bench{}
	for i := range n {
		id := "g" + string(rune('0'+i))
		b.devices = append(b.devices, device.Device{ID: id, Model: "T4", Edits: device.Edits{
			Env: map[string]string{"CARD": id, "MODE": "shared"}, Nodes: []string{"/dev/" + id, "/dev/control"}, Mounts: []string{"/usr/lib/card.so"},
			Hooks: []device.Hook{{Path: "/bin/hook", Args: []string{"hook", "all"}, Timeout: 2}, {Path: "/bin/hook", Args: []string{"hook", id}}},
		}})
	}
	w.config.Node.Gpus = nil
	w.config.Devices, w.config.Codes = b, nvidia.Codes()
	return b
}

// says is what the server knows of the node's devices: of each its id and, where it is not
// healthy, how it is.
func (w *world) says() string {
	x := w.session()
	w.mu.Lock()
	defer w.mu.Unlock()
	facts := x.hello.GetNode()
	if len(x.facts) > 0 {
		facts = x.facts[len(x.facts)-1]
	}
	var all []string
	for _, d := range facts.GetGpus() {
		text := d.GetId()
		if d.GetHealth() != device.Healthy {
			text += " " + strings.TrimPrefix(d.GetHealth().String(), "DEVICE_HEALTH_") + " (" + d.GetWhy() + ")"
		}
		all = append(all, text)
	}
	if facts.GetDeviceError() != "" {
		all = append(all, "error: "+facts.GetDeviceError())
	}
	return strings.Join(all, ", ")
}

func gpus(ids ...string) func(*ohmv1.Assignment) {
	return func(a *ohmv1.Assignment) {
		for _, id := range ids {
			a.Placement.Gpus = append(a.Placement.Gpus, &ohmv1.DeviceShare{Id: id, Milli: 1000})
		}
	}
}

// TestEquip: a task finds what all of its devices need, each once.
func TestEquip(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withDevices(3)
		w.start()
		a := assignment("a", 1000, gpus("g0", "g2"))
		w.complete(a)
		var told driver.Task
		w.m.locked(func() { told = w.m.procs[a.Id].task })
		equal(t, "env", told.Env, map[string]string{"OHM_JOB": "a", "CARD": "g0,g2", "MODE": "shared"})
		equal(t, "device files", told.DeviceNodes, []string{"/dev/g0", "/dev/control", "/dev/g2"})
		equal(t, "other files", told.DeviceFiles, []string{"/usr/lib/card.so"})
		equal(t, "hooks", told.Hooks, []driver.Hook{
			{Path: "/bin/hook", Args: []string{"hook", "all"}, Timeout: 2 * time.Second}, {Path: "/bin/hook", Args: []string{"hook", "g0"}}, {Path: "/bin/hook", Args: []string{"hook", "g2"}},
		})
		several := assignment("several", 1000, gpus("g1"), func(a *ohmv1.Assignment) {
			a.Containers = []*ohmv1.Container{{Name: "first", Role: "init", Command: a.Command}, {Name: "second", Role: "main", Command: a.Command, Env: a.Env}}
			a.Command, a.Env = nil, nil
		})
		w.incremental(nil, several)
		w.m.locked(func() { told = w.m.procs[several.Id].task })
		equal(t, "a container's env", told.Containers[0].Env, map[string]string{"CARD": "g1", "MODE": "shared"})
		equal(t, "another's", told.Containers[1].Env, map[string]string{"OHM_JOB": "several", "CARD": "g1", "MODE": "shared"})
		equal(t, "the task's own", told.Env, nil)
		equal(t, "the assignment's own env", a.Env, map[string]string{"OHM_JOB": "a"})
	})
}

// TestCase46: an agent that starts again, and whose devices are late, changes nothing of
// what runs or has ended.
func TestCase46(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.withDevices(2)
		w.start()
		running, done := assignment("running", 1000, gpus("g0")), assignment("done", 1000, gpus("g1"))
		w.complete(running, done)
		w.m.exit(done.Id, 0)
		w.pass(time.Second)
		w.m.did()
		w.halt()
		b.set(func() { b.slow = time.Minute })
		w.config.LookTimeout = 2 * time.Minute
		w.start()
		w.pass(firstLook)
		w.complete(running, done)
		equal(t, "devices meanwhile", w.says(), "g0 NOT_READY (looking for devices takes too long), g1 NOT_READY (looking for devices takes too long), error: looking for devices takes too long")
		equal(t, "state", task.Name(w.last(running.Id).GetState()), "Running")
		equal(t, "state", task.Name(w.last(done.Id).GetState()), "Succeeded")
		w.pass(2 * time.Minute)
		equal(t, "devices", w.says(), "g0, g1")
		equal(t, "told of the one", w.told(running.Id)[len(w.told(running.Id))-1], "Running")
		equal(t, "message", w.last(running.Id).GetMessage(), "")
		equal(t, "told of the other", strings.Join(w.told(done.Id), ", "), strings.Repeat("Succeeded Exited, ", len(w.told(done.Id))-1)+"Succeeded Exited")
		equal(t, "calls", w.m.did(), nil)
	})
}

// TestCase47: a task whose device is not ready waits for it, with that reason.
func TestCase47(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.withDevices(2)
		w.start()
		w.halt()
		b.set(func() { b.devices, b.err = nil, errors.New("the driver is not loaded") })
		w.start()
		equal(t, "devices", w.says(), "g0 NOT_READY (the driver is not loaded), g1 NOT_READY (the driver is not loaded), error: the driver is not loaded")
		a := assignment("a", 1000, gpus("g1"))
		w.complete(a)
		w.pass(time.Minute)
		equal(t, "told", w.told(a.Id), []string{"Assigned"})
		equal(t, "why", w.last(a.Id).GetMessage(), "GPU g1: NotReady: the driver is not loaded")
		b.set(func() {
			b.devices, b.err = []device.Device{{ID: "g1", Model: "T4"}, {ID: "g0", Model: "T4"}}, nil
		})
		w.pass(w.agent.DeviceEvery + time.Second)
		equal(t, "devices", w.says(), "g0, g1")
		equal(t, "told", w.told(a.Id), []string{"Assigned", "Running"})
	})
}

// TestDeviceNeverReady: the wait for a device has an end, and that is no fault of the task.
func TestDeviceNeverReady(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.withDevices(2)
		w.start()
		w.complete()
		b.set(func() { b.devices = b.devices[:1] })
		w.pass(w.agent.DeviceEvery + time.Second)
		equal(t, "devices", w.says(), "g0, g1 NOT_READY (it is not found on the machine)")
		a, other := assignment("a", 1000, gpus("g1")), assignment("other", 1000, gpus("g0"))
		w.complete(a, other)
		w.pass(w.agent.DeviceWait - 2*time.Second)
		equal(t, "told", w.told(a.Id), []string{"Assigned"})
		w.pass(10 * time.Second)
		equal(t, "told", w.told(a.Id), []string{"Assigned", "Failed DeviceLost"})
		equal(t, "told of the other", w.told(other.Id), []string{"Running"})
		equal(t, "calls", w.m.did(), []string{"start " + other.Id})
	})
}

// TestCase48: a fault of a device keeps new tasks off, until it has passed; who has the
// device hears of it; a fault after which nothing runs ends it; one of a program is nothing.
func TestCase48(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.withDevices(3)
		w.config.Codes = device.Policy{13: device.Healthy, 79: device.Lost}
		w.start()
		a := assignment("a", 1000, gpus("g0", "g1"))
		w.complete(a)
		fault := func(at int, code int) {
			b.set(func() {
				b.devices[at].Faults = nil
				if code > 0 {
					b.devices[at].Faults = []device.Fault{{Code: code, What: "so it says"}}
				}
			})
			w.pass(w.agent.DeviceEvery + time.Second)
		}
		fault(1, 13)
		equal(t, "devices", w.says(), "g0, g1, g2")
		fault(1, 63)
		equal(t, "devices", w.says(), "g0, g1 BAD (code 63: so it says), g2")
		equal(t, "the task hears", w.last(a.Id).GetMessage(), "GPU g1: Bad: code 63: so it says")
		equal(t, "and goes on", task.Name(w.last(a.Id).GetState()), "Running")
		fault(1, 0)
		equal(t, "devices", w.says(), "g0, g1, g2")
		equal(t, "the task hears", w.last(a.Id).GetMessage(), "")
		fault(2, 79)
		equal(t, "a device of nobody", task.Name(w.last(a.Id).GetState()), "Running")
		late := assignment("late", 1000, gpus("g2"))
		w.incremental(nil, late)
		equal(t, "one placed before the fault was known", w.told(late.Id), []string{"Failed DeviceLost"})
		fault(0, 79)
		equal(t, "told", strings.Join(w.told(a.Id)[len(w.told(a.Id))-1:], ""), "Failed DeviceLost")
		equal(t, "why", w.last(a.Id).GetMessage(), "GPU g0: Lost: code 79: so it says")
		equal(t, "calls", w.m.did(), []string{"start " + a.Id, "signal " + a.Id + " 15"})
	})
}

// TestDevicesFile: what was written down of the devices and cannot be read is as if there
// were nothing; the agent starts.
func TestDevicesFile(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withDevices(1)
		if err := os.WriteFile(filepath.Join(w.config.Dir, "devices.json"), []byte(`[{"id":"g7"`), 0o600); err != nil {
			t.Fatal(err)
		}
		w.start()
		equal(t, "devices", w.says(), "g0")
	})
}
