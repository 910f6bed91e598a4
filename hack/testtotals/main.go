// Command testtotals reads what `go test -json` writes, shows a line for each package
// and the whole output of what failed, and ends with the line
//
//	N passed, N failed, N skipped
//
// in which tests and subtests count one each, and a package that cannot be built or
// falls over outside of its tests as one that failed. It exits with 1 if anything failed
// or nothing ran. With -skips FILE, which lists tests by name, also if a test was skipped
// that is not in the file; with OHM_TRACES set, for the sake of which the file is there,
// if any was.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	file := flag.String("skips", "", "`file` with the tests that may be skipped where OHM_TRACES is not set")
	flag.Parse()
	t := newTotals(os.Stdout)
	if err := t.read(os.Stdin); err != nil {
		log.Fatal(err)
	}
	allowed := []string(nil)
	if *file != "" && os.Getenv("OHM_TRACES") == "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			log.Fatal(err)
		}
		allowed = names(string(text))
	}
	if !t.end(*file != "", allowed) {
		os.Exit(1)
	}
}

// names are the lines of a text that say something.
func names(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// event is a line of `go test -json`.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

// test names a test; without a test's name it is the package itself.
type test struct{ pkg, name string }

func (t test) String() string {
	if t.name == "" {
		return t.pkg
	}
	return t.pkg + " " + t.name
}

type totals struct {
	out             io.Writer
	passed, failed  int
	skipped         []test
	output          map[test][]string // of tests that have not passed
	failedInPackage map[string]bool   // packages of which a test has failed
}

func newTotals(out io.Writer) *totals {
	return &totals{out: out, output: map[test][]string{}, failedInPackage: map[string]bool{}}
}

func (t *totals) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0 && err == io.EOF:
			return nil
		case err != nil && err != io.EOF:
			return err
		case json.Unmarshal(line, &e) != nil:
			fmt.Fprintf(t.out, "%s", line) // what go itself has to say
		default:
			t.observe(e)
		}
	}
}

func (t *totals) observe(e event) {
	at := test{cmp.Or(e.Package, e.ImportPath), e.Test}
	switch e.Action {
	case "output", "build-output":
		t.output[at] = append(t.output[at], e.Output)
	case "pass", "fail", "skip":
		if at.name != "" {
			t.ended(at, e)
			return
		}
		t.packageEnded(at, e)
	}
}

func (t *totals) ended(at test, e event) {
	switch e.Action {
	case "pass":
		t.passed++
		delete(t.output, at)
	case "skip":
		t.skipped = append(t.skipped, at)
	case "fail":
		t.failed++
		t.failedInPackage[at.pkg] = true
		t.show(at)
	}
}

func (t *totals) packageEnded(at test, e event) {
	switch word := map[string]string{"pass": "ok", "fail": "FAIL", "skip": "-"}[e.Action]; {
	case e.Action == "fail" && !t.failedInPackage[at.pkg]:
		t.failed++
		t.show(test{pkg: e.FailedBuild})
		t.show(at)
		for other := range t.output { // a test that never ended
			if other.pkg == at.pkg && !slices.Contains(t.skipped, other) {
				t.show(other)
			}
		}
		fallthrough
	default:
		fmt.Fprintf(t.out, "%-4s  %6.1fs  %s\n", word, e.Elapsed, at.pkg)
	}
	delete(t.output, at)
}

func (t *totals) show(at test) {
	if len(t.output[at]) > 0 {
		fmt.Fprintf(t.out, "--- %s\n%s", at, strings.Join(t.output[at], ""))
	}
	delete(t.output, at)
}

// end says what was skipped and the totals, and reports whether all is well.
func (t *totals) end(strict bool, allowed []string) bool {
	well := t.failed == 0
	if t.passed+t.failed == 0 {
		fmt.Fprintln(t.out, "no test ran")
		well = false
	}
	for _, s := range t.skipped {
		why := ""
		for _, line := range t.output[s] {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
				why += " " + line
			}
		}
		word := "skipped"
		if strict && !slices.Contains(allowed, s.name) {
			word, well = "skipped, and must not be:", false
		}
		fmt.Fprintf(t.out, "%s %s:%s\n", word, s, why)
	}
	fmt.Fprintf(t.out, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, len(t.skipped))
	return well
}
