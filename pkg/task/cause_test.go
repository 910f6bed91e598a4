package task

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// causes are the constants of cause.go, so that a new one cannot be left out here.
func causes(t *testing.T) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "cause.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && len(s.Values) == 1 {
			if text, ok := s.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
				cause, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, cause)
			}
		}
		return true
	})
	return all
}

// TestEveryCause: each cause of the set has a class and an end state, and there is no other.
func TestEveryCause(t *testing.T) {
	type row struct {
		class Class
		state State
	}
	table := map[string]row{
		"Exited":        {UserError, Failed},
		"Signalled":     {UserError, Failed},
		"OOMKilled":     {UserError, Failed},
		"StartFailed":   {UserError, Failed},
		"ImageNotFound": {UserError, Failed},
		"ImageDenied":   {UserError, Failed},
		"TimedOut":      {UserError, Failed},
		"Unhealthy":     {UserError, Failed},
		"DiskExceeded":  {UserError, Failed},
		"PortBusy":      {NodeFault, Failed},
		"DeviceLost":    {NodeFault, Failed},
		"DiskFull":      {NodeFault, Failed},
		"Refused":       {NodeFault, Failed},
		"NodeLost":      {Infrastructure, Lost},
		"StartDeadline": {Infrastructure, Failed},
		"UnknownExit":   {Infrastructure, Failed},
		"Stopped":       {Wanted, Stopped},
		"Drained":       {Wanted, Stopped},
		"Preempted":     {Wanted, Stopped},
		"GangBroken":    {Wanted, Stopped},
	}
	all := causes(t)
	if len(all) != len(table) {
		t.Errorf("the set has %d causes, the table %d", len(all), len(table))
	}
	for _, cause := range all {
		want, there := table[cause]
		class, known := ClassOf(cause)
		if !there || !known || class != want.class || EndState(cause, 1) != want.state {
			t.Errorf("%s: class %d (known %v), state %s; want %+v (in the table %v)", cause, class, known, Name(EndState(cause, 1)), want, there)
		}
	}
	if got := EndState(Exited, 0); got != Succeeded {
		t.Errorf("exit 0 is %s", Name(got))
	}
	if class, known := ClassOf("OfALaterRelease"); known || class != UserError {
		t.Errorf("a cause that nobody knows is of class %d, known %v", class, known)
	}
}
