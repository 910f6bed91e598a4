// Package nvidia finds the GPUs of one maker with the tools that come with its driver:
// nvidia-smi lists them, files of the Container Device Interface (CDI) say what a task needs
// in order to use one, and the kernel's log tells their faults, as Xid codes.
package nvidia

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/ohmcell/ohm/agent/device"
)

// Source finds what there is of GPUs now.
type Source struct {
	SMI  string   // path of nvidia-smi; empty: the CDI files alone say what there is
	CDI  []string // folders with CDI files
	Kmsg string   // the kernel's log; empty: no faults are told
	// Quiet is how long ago a fault may have been: a device of which none was told for so
	// long, and that is still listed, has recovered.
	Quiet time.Duration
}

// Find looks for the tools in their usual places. ok is false where there are none.
func Find() (s Source, ok bool) {
	s = Source{CDI: []string{"/etc/cdi", "/var/run/cdi"}, Kmsg: "/dev/kmsg", Quiet: 10 * time.Minute}
	s.SMI, _ = exec.LookPath("nvidia-smi")
	if s.SMI != "" {
		return s, true
	}
	edits, err := readCDI(s.CDI)
	return s, err == nil && len(edits) > 0
}

// Codes are the Xids of NVIDIA's documentation that tell of a program's own fault, and those
// after which nothing runs on the device any more. All others are bad.
func Codes() device.Policy {
	return device.Policy{
		13: device.Healthy, 31: device.Healthy, 43: device.Healthy, 45: device.Healthy, 68: device.Healthy, 109: device.Healthy,
		48: device.Lost, 74: device.Lost, 79: device.Lost, 95: device.Lost, 119: device.Lost,
	}
}

// Devices are what nvidia-smi lists, or the CDI files where there is none.
func (s Source) Devices(ctx context.Context) ([]device.Device, error) {
	edits, err := readCDI(s.CDI)
	if err != nil {
		return nil, err
	}
	if s.SMI == "" {
		return named(edits), nil
	}
	command := exec.CommandContext(ctx, s.SMI, "--query-gpu=uuid,name,pci.bus_id,index,memory.total", "--format=csv,noheader")
	command.WaitDelay = time.Second
	out, err := command.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, firstLine(append(failed.Stderr, out...)))
		}
		return nil, fmt.Errorf("nvidia-smi: %w", err)
	}
	cards, err := parseCards(out)
	if err != nil {
		return nil, err
	}
	faults, err := s.faults()
	if err != nil {
		return nil, err
	}
	var devices []device.Device
	for _, c := range cards {
		d := device.Device{ID: c.uuid, Model: c.model, Memory: c.memory, Faults: faults[c.bus], Edits: usual(c)}
		for _, name := range []string{c.uuid, c.index} {
			if e, known := edits[name]; known {
				d.Edits = e
				break
			}
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// card is a line of nvidia-smi.
type card struct {
	uuid, model, bus, index string
	memory                  int64 // bytes; 0: it does not say
}

func parseCards(out []byte) ([]card, error) {
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, 5
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi: %w", err)
	}
	var cards []card
	for _, f := range lines {
		bus, err := busOf(f[2])
		if err != nil || f[0] == "" {
			return nil, fmt.Errorf("nvidia-smi: %q is no card", strings.Join(f, ", "))
		}
		cards = append(cards, card{uuid: f[0], model: strings.ReplaceAll(f[1], " ", "-"), bus: bus, index: f[3], memory: memoryOf(f[4])})
	}
	return cards, nil
}

// memoryOf reads "16384 MiB".
func memoryOf(text string) int64 {
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || unit != "MiB" || n < 0 {
		return 0
	}
	return n << 20
}

// usual is what a task needs of a card of which no CDI file speaks.
func usual(c card) device.Edits {
	var nodes []string
	for _, node := range []string{"/dev/nvidia" + c.index, "/dev/nvidiactl", "/dev/nvidia-uvm"} {
		if _, err := os.Stat(node); err == nil {
			nodes = append(nodes, node)
		}
	}
	return device.Edits{Env: map[string]string{"CUDA_VISIBLE_DEVICES": c.uuid, "NVIDIA_VISIBLE_DEVICES": c.uuid}, Nodes: nodes}
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}
