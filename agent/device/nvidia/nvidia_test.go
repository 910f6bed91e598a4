package nvidia

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/device"
)

const (
	first  = "GPU-11111111-2222-3333-4444-555555555555"
	second = "GPU-66666666-7777-8888-9999-000000000000"
)

// tools puts an nvidia-smi into a folder that says what is given and exits so, and a CDI file.
func tools(t *testing.T, says string, exit int, cdi string) Source {
	t.Helper()
	dir := t.TempDir()
	s := Source{SMI: filepath.Join(dir, "nvidia-smi"), CDI: []string{filepath.Join(dir, "none"), dir}, Quiet: time.Minute}
	script := fmt.Sprintf("#!/bin/sh\ncat <<'E'\n%sE\nexit %d\n", says, exit)
	for path, text := range map[string]string{s.SMI: script, filepath.Join(dir, "gpu.yaml"): cdi, filepath.Join(dir, "README"): "not: [CDI"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const cards = first + ", Tesla T4, 00000000:3B:00.0, 0, 15360 MiB\n" + second + ", NVIDIA A100-SXM4-80GB, 00000000:AF:00.0, 1, [N/A]\n"

const cdi = `cdiVersion: "0.6.0"
kind: nvidia.com/gpu
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
  deviceNodes: [{path: /dev/nvidiactl}]
  mounts: [{hostPath: /usr/lib/libcuda.so.1, containerPath: /usr/lib/libcuda.so.1, options: [ro, bind]}]
  hooks: [{hookName: createContainer, path: /usr/bin/nvidia-ctk, args: [nvidia-ctk, hook, update-ldcache], env: [A=b], timeout: 3}]
devices:
- name: "0"
  containerEdits: {deviceNodes: [{path: /dev/nvidia0, hostPath: /dev/nvidia0}]}
- name: all
  containerEdits: {deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]}
`

func TestDevices(t *testing.T) {
	s := tools(t, cards, 0, cdi)
	devices, err := s.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []device.Device{
		{ID: first, Model: "Tesla-T4", Memory: 15 << 30, Edits: device.Edits{
			Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void"}, Nodes: []string{"/dev/nvidiactl", "/dev/nvidia0"}, Mounts: []string{"/usr/lib/libcuda.so.1"},
			Hooks: []device.Hook{{Path: "/usr/bin/nvidia-ctk", Args: []string{"nvidia-ctk", "hook", "update-ldcache"}, Env: []string{"A=b"}, Timeout: 3}},
		}},
		{ID: second, Model: "NVIDIA-A100-SXM4-80GB", Edits: device.Edits{
			Env: map[string]string{"CUDA_VISIBLE_DEVICES": second, "NVIDIA_VISIBLE_DEVICES": second},
		}},
	}
	if diff := cmp.Diff(want, devices); diff != "" {
		t.Error(diff)
	}
	s.SMI = ""
	if devices, err = s.Devices(t.Context()); err != nil || len(devices) != 1 || devices[0].ID != "0" {
		t.Errorf("by CDI alone: %+v, %v", devices, err)
	}
}

func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		s    Source
		want string
	}{
		"no driver":         {tools(t, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\nmore\n", 9, cdi), "exit status 9: NVIDIA-SMI has failed"},
		"another format":    {tools(t, "No devices were found\n", 0, cdi), "nvidia-smi"},
		"no bus":            {tools(t, first+", T4, here, 0, 1 MiB\n", 0, cdi), "is no card"},
		"CDI":               {tools(t, cards, 0, "kind: [x"), "gpu.yaml"},
		"CDI, another path": {tools(t, cards, 0, strings.Replace(cdi, "hostPath: /dev/nvidia0", "hostPath: /dev/nvidia7", 1)), "would appear as"},
		"CDI, another hook": {tools(t, cards, 0, strings.Replace(cdi, "createContainer", "poststop", 1)), "kind poststop"},
	} {
		if devices, err := c.s.Devices(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, devices, err, c.want)
		}
	}
}

// TestFaults: a fault is told of the card on whose bus it was, until it has been quiet.
func TestFaults(t *testing.T) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	ago := func(d time.Duration) int64 { return (time.Duration(now.Nano()) - d).Microseconds() }
	s := tools(t, cards, 0, cdi)
	s.Kmsg = filepath.Join(t.TempDir(), "kmsg")
	log := fmt.Sprintf("6,1,%d,-;NVRM: Xid (PCI:0000:3b:00): 48, long ago\n", ago(2*time.Minute)) +
		fmt.Sprintf("6,2,%d,-;NVRM: Xid (PCI:0000:3b:00): 63, pid='<unknown>', name=<unknown>, a page\n SUBSYSTEM=pci\n", ago(time.Second)) +
		fmt.Sprintf("4,3,%d,c,caller=T1;NVRM: Xid (PCI:0000:af:00.0): 79, GPU has fallen off the bus.\n", ago(time.Second)) +
		fmt.Sprintf("6,4,%d,-;something else: Xid (PCI:0000:af:00): 13, x\n", ago(time.Second))
	if err := os.WriteFile(s.Kmsg, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	devices, err := s.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]device.Fault{{Code: 63, What: "pid='<unknown>', name=<unknown>, a page"}}, devices[0].Faults); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]device.Fault{{Code: 79, What: "GPU has fallen off the bus."}}, devices[1].Faults); diff != "" {
		t.Error(diff)
	}
	s.Kmsg += "-not-there"
	if _, err := s.Devices(t.Context()); err == nil {
		t.Error("a log that is not there has no faults")
	}
}

// TestKernelLog: the machine's own log can be read to its end.
func TestKernelLog(t *testing.T) {
	if _, err := (Source{Kmsg: "/dev/kmsg", Quiet: time.Minute}).faults(); err != nil {
		t.Error(err)
	}
}
