package jobspec

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/ohmcell/ohm/pkg/constraint"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// text reads a scalar as it is written: 0.10 stays "0.10", yes stays "yes".
func (r *reader) text(at place, node ast.Node) (string, bool) {
	node = r.plain(at, node)
	switch n := node.(type) {
	case nil:
		return "", false
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	case *ast.NullNode:
		r.fault(at, `%s has no value; write "" for empty text`, at.name)
		return "", false
	}
	r.fault(at, "%s must be a single value, not %s", at.name, describe(node))
	return "", false
}

// name reads a word that, once given, must not be empty. In the message empty
// means not given.
func (r *reader) name(at place, node ast.Node) string {
	s, ok := r.text(at, node)
	if ok && s == "" {
		r.fault(at, "%s is empty", at.name)
	}
	return s
}

func (r *reader) list(at place, node ast.Node) []ast.Node {
	node = r.plain(at, node)
	if node == nil {
		return nil
	}
	s, ok := node.(*ast.SequenceNode)
	if !ok {
		example := "[…]"
		if text, ok := node.(*ast.StringNode); ok && at.name == "command" {
			example = `[sh, -c, ` + quote(text.Value) + `]`
		}
		r.fault(at, "%s must be a list, not %s; write %s: %s", at.name, describe(node), at.name, example)
		return nil
	}
	for i, v := range s.Values {
		r.at[at.item(i).path] = positionOf(v)
	}
	return s.Values
}

func (r *reader) texts(at place, node ast.Node) []string {
	var out []string
	for i, item := range r.list(at, node) {
		s, ok := r.text(at.item(i), item)
		if !ok {
			r.bad[at.path] = true
		}
		out = append(out, s)
	}
	return out
}

func (r *reader) textMap(at place, node ast.Node) map[string]string {
	out := map[string]string{}
	r.eachKey(at, node, func(name string, _ position, value ast.Node) {
		here := at.key(name)
		here.name = at.name + " " + name
		if s, ok := r.text(here, value); ok {
			out[name] = s
		}
	})
	return out
}

// whole reads a whole number, written in plain digits and without quotes.
func (r *reader) whole(at place, node ast.Node) int32 {
	s, ok := r.text(at, node)
	if !ok {
		return 0
	}
	unsigned := strings.TrimPrefix(s, "-")
	digits := unsigned != "" && only(unsigned, isDigit) && (unsigned == "0" || unsigned[0] != '0')
	if n, is := node.(*ast.StringNode); is && digits && n.Token.Type != token.StringType {
		r.fault(at, "%s %q is text; did you mean %s, without quotes?", at.name, s, s)
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case digits && err != nil:
		r.fault(at, "%s %s is out of range", at.name, s)
		return 0
	case digits:
		return int32(n)
	}
	shown := quote(s)
	if _, is := node.(*ast.StringNode); !is {
		shown = s
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > 0 && f < 1e6 && strings.Contains(s, ".") {
		if low := int(f); float64(low) == f {
			r.fault(at, "%s %s is not a whole number; did you mean %d?", at.name, shown, low)
		} else {
			r.fault(at, "%s %s is not a whole number; did you mean %d or %d?", at.name, shown, low, low+1)
		}
		return 0
	}
	r.fault(at, "%s %s is not a whole number; write digits, e.g. %s: 3", at.name, shown, at.path[strings.LastIndex(at.path, ".")+1:])
	return 0
}

func (r *reader) precedence(at place, node ast.Node) int32 {
	s, ok := r.text(at, node)
	if !ok {
		return 0
	}
	var names []string
	for _, p := range namedPrecedences() {
		if p.name == s {
			return p.value
		}
		names = append(names, p.name)
	}
	if n, err := strconv.ParseInt(s, 10, 32); err == nil && strconv.FormatInt(n, 10) == s {
		return int32(n)
	}
	r.fault(at, "precedence %s is not a number from 0 to %d and %s", quote(s), MaxPrecedence, oneOf(s, names))
	return 0
}

func (r *reader) milli(at place, node ast.Node) int64 {
	n, _ := quantity(r, at, node, resource.ParseCPU)
	return n
}

// truth reads true or false.
func (r *reader) truth(at place, node ast.Node) bool {
	s, ok := r.text(at, node)
	if b, is := node.(*ast.BoolNode); is {
		return b.Value
	}
	if ok {
		meant := ""
		switch strings.ToLower(s) {
		case "yes", "on", "1", "true":
			meant = "; did you mean true?"
		case "no", "off", "0", "false":
			meant = "; did you mean false?"
		}
		r.fault(at, "%s %s is not true or false%s", at.name, quote(s), meant)
	}
	return false
}

func (r *reader) cpu(at place, node ast.Node) int64 {
	n, ok := quantity(r, at, node, resource.ParseCPU)
	if ok && n == 0 {
		r.fault(at, "cpu is 0; say how much each task needs, e.g. cpu: 100m")
	}
	return n
}

func (r *reader) bytes(at place, node ast.Node) int64 {
	n, _ := quantity(r, at, node, resource.ParseBytes)
	return n
}

// share reads thousandths or, with a unit of bytes, an amount of memory.
func (r *reader) share(at place, node ast.Node, g *ohmv1.GPURequest) {
	s, ok := r.text(at, node)
	if !ok {
		return
	}
	if unit := strings.TrimLeft(s, "0123456789."); len(unit) > 0 && strings.ContainsAny(unit[:1], "KMGTkgt") {
		g.ShareBytes, _ = quantity(r, at, node, resource.ParseBytes)
		return
	}
	g.ShareMilli, _ = quantity(r, at, node, resource.ParseShare)
}

func (r *reader) duration(at place, node ast.Node) *durationpb.Duration {
	d, _ := quantity(r, at, node, parseDuration)
	return d
}

// quantity reads text by parse, whose error does not name the field.
func quantity[T any](r *reader, at place, node ast.Node, parse func(string) (T, error)) (T, bool) {
	var zero T
	s, ok := r.text(at, node)
	if !ok {
		return zero, false
	}
	v, err := parse(s)
	if err != nil {
		r.fault(at, "%s %v", at.name, err)
		return zero, false
	}
	return v, true
}

// firstOperator notes a constraint's operator and refuses a second one.
func (r *reader) firstOperator(at place, c *ohmv1.Constraint, op ohmv1.Operator) bool {
	if c.Op != ohmv1.Operator_OPERATOR_UNSPECIFIED {
		r.faultAt(r.keys[at.path], at.path, "a constraint has exactly one of %s, and this one has %s already", constraint.Names(), constraint.Name(c.Op))
		return false
	}
	c.Op = op
	return true
}

func (r *reader) mustBeTrue(at place, node ast.Node, other string) {
	s, ok := r.text(at, node)
	switch b, is := node.(*ast.BoolNode); {
	case !ok || is && b.Value:
	case is:
		r.fault(at, "%s takes only true; did you mean %s: true?", at.name, other)
	default:
		r.fault(at, "%s %s is not true; write %s: true", at.name, quote(s), at.name)
	}
}
