package hack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ohmcell/ohm"

// pkg is a package of this module as the rules see it. Paths in this module are without
// the module's name; all others are as they are imported.
type pkg struct {
	path    string
	imports []string // of what is built
	tests   []string // of its tests, both kinds
}

// load lists the packages of this module as go sees them.
func load(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, said.Bytes())
	}
	var all []pkg
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, pkg{local(p.ImportPath), locals(p.Imports), locals(slices.Concat(p.TestImports, p.XTestImports))})
	}
}

func local(path string) string { return strings.TrimPrefix(path, module+"/") }

func locals(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, local(p))
	}
	return out
}

// in says whether a package is one of the trees given: "agent" is agent and all below.
func in(path string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(t string) bool { return path == t || strings.HasPrefix(path, t+"/") })
}

// graph finds ways from package to package.
type graph map[string]pkg

func graphOf(all []pkg) graph {
	g := graph{}
	for _, p := range all {
		g[p.path] = p
	}
	return g
}

// way is the shortest chain of imports from a package, or from its tests, to one that is
// forbidden: the packages along it, nil if there is none.
func (g graph) way(from string, fromTests bool, forbidden func(string) bool) []string {
	first := g[from].imports
	if fromTests {
		first = g[from].tests
	}
	type step struct {
		at  string
		way []string
	}
	seen := map[string]bool{from: true}
	var next []step
	for _, to := range first {
		next = append(next, step{to, []string{from, to}})
	}
	for len(next) > 0 {
		s := next[0]
		next = next[1:]
		if seen[s.at] {
			continue
		}
		seen[s.at] = true
		if forbidden(s.at) {
			return s.way
		}
		for _, to := range g[s.at].imports {
			next = append(next, step{to, append(slices.Clip(s.way), to)})
		}
	}
	return nil
}

// fault is a broken rule, for people.
func fault(way []string, tests bool, why string) string {
	from := way[0]
	if tests {
		from += " (its tests)"
	}
	return fmt.Sprintf("%s\n\tmust not be: %s", strings.Join(append([]string{from}, way[1:]...), " -> "), why)
}
