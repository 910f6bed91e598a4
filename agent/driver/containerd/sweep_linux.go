package containerd

import (
	"context"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
)

// owned says whether the name, of a container or a snapshot, is that of a task with a folder.
func owned(own map[string]bool, name string) bool {
	of, _, _ := strings.Cut(name, "-")
	return own[of]
}

// strays are the containers' file systems (not those of images, which are committed) whose
// task has no folder, and what is left of layers that were being unpacked by nobody of now.
func (d *Driver) strays(ctx context.Context, own map[string]bool) (keys []string, err error) {
	d.mu.Lock()
	began, fetching := time.Now(), len(d.fetches) > 0
	d.mu.Unlock()
	err = d.client.SnapshotService(snapshotter).Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		name := strings.TrimSuffix(info.Name, "-view")
		of, _, _ := strings.Cut(name, "-")
		unpacked := of == "extract" && !fetching && info.Created.Before(began)
		if info.Kind == snapshots.KindActive && (unpacked || len(of) == 32 && !own[of]) {
			keys = append(keys, info.Name)
		}
		return nil
	})
	return keys, err
}
