package main

import (
	"strings"
	"testing"
)

// What a plan says, in every format, and what an apply sends with its token.
func TestPlanAndApply(t *testing.T) {
	for _, format := range listFormats() {
		f := startFake(t, &fake{})
		r := ohm(t, f.address, call{args: []string{"plan", "-", write(t, "hello.yaml", helloFile), "-o", format}, stdin: file("web", "service")})
		got := r.text(f.address)
		if i := strings.Index(got, "ohm apply"); i >= 0 { // the file's path is no constant
			got = got[:i] + "ohm apply …\n"
		}
		compare(t, "testdata/golden/plan."+format, got)
		if len(f.submits) > 0 {
			t.Errorf("a plan has submitted %v", f.submits)
		}
	}
	f := startFake(t, &fake{})
	r := ohm(t, f.address, call{args: []string{"plan", "-"}, stdin: strings.Replace(helloFile, "64Mi", "512m", 1)})
	if r.code != exitUsage || !strings.Contains(r.stderr, "stdin:7:13: ") {
		t.Errorf("a bad file: %s", r.text(f.address))
	}
	r = ohm(t, f.address, call{args: []string{"apply", "-", "--token", "TOKEN", "--request-id", "R"}, stdin: helloFile})
	if r.code != exitDone || len(f.submits) != 1 || !f.submits[0].Apply || f.submits[0].Token != "TOKEN" || f.submits[0].RequestId != "R" {
		t.Errorf("submitted %v: %s", f.submits, r.text(f.address))
	}
	r = ohm(t, f.address, call{args: []string{"run", "-"}, stdin: helloFile})
	if r.code != exitDone || f.submits[1].Apply || f.submits[1].Token != "" {
		t.Errorf("a run has sent %v: %s", f.submits[1], r.text(f.address))
	}
	r = ohm(t, f.address, call{args: []string{"apply", "-", "--timeout", "3s"}, stdin: helloFile})
	if r.code != exitUsage {
		t.Errorf("a time to wait without waiting: %s", r.text(f.address))
	}
}
