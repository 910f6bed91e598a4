package near

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		names []string
		of    map[string]string
	}{
		{[]string{"count", "cpu", "command", "constraints", "memory", "maxRuntime"}, map[string]string{
			"cout": "count", "cuont": "count", "counts": "count", "cpus": "cpu", "cp": "cpu", "mem": "memory",
			"constraint": "constraints", "max_runtime": "maxRuntime", "MAX-RUNTIME": "maxRuntime", "Command": "command",
			"": "", "x": "", "elephant": "", "disk": "", "port": "",
		}},
		{[]string{"web", "web1", "web10", "train"}, map[string]string{
			"wbe": "web", "web2": "web", "web11": "web1", "tain": "train", "tra": "train", "we": "web", "web-1": "web1",
			"": "", "xyz": "", "frob": "", "-": "", "wb": "web", "wa": "", "w": "",
		}},
		{[]string{"node-0123456789", "node-9876543210"}, map[string]string{
			"node-0123456798": "node-0123456789", "node-5555555555": "",
			strings.Repeat("n", 65): "",
		}},
		{[]string{"id", "n7", "node"}, map[string]string{"ip": "id", "pd": "", "n8": "n7", "i": "id", "n": "n7", "ox": "", "nod": "node", "x": ""}},
		{nil, map[string]string{"web": ""}},
	} {
		for word, want := range c.of {
			if got := Of(word, c.names); got != want {
				t.Errorf("%q of %v: got %q, want %q", word, c.names, got, want)
			}
		}
	}
}
