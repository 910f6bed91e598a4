package agent

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestLabel(t *testing.T) {
	for host, want := range map[string]string{
		"web-1": "web-1", "Web-1.Example.org": "web-1", "my_host": "my-host", "-x-": "x", "": "node", "...": "node", "ümlaut": "mlaut",
		strings.Repeat("a", 62) + "-b": strings.Repeat("a", 62),
	} {
		equal(t, host, label(host), want)
	}
}

func TestLess(t *testing.T) {
	all := &ohmv1.Resources{CpuMilli: 4000, MemoryBytes: 100, DiskBytes: 10}
	if got := less(all, nil); !proto.Equal(got, all) {
		t.Errorf("no reserve: %v", got)
	}
	want := &ohmv1.Resources{CpuMilli: 3000, DiskBytes: 9}
	if got := less(all, &ohmv1.Resources{CpuMilli: 1000, MemoryBytes: 101, DiskBytes: 1}); !proto.Equal(got, want) {
		t.Errorf("with a reserve: %v", got)
	}
}
