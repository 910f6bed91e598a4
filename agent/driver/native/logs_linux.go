package native

import (
	"context"
	"io"
	"time"
)

// Logs opens one stream of a task.
func (d *Driver) Logs(_ context.Context, id, stream string) (io.ReadCloser, error) {
	return d.logs.Open(id, stream)
}

// ListLogs names the tasks of which there are logs.
func (d *Driver) ListLogs(ctx context.Context) (map[string]time.Time, error) { return d.logs.List(ctx) }

// RemoveLogs forgets both streams.
func (d *Driver) RemoveLogs(_ context.Context, id string) error { return d.logs.Remove(id) }
