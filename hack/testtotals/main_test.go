package main

import (
	"strings"
	"testing"
)

func TestTotals(t *testing.T) {
	const (
		pass = `{"Action":"pass","Package":"m/a","Test":"TestA"}` + "\n"
		sub  = `{"Action":"pass","Package":"m/a","Test":"TestA/b"}` + "\n"
		fail = `{"Action":"output","Package":"m/a","Test":"TestF","Output":"a_test.go:1: wrong\n"}
{"Action":"fail","Package":"m/a","Test":"TestF"}
{"Action":"fail","Package":"m/a"}
`
		skip = `{"Action":"output","Package":"m/a","Test":"TestS","Output":"    a_test.go:2: no data\n"}
{"Action":"skip","Package":"m/a","Test":"TestS"}
`
		unbuilt = `{"ImportPath":"m/b","Action":"build-output","Output":"b.go:1: syntax\n"}
{"ImportPath":"m/b","Action":"build-fail"}
{"Action":"fail","Package":"m/b","FailedBuild":"m/b"}
`
		hung = `{"Action":"output","Package":"m/a","Test":"TestH","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"m/a"}
`
	)
	for name, c := range map[string]struct {
		in      string
		strict  bool
		allowed []string
		well    bool
		last    string
		says    string
	}{
		"passed":             {in: pass + sub, well: true, last: "2 passed, 0 failed, 0 skipped"},
		"failed":             {in: pass + fail, last: "1 passed, 1 failed, 0 skipped", says: "--- m/a TestF\na_test.go:1: wrong"},
		"skipped":            {in: pass + skip, well: true, last: "1 passed, 0 failed, 1 skipped", says: "skipped m/a TestS: a_test.go:2: no data"},
		"skipped, strict":    {in: pass + skip, strict: true, last: "1 passed, 0 failed, 1 skipped", says: "must not be: m/a TestS"},
		"skipped, allowed":   {in: pass + skip, strict: true, allowed: []string{"TestS"}, well: true, last: "1 passed, 0 failed, 1 skipped"},
		"does not build":     {in: pass + unbuilt, last: "1 passed, 1 failed, 0 skipped", says: "b.go:1: syntax"},
		"never ended":        {in: pass + hung, last: "1 passed, 1 failed, 0 skipped", says: "test timed out"},
		"nothing ran":        {in: "", last: "0 passed, 0 failed, 0 skipped", says: "no test ran"},
		"words of go itself": {in: "go: no such module\n", last: "0 passed, 0 failed, 0 skipped", says: "go: no such module"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			totals := newTotals(&out)
			if err := totals.read(strings.NewReader(c.in)); err != nil {
				t.Fatal(err)
			}
			if well := totals.end(c.strict, c.allowed); well != c.well {
				t.Errorf("well is %v, want %v", well, c.well)
			}
			if got := out.String(); !strings.HasSuffix(got, "\n"+c.last+"\n") && got != c.last+"\n" || !strings.Contains(got, c.says) {
				t.Errorf("it says %q, want %q and %q last", got, c.says, c.last)
			}
		})
	}
}

func TestNames(t *testing.T) {
	if got := names("# comment\nTestA # why\n\n  TestB\n"); strings.Join(got, ",") != "TestA,TestB" {
		t.Errorf("got %q", got)
	}
}
