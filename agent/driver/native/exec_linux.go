package native

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
)

// Exec is not among what the driver can do.
func (d *Driver) Exec(_ context.Context, id string, _ driver.Exec) (int, error) {
	return 0, fmt.Errorf("run a program in task %s: it %w", id, driver.ErrCannot)
}

// Stats are what the task's cgroups have counted.
func (d *Driver) Stats(_ context.Context, id string) (driver.Stats, bool, error) {
	if err := folder.CheckID(id); err != nil {
		return driver.Stats{}, false, err
	}
	dir := d.folder(id)
	if held, err := folder.Held(dir); !held {
		return driver.Stats{}, false, unlessGone(err)
	}
	st, err := folder.Read[state](filepath.Join(dir, stateFile))
	if err != nil || st.Command.Pid == 0 {
		return driver.Stats{}, false, nil // only starting
	}
	s, ok := st.Cgroups.Stats()
	return s, ok, nil
}
