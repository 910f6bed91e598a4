package nvidia

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/ohmcell/ohm/agent/device"
)

// kind of the devices, as CDI names it.
const kind = "nvidia.com/gpu"

// cdiSpec is what is used of a file of the Container Device Interface, version 0.3 to 1.1
// (https://github.com/cncf-tags/container-device-interface, SPEC.md). Of its hooks the kind
// createContainer is known, which is all that NVIDIA's tool writes.
type cdiSpec struct {
	Kind    string   `yaml:"kind"`
	Edits   cdiEdits `yaml:"containerEdits"` // for all of its devices
	Devices []struct {
		Name  string   `yaml:"name"`
		Edits cdiEdits `yaml:"containerEdits"`
	} `yaml:"devices"`
}

type cdiEdits struct {
	Env         []string `yaml:"env"`
	DeviceNodes []struct {
		Path     string `yaml:"path"`
		HostPath string `yaml:"hostPath"`
	} `yaml:"deviceNodes"`
	Mounts []struct {
		HostPath      string `yaml:"hostPath"`
		ContainerPath string `yaml:"containerPath"`
	} `yaml:"mounts"`
	Hooks []struct {
		Name    string   `yaml:"hookName"`
		Path    string   `yaml:"path"`
		Args    []string `yaml:"args"`
		Env     []string `yaml:"env"`
		Timeout int      `yaml:"timeout"`
	} `yaml:"hooks"`
}

// readCDI reads the edits of each device from the files in some folders; of two of one name
// the later folder's holds. A folder that is not there has none.
func readCDI(folders []string) (map[string]device.Edits, error) {
	all := map[string]device.Edits{}
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("CDI: %w", err)
		}
		for _, e := range entries {
			if !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
				continue
			}
			path := filepath.Join(folder, e.Name())
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("CDI: %w", err)
			}
			var spec cdiSpec
			if err := yaml.Unmarshal(data, &spec); err != nil {
				return nil, fmt.Errorf("CDI: %s: %w", path, err)
			}
			if spec.Kind != kind {
				continue
			}
			for _, d := range spec.Devices {
				edits := device.Edits{Env: map[string]string{}}
				for _, part := range []cdiEdits{spec.Edits, d.Edits} {
					if err := part.onto(&edits); err != nil {
						return nil, fmt.Errorf("CDI: %s: device %s: %w", path, d.Name, err)
					}
				}
				all[d.Name] = edits
			}
		}
	}
	return all, nil
}

// onto adds the edits. What would appear elsewhere than it is on the machine, and what is not
// known, is refused: a task would not find it.
func (c cdiEdits) onto(e *device.Edits) error {
	for _, text := range c.Env {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("env %q is not written as name=value", text)
		}
		e.Env[key] = value
	}
	for _, n := range c.DeviceNodes {
		if n.HostPath != "" && n.HostPath != n.Path {
			return fmt.Errorf("device file %s would appear as %s", n.HostPath, n.Path)
		}
		e.Nodes = append(e.Nodes, n.Path)
	}
	for _, m := range c.Mounts {
		if m.HostPath != m.ContainerPath {
			return fmt.Errorf("file %s would appear as %s", m.HostPath, m.ContainerPath)
		}
		e.Mounts = append(e.Mounts, m.HostPath)
	}
	for _, h := range c.Hooks {
		if h.Name != "createContainer" {
			return fmt.Errorf("hook %s is of kind %s, which is not known", h.Path, h.Name)
		}
		e.Hooks = append(e.Hooks, device.Hook{Path: h.Path, Args: h.Args, Env: h.Env, Timeout: h.Timeout})
	}
	return nil
}

// named are the devices of which only CDI files tell: those named by a UUID where there are
// such names, else by index; the name that means all of them is none.
func named(edits map[string]device.Edits) []device.Device {
	names := slices.Sorted(maps.Keys(edits))
	byID := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "GPU-") })
	var devices []device.Device
	for _, name := range names {
		if name != "all" && (!byID || strings.HasPrefix(name, "GPU-")) {
			devices = append(devices, device.Device{ID: name, Model: "nvidia", Edits: edits[name]})
		}
	}
	return devices
}
