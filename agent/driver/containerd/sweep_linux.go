package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/ohmcell/ohm/agent/driver/folder"
)

// owned says whether the name, of a container or a snapshot, is that of a task with a folder.
func owned(own map[string]bool, name string) bool {
	of, _, _ := strings.Cut(name, "-")
	return own[of]
}

// strays are the containers' file systems (not those of images, which are committed) whose
// task has no folder.
func (d *Driver) strays(ctx context.Context, own map[string]bool) (keys []string, err error) {
	err = d.client.SnapshotService(snapshotter).Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		name := strings.TrimSuffix(info.Name, "-view")
		if of, rest, _ := strings.Cut(name, "-"); info.Kind == snapshots.KindActive && len(of) == 32 && len(rest) == 8 && !own[of] {
			keys = append(keys, info.Name)
		}
		return nil
	})
	return keys, err
}

// sweepDrafts removes what starts and removals left that were cut short.
func (d *Driver) sweepDrafts() error {
	entries, err := os.ReadDir(d.tasks)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		old := err == nil && time.Since(info.ModTime()) > time.Minute
		if strings.HasPrefix(e.Name(), gonePrefix) || strings.HasPrefix(e.Name(), draftPrefix) && old {
			errs = append(errs, folder.Discard(filepath.Join(d.tasks, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// ids of all tasks that have a folder, sorted.
func (d *Driver) ids() ([]string, error) {
	entries, err := os.ReadDir(d.tasks)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}
