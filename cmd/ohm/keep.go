package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/ohmcell/ohm/agent/driver/segment"
	"github.com/ohmcell/ohm/pkg/config"
	"github.com/ohmcell/ohm/pkg/resource"
)

// keepFlags say what a node keeps of its tasks.
func (p *part) keepFlags(f *pflag.FlagSet) {
	logs := segment.Limits{}.WithDefaults()
	p.runtime.Logs = logs
	f.Var((*byteCount)(&p.runtime.Logs.Bytes), "log-size", "size at which a file of a task's log is followed by another")
	f.IntVar(&p.runtime.Logs.Files, "log-files", logs.Files, "so many such files are kept of each of a task's two streams")
	f.IntVar(&p.keep.KeepLogs, "keep-logs", 100, "so many ended attempts have their logs kept, the newest")
	f.DurationVar(&p.keep.KeepLogsFor, "keep-logs-for", 24*time.Hour, "and for no longer than this")
	p.keep.KeepLogsBytes = 10 << 30
	f.Var((*byteCount)(&p.keep.KeepLogsBytes), "keep-logs-bytes", "and they take no more than this together; of the newest the log stays in any case")
	f.IntVar(&p.keep.DiskFull, "disk-full", 95, "percent of the data dir's disk at which the node takes no new task, and logs older than ten minutes go, the oldest first")
	f.IntVar(&p.keep.DiskFree, "disk-free", 90, "percent below which it takes tasks again")
	config.Settings(f, "log-size", "log-files", "keep-logs", "keep-logs-for", "keep-logs-bytes", "disk-full", "disk-free")
}

// byteCount is a flag such as 10Mi.
type byteCount int64

func (b *byteCount) String() string { return resource.FormatBytes(int64(*b)) }
func (b *byteCount) Type() string   { return "bytes" }

func (b *byteCount) Set(s string) error {
	n, err := resource.ParseBytes(s)
	if err == nil {
		*b = byteCount(n)
	}
	return err
}
