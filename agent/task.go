package agent

import (
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// startFor is how long a start may be tried again.
func startFor(a *ohmv1.Assignment, usual time.Duration) time.Duration {
	if a.GetStartDeadline() == nil {
		return usual
	}
	return a.GetStartDeadline().AsDuration()
}

// driverTask is what the driver is told of a task; of one that is not desired only the
// name matters.
func (l *loop) driverTask(e *entry) driver.Task {
	a := e.desired
	t := driver.Task{
		ID: e.id, Command: a.GetCommand(), Env: a.GetEnv(), Box: boxOf(a.GetBox()),
		Resources: a.GetPlacement().GetResources(), GPUs: a.GetPlacement().GetGpus(),
		CPUMax: a.GetCpuMaxMilli(), Pids: a.GetPids(),
		MaxRuntime: a.GetMaxRuntime().AsDuration(), StartBy: e.startBy,
		Probed: a.GetHealth() != nil, OwnNetwork: a.GetNetwork() == ownNetwork,
	}
	if t.OwnNetwork {
		t.Publish = portNumbers(a.GetPlacement())
	}
	for _, c := range a.GetContainers() {
		t.Containers = append(t.Containers, driver.Container{
			Name: c.GetName(), Role: roleOf(c.GetRole()), Command: c.GetCommand(), Env: c.GetEnv(), Box: boxOf(c.GetBox()),
		})
	}
	l.equip(&t)
	return t
}

// roleOf is a role by its name. One that this release does not know is none that a driver
// takes: better no start than a wrong one.
func roleOf(name string) driver.Role {
	switch name {
	case "main":
		return driver.Main
	case "init":
		return driver.Init
	case "sidecar":
		return driver.Sidecar
	}
	return -1
}

func boxOf(b *ohmv1.Box) driver.Box {
	box := driver.Box{
		Image: b.GetImage(), User: b.GetUser(), Dir: b.GetDir(), ReadOnlyRoot: b.GetReadOnlyRoot(),
		AddCaps: b.GetAddCapabilities(), DropCaps: b.GetDropCapabilities(), Confined: b.GetConfined(),
	}
	for _, m := range b.GetMounts() {
		box.Mounts = append(box.Mounts, driver.Mount{
			Target: m.GetTarget(), Source: m.GetSource(), Size: m.GetTmpfsBytes(), ReadOnly: m.GetReadOnly(),
		})
	}
	return box
}
