package hack

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// source is one file of this module.
type source struct {
	path string // from the module's root, with slashes
	text []byte // nil: read the file
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources are all files that people wrote.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && file != ".." && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".pb.go"):
			all = append(all, source{path: filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator)))})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// house holds files against the house rules that a parser can see.
func house(t *testing.T, files []source) (faults []string) {
	t.Helper()
	set := token.NewFileSet()
	comments := map[string][]string{} // by folder: the files with a package comment
	folders := map[string]bool{}      // that have a package, not only tests
	for _, f := range files {
		src := any(nil)
		if f.text != nil {
			src = f.text
		}
		tree, err := parser.ParseFile(set, filepath.Join("..", filepath.FromSlash(f.path)), src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		say := func(at token.Pos, format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%s:%d: %s", f.path, set.Position(at).Line, fmt.Sprintf(format, args...)))
		}
		for _, word := range append(strings.Split(path.Dir(f.path), "/"), tree.Name.Name) {
			if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "types", "manager", "misc"}, word) {
				say(tree.Package, "a package called %s says nothing of what it holds", word)
				break
			}
		}
		if !f.test() {
			folders[path.Dir(f.path)] = true
			if tree.Doc != nil {
				comments[path.Dir(f.path)] = append(comments[path.Dir(f.path)], f.path)
			}
		}
		rules(f, tree, say)
	}
	for folder := range folders {
		switch with := comments[folder]; len(with) {
		case 1:
		case 0:
			faults = append(faults, folder+": no file has a package comment")
		default:
			faults = append(faults, fmt.Sprintf("%s: more than one file has a package comment: %s", folder, strings.Join(with, ", ")))
		}
	}
	slices.Sort(faults)
	return faults
}

// rules looks at one file.
func rules(f source, tree *ast.File, say func(token.Pos, string, ...any)) {
	for _, d := range tree.Decls {
		fn, isFunc := d.(*ast.FuncDecl)
		if isFunc && fn.Recv == nil && fn.Name.Name == "init" {
			say(fn.Pos(), "init() runs whether it is wanted or not; register in a map that main builds")
		}
		main := isFunc && fn.Recv == nil && fn.Name.Name == "main" && tree.Name.Name == "main"
		bubble := isFunc && strings.Contains(fn.Doc.Text(), "bubble")
		look(d, bubble, func(n ast.Node, bubble bool) {
			switch n := n.(type) {
			case *ast.GoStmt:
				if path.Dir(f.path) == "cellstate" && !f.test() {
					say(n.Pos(), "no goroutine in cellstate: it decides and never acts")
				}
			case *ast.CallExpr:
				switch name := called(n); {
				case name == "time.Sleep" && f.test() && !bubble:
					say(n.Pos(), "a test that sleeps is slow or wrong, or both; wait for a condition, or use testing/synctest")
				case name == "panic" && !f.test():
					say(n.Pos(), "no panic: return an error")
				case strings.HasPrefix(name, "log.Fatal") && !main:
					say(n.Pos(), "%s ends the process from the middle of it; only main may", name)
				}
			}
		})
	}
}

// look visits every node, and says whether it is within a call of synctest.Test, where
// time stands still until everybody waits.
func look(n ast.Node, bubble bool, visit func(n ast.Node, bubble bool)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		visit(n, bubble)
		if call, ok := n.(*ast.CallExpr); ok && !bubble && called(call) == "synctest.Test" {
			for _, arg := range call.Args {
				look(arg, true, visit)
			}
			return false
		}
		return true
	})
}

// called is the name of what is called, with its package where it has one.
func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

func TestHouseRules(t *testing.T) {
	for _, f := range house(t, sources(t)) {
		t.Error(f)
	}
}

// TestHouseRulesCanFail plants one violation of each rule.
func TestHouseRulesCanFail(t *testing.T) {
	const head = "// Package a is sound.\npackage a\n"
	for name, c := range map[string]struct {
		path, text, want string
	}{
		"sound":                  {"a/a.go", head + "func f() error { return nil }", ""},
		"a name":                 {"pkg/util/a.go", head, "pkg/util/a.go:2: a package called util"},
		"a package's own name":   {"a/a.go", "// Package helpers helps.\npackage helpers", "a/a.go:2: a package called helpers"},
		"no comment":             {"a/a.go", "package a", "a: no file has a package comment"},
		"two comments":           {"b/a.go", head, "b: more than one file has a package comment: b/a.go, b/b.go"},
		"init":                   {"a/a.go", head + "func init() {}", "a/a.go:3: init()"},
		"init in a test":         {"a/a_test.go", "package a\nfunc init() {}", "a/a_test.go:2: init()"},
		"a method named init":    {"a/a.go", head + "func (x T) init() {}", ""},
		"a sleep in a test":      {"a/a_test.go", "package a\nfunc f() { time.Sleep(1) }", "a/a_test.go:2: a test that sleeps"},
		"a sleep elsewhere":      {"a/a.go", head + "func f() { time.Sleep(1) }", ""},
		"a sleep in a bubble":    {"a/a_test.go", "package a\nfunc f() { synctest.Test(t, func() { time.Sleep(1) }) }", ""},
		"beside a bubble":        {"a/a_test.go", "package a\nfunc f() { synctest.Test(t, g); time.Sleep(1) }", "a/a_test.go:2: a test that sleeps"},
		"for use in a bubble":    {"a/a_test.go", "package a\n// pass is for the bubble.\nfunc pass() { time.Sleep(1) }", ""},
		"panic":                  {"a/a.go", head + "func f() { panic(1) }", "a/a.go:3: no panic"},
		"panic in a test":        {"a/a_test.go", "package a\nfunc f() { panic(1) }", ""},
		"log.Fatal":              {"a/a.go", head + "func f() { log.Fatalf(``) }", "a/a.go:3: log.Fatalf ends the process"},
		"log.Fatal in main":      {"a/a.go", "// Command a is sound.\npackage main\nfunc main() { log.Fatal(1) }", ""},
		"main of another name":   {"a/a.go", "// Command a is not.\npackage main\nfunc run() { log.Fatal(1) }", "a/a.go:3: log.Fatal ends"},
		"a goroutine in a noun":  {"cellstate/a.go", head + "func f() { go f() }", "cellstate/a.go:3: no goroutine in cellstate"},
		"a goroutine in a store": {"cellstate/memstore/a.go", head + "func f() { go f() }", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := []source{{c.path, []byte(c.text)}}
			if name == "two comments" {
				files = append(files, source{"b/b.go", []byte(head)})
			}
			got := strings.Join(house(t, files), "\n")
			if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
