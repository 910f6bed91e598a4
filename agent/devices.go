package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/agent/device"
	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// firstLook is how long the first word to a server waits for the devices to be found: most
// restarts of an agent then change nothing of its node.
const firstLook = 2 * time.Second

// findDevices looks for the first time, for no longer than firstLook, and returns what looks
// again and again until ctx ends. What was found in an earlier run of the agent is known: a
// device that is missing is not ready, it is not gone.
func (a *Agent) findDevices(ctx context.Context) (again func(context.Context) error) {
	if a.Devices == nil {
		return func(context.Context) error { return nil }
	}
	known, err := a.knownDevices()
	if err != nil {
		a.Log.Warn("which devices the node has had is not known", zap.Error(err))
	}
	first, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	a.lookForDevices(first, known)
	return func(ctx context.Context) error {
		for pause(ctx, a.DeviceEvery); ctx.Err() == nil; pause(ctx, a.DeviceEvery) {
			look, cancel := context.WithTimeout(ctx, a.LookTimeout)
			a.lookForDevices(look, a.facts.Load().GetGpus())
			cancel()
		}
		return nil
	}
}

// lookForDevices brings the node's facts up to date.
func (a *Agent) lookForDevices(ctx context.Context, known []*ohmv1.Device) {
	seen, err := a.Devices.Devices(ctx)
	if ctx.Err() != nil {
		err = errors.New("looking for devices takes too long")
	}
	if err == nil {
		edits := map[string]device.Edits{}
		for _, d := range seen {
			edits[d.ID] = d.Edits
		}
		a.edits.Store(&edits)
	}
	a.factsMu.Lock()
	defer a.factsMu.Unlock()
	before := a.facts.Load()
	now := proto.CloneOf(before)
	now.Gpus, now.DeviceError = device.Merge(known, seen, err, a.Codes), ""
	if err != nil {
		now.DeviceError = err.Error()
	}
	if proto.Equal(before, now) {
		return
	}
	a.Log.Info("the node's devices are other ones, or otherwise", zap.Stringer("node", now))
	if err := a.keepDevices(now.Gpus); err != nil {
		a.Log.Warn("which devices the node has cannot be written down", zap.Error(err))
	}
	a.facts.Store(now)
	ring(a.changed)
	ring(a.bell)
}

// The devices that were known last, so that the next run knows what may be late.

func (a *Agent) devicesFile() string { return filepath.Join(a.Dir, "devices.json") }

func (a *Agent) knownDevices() (known []*ohmv1.Device, err error) {
	if a.Dir == "" {
		return nil, nil
	}
	data, err := os.ReadFile(a.devicesFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	return known, err
}

func (a *Agent) keepDevices(known []*ohmv1.Device) error {
	if a.Dir == "" {
		return nil
	}
	data, err := json.Marshal(known)
	if err != nil {
		return err
	}
	fresh := a.devicesFile() + ".new"
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, a.devicesFile())
}

// deviceNews is what a task must know of its devices, and how the worst of them is.
func deviceNews(facts *ohmv1.Node, p *ohmv1.Placement) (news string, worst ohmv1.DeviceHealth) {
	var all []string
	for _, share := range p.GetGpus() {
		if d := deviceOf(facts, share.GetId()); d != nil && d.GetHealth() != device.Healthy {
			all = append(all, fmt.Sprintf("GPU %s: %s", d.GetId(), cellstate.HealthText(d)))
			worst = max(worst, d.GetHealth())
		}
	}
	return strings.Join(all, "; "), worst
}

func deviceOf(facts *ohmv1.Node, id string) *ohmv1.Device {
	at := slices.IndexFunc(facts.GetGpus(), func(d *ohmv1.Device) bool { return d.GetId() == id })
	if at < 0 {
		return nil
	}
	return facts.GetGpus()[at]
}

// equip adds to a task what it needs in order to use its devices. Where two devices want a
// variable to be something else, it is both, with a comma.
func (a *Agent) equip(t *driver.Task) {
	edits := a.edits.Load()
	if edits == nil || len(t.GPUs) == 0 {
		return
	}
	env := map[string][]string{}
	for _, share := range t.GPUs {
		e := (*edits)[share.GetId()]
		for key, value := range e.Env {
			if !slices.Contains(env[key], value) {
				env[key] = append(env[key], value)
			}
		}
		t.DeviceNodes = appendNew(t.DeviceNodes, e.Nodes)
		t.DeviceFiles = appendNew(t.DeviceFiles, e.Mounts)
		for _, h := range e.Hooks {
			hook := driver.Hook{Path: h.Path, Args: h.Args, Env: h.Env, Timeout: time.Duration(h.Timeout) * time.Second}
			if !slices.ContainsFunc(t.Hooks, hook.Same) {
				t.Hooks = append(t.Hooks, hook)
			}
		}
	}
	if len(t.Containers) == 0 {
		t.Env = with(t.Env, env)
	}
	for i := range t.Containers {
		t.Containers[i].Env = with(t.Containers[i].Env, env)
	}
}

// with is a copy of an environment with more in it.
func with(env map[string]string, more map[string][]string) map[string]string {
	all := maps.Clone(env)
	if all == nil {
		all = map[string]string{}
	}
	for key, values := range more {
		all[key] = strings.Join(values, ",")
	}
	return all
}

func appendNew(to, more []string) []string {
	for _, m := range more {
		if !slices.Contains(to, m) {
			to = append(to, m)
		}
	}
	return to
}
