package containerd

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/segment"
)

// Logs opens one stream of a task.
func (d *Driver) Logs(_ context.Context, id, stream string, from driver.From) (driver.Log, error) {
	return d.logs.Open(id, stream, from)
}

// ListLogs names the tasks of which there are logs.
func (d *Driver) ListLogs(ctx context.Context) (map[string]time.Time, error) { return d.logs.List(ctx) }

// LogBytes counts what is in the folder of a task's logs.
func (d *Driver) LogBytes(_ context.Context, id string) (int64, error) { return d.logs.Size(id) }

// RemoveLogs forgets both streams.
func (d *Driver) RemoveLogs(_ context.Context, id string) error { return d.logs.Remove(id) }

// openLogs begins both streams, so that they are there whatever becomes of the start.
func (d *Driver) openLogs(id string) error {
	dir := filepath.Join(string(d.logs), id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, stream := range []string{segment.Stdout, segment.Stderr} {
		w, err := segment.Open(dir, stream, d.conf.Logs)
		if err != nil {
			return err
		}
		w.Close()
	}
	return nil
}

// io has containerd's shim start ohm-init outside of the container, to write both streams to
// the task's logs.
func (d *Driver) io(id string) cio.Creator {
	logs := url.URL{Scheme: "binary", Path: d.init, RawQuery: url.Values{
		"log": {segment.Target(filepath.Join(string(d.logs), id), d.conf.Logs.WithDefaults())},
	}.Encode()}
	return func(string) (cio.IO, error) {
		return logIO{cio.Config{Stdout: logs.String(), Stderr: logs.String()}}, nil
	}
}

// logIO is a task's output that nobody in this process reads.
type logIO struct{ config cio.Config }

func (l logIO) Config() cio.Config { return l.config }
func (logIO) Cancel()              {}
func (logIO) Wait()                {}
func (logIO) Close() error         { return nil }
