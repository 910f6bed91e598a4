package jobspec

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/ohmcell/ohm/pkg/near"
)

// position is where something stands in the file, both from 1.
type position struct{ line, column int }

// place is a value of the file: its path, as Problem.Field writes it, and the last
// key of that path, which messages name it by.
type place struct{ path, name string }

func (p place) key(name string) place {
	label := name
	// Inside a named map a bare "count" or "signal" would not say which.
	if p.name == "gang" || p.name == "stop" || p.name == "gpus" || p.name == "capabilities" || p.name == "spread" || p.name == "whenSilent" || p.name == "disruption" || p.name == "retry" || p.name == "update" || p.name == "after" || p.name == "schedule" {
		label = p.name + "." + name
	}
	if p.path == "" {
		return place{name, label}
	}
	return place{p.path + "." + name, label}
}

func (p place) item(i int) place {
	names := map[string]string{"groups": "a group", "constraints": "a constraint", "containers": "a container", "mounts": "a mount"}
	name, ok := names[p.name]
	if !ok {
		name = p.name
	}
	return place{fmt.Sprintf("%s[%d]", p.path, i), name}
}

// reader walks one file. It notes where each value stands, so that a Problem can
// be given its position, and which values have a fault already, so that no second
// message follows from the first.
type reader struct {
	file     string
	faults   Faults
	at       map[string]position // by path: the value, or the key if it has none
	keys     map[string]position // by path: the key
	bad      map[string]bool     // by path
	excused  map[string]bool     // by last key: given, but in the wrong place
	onlyKind []onlyKind
	sections []section
}

// onlyKind is a key that only some kinds of job have; judged once the kind is read.
type onlyKind struct {
	at    place
	name  string
	kinds string
}

func newReader(file string) *reader {
	return &reader{file: file, at: map[string]position{}, keys: map[string]position{}, bad: map[string]bool{}, excused: map[string]bool{}, sections: sections()}
}

// fault records what is wrong with the value at a place.
func (r *reader) fault(at place, format string, args ...any) {
	r.faultAt(r.locate(at.path), at.path, format, args...)
}

func (r *reader) faultAt(pos position, path, format string, args ...any) {
	r.bad[path] = true
	r.faults = append(r.faults, Fault{r.file, pos.line, pos.column, "error", fmt.Sprintf(format, args...)})
}

// locate finds the value of a path, or else what it would stand in.
func (r *reader) locate(path string) position {
	for {
		if pos, ok := r.at[path]; ok {
			return pos
		}
		if path == "" {
			return position{1, 1}
		}
		path = parent(path)
	}
}

func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

// covered reports whether a fault that was found already explains a problem at
// this path: one at it, above it or below it, or its key in the wrong place.
func (r *reader) covered(path string) bool {
	last := path[strings.LastIndex(path, ".")+1:]
	if _, given := r.keys[path]; r.excused[last] && !given {
		return true
	}
	for bad := range r.bad {
		if bad == path || strings.HasPrefix(bad, path+".") || strings.HasPrefix(bad, path+"[") {
			return true
		}
		// What depends on the number of tasks is not judged while that is unknown.
		if path == "gang.min" && (strings.HasSuffix(bad, "].count") || parent(bad) == "groups" || bad == "groups") {
			return true
		}
	}
	for up := path; up != ""; up = parent(up) {
		if r.bad[up] {
			return true
		}
	}
	return false
}

// readMap reads a map by its table of fields.
func readMap[T any](r *reader, at place, node ast.Node, fields []field[T], into *T) {
	r.eachKey(at, node, func(name string, key position, value ast.Node) {
		for _, f := range fields {
			if f.name != name {
				continue
			}
			here := at.key(name)
			if f.later {
				r.faultAt(key, here.path, "%s is not supported yet", here.name)
				return
			}
			if _, null := value.(*ast.NullNode); null {
				r.faultAt(key, here.path, "%s has no value", here.name)
				return
			}
			if f.kinds != "" {
				r.onlyKind = append(r.onlyKind, onlyKind{here, f.name, f.kinds})
			}
			f.read(r, here, value, into)
			return
		}
		r.unknown(at, name, key, sectionOf("", "", "", fields).rows)
	})
}

// eachKey calls f for every key of a map, and refuses what is no map and keys
// that are given twice.
func (r *reader) eachKey(at place, node ast.Node, f func(name string, key position, value ast.Node)) {
	node = r.plain(at, node)
	if node == nil {
		return
	}
	m, ok := node.(*ast.MappingNode)
	if !ok {
		r.fault(at, "%s must be a map of keys and values, not %s", at.name, describe(node))
		return
	}
	first := map[string]int{}
	for _, entry := range m.Values {
		key := positionOf(entry.Key)
		name, ok := keyText(entry.Key)
		if !ok {
			r.faultAt(key, at.key("?").path, "this key is not plain text; merge keys and complex keys are not supported")
			continue
		}
		here := at.key(name)
		if line, twice := first[name]; twice {
			r.faultAt(key, here.path, "duplicate key %s; it stands on line %d already", quote(name), line)
			continue
		}
		first[name] = key.line
		r.keys[here.path], r.at[here.path] = key, positionOf(entry.Value)
		if _, null := entry.Value.(*ast.NullNode); null {
			r.at[here.path] = key
		}
		f(name, key, entry.Value)
	}
}

// unknown refuses a key that the map does not have, and says what was meant.
func (r *reader) unknown(at place, name string, key position, rows []row) {
	here := at.key(name)
	if name == "resources" {
		r.excused["cpu"], r.excused["memory"] = true, true
		r.faultAt(key, here.path, `unknown key "resources"; write cpu, memory, disk and gpus directly in a group`)
		return
	}
	if here.path == "gang.max" {
		r.faultAt(key, here.path, `unknown key "max"; the most are the counts of the groups, and the fewest gang.min or min of a group`)
		return
	}
	var names []string
	meant := ""
	for _, row := range rows {
		if row.later {
			continue
		}
		names = append(names, row.name)
		for _, other := range row.aka {
			if strings.EqualFold(other, name) {
				meant = row.name
			}
		}
	}
	if meant == "" && r.elsewhere(here.path, name, key) {
		return
	}
	if meant == "" {
		meant = near.Of(name, names)
	}
	for _, row := range rows {
		if meant == "" && near.Of(name, row.aka) != "" {
			meant = row.name
		}
	}
	if meant == "" {
		r.faultAt(key, here.path, "unknown key %s; the keys here are %s", quote(name), strings.Join(names, ", "))
		return
	}
	r.bad[at.key(meant).path] = true
	r.faultAt(key, here.path, "unknown key %s; did you mean %q?", quote(name), meant)
}

// elsewhere refuses a key that another map of the file has.
func (r *reader) elsewhere(path, name string, key position) bool {
	for _, s := range r.sections {
		for _, other := range s.rows {
			if other.name != name {
				continue
			}
			if other.later {
				r.faultAt(key, path, "%s is not supported yet", name)
				return true
			}
			r.excused[name] = true
			r.faultAt(key, path, "unknown key %s; it belongs in %s", quote(name), s.name)
			return true
		}
	}
	return false
}

// plain refuses what makes a file say something else than it shows.
func (r *reader) plain(at place, node ast.Node) ast.Node {
	r.at[at.path] = positionOf(node)
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		r.fault(at, "anchors and aliases are not supported; write the value out")
		return nil
	case *ast.TagNode:
		r.fault(at, "tags such as !!str are not supported; write the value without")
		return nil
	}
	return node
}

func keyText(key ast.MapKeyNode) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return key.GetToken().Value, true
	}
	return "", false
}

// positionOf is where a node begins. A block map's own token is its first colon.
func positionOf(node ast.Node) position {
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return positionOf(m.Values[0].Key)
	}
	if node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return position{1, 1}
	}
	p := node.GetToken().Position
	return position{max(1, p.Line), max(1, p.Column)}
}

func describe(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	}
	return "text"
}
