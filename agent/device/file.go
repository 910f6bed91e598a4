package device

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// File is a source that reads its devices from a JSON file at each look: an array of
// Device. It is for machines whose devices another program finds, and for tests.
type File string

// most is the longest file that is read, in bytes.
const most = 1 << 20

// Devices are those of the file now.
func (f File) Devices(context.Context) ([]Device, error) {
	info, err := os.Stat(string(f))
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("devices: %s is no file of at most %d bytes", string(f), most)
	}
	data, err := os.ReadFile(string(f))
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	var devices []Device
	if err := json.Unmarshal(data, &devices); err != nil {
		return nil, fmt.Errorf("devices: %s: %w", string(f), err)
	}
	seen := map[string]bool{}
	for _, d := range devices {
		if d.ID == "" || seen[d.ID] {
			return nil, fmt.Errorf("devices: %s has two of id %q, or one without", string(f), d.ID)
		}
		if d.Memory < 0 {
			return nil, fmt.Errorf("devices: %s says that %q has less than no memory", string(f), d.ID)
		}
		seen[d.ID] = true
	}
	return devices, nil
}
