package main

import (
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
	config.Settings(f, "log-size", "log-files")
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
