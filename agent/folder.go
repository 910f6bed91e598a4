package agent

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ohmcell/ohm/pkg/filelock"
)

// LockFolder takes an agent's data folder, which must exist, for this process, until
// unlock or the process's end. Two agents on one folder would each take the other's tasks
// for its own and end them.
func LockFolder(dir string) (unlock func() error, err error) {
	unlock, err = filelock.Take(filepath.Join(dir, "lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("the folder %s belongs to another agent, which is running; give each its own data dir", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock of the agent's folder: %w", err)
	}
	return unlock, nil
}
