package main

import (
	"strings"
	"testing"
)

// Who watches gets all endpoints again at each change, one list a line for programs; a server that
// goes away is looked for again, and what it says again is not printed twice.
func TestWatchEndpoints(t *testing.T) {
	f := startFake(t, &fake{broken: 1})
	r := ohm(t, f.address, call{args: []string{"job", "endpoints", "web", "--watch", "-o", "json"}})
	if lines := strings.Split(r.stdout, "\n"); r.code != exitDone || len(lines) != 3 || !strings.HasPrefix(lines[0], `[{"namespace":"default","task":"web/main/0"`) || lines[1] != "[]" {
		t.Errorf("got %s", r.text(f.address))
	}
	if r = ohm(t, f.address, call{args: []string{"job", "endpoints", "nobody", "--watch"}}); r.code != exitNotFound {
		t.Errorf("got %s", r.text(f.address))
	}
	if r = ohm(t, f.address, call{args: []string{"job", "endpoints", "web/main/0"}}); r.code != exitUsage {
		t.Errorf("got %s", r.text(f.address))
	}
}
