// Package jobspec turns a job file into the message that the server stores, and
// holds the rule that every job is judged by, whoever sends it.
//
// Parse is for files: strict YAML (JSON is YAML), every independent fault once
// with its line and column. Validate is the same rule without a file, for the
// server; Parse calls it too, so the two cannot differ. Defaults fills in what a
// job leaves out. The table of fields in this package is what Parse reads by and
// what Reference prints.
package jobspec

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/pkg/near"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Parse reads a job file; filename is only for its messages. The error, if there
// is one, is of type Faults, and no job comes with it. The job has its count and
// precedence filled in; the rest is left to Defaults.
func Parse(filename string, data []byte) (*ohmv1.JobSpec, error) {
	f, err := ParseFile(filename, data)
	if err != nil {
		return nil, err
	}
	return f.Job, nil
}

func (r *reader) parse(data []byte) *ohmv1.JobSpec {
	if len(data) > MaxSize {
		r.fault(place{}, "the file has %d bytes, more than the limit of %s", len(data), resource.FormatBytes(MaxSize))
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if json.Valid(data) {
		// In JSON a tab outside of text is just space; YAML is stricter.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	root := r.document(data)
	if root == nil || !r.isJob(root) {
		return nil
	}
	spec := &ohmv1.JobSpec{}
	readMap(r, place{name: "a job file"}, root, jobFields(), spec)
	r.settle(spec)
	for _, p := range Validate(spec) {
		if !r.covered(p.Field) {
			r.faultAt(r.blame(p.Field), p.Field, "%s", p.Message)
		}
	}
	return spec
}

// blame is the position of a problem: the value; in maps of the user's own keys the
// key.
func (r *reader) blame(path string) position {
	if key, ok := r.keys[path]; ok && (strings.Contains(path, ".env.") || strings.HasPrefix(path, "labels.")) {
		return key
	}
	return r.locate(path)
}

// settle judges and fills in what depends on whether a key is there at all, which
// the message cannot tell.
func (r *reader) settle(spec *ohmv1.JobSpec) {
	kindKnown := slices.Contains(Kinds(), spec.Kind)
	for _, only := range r.onlyKind {
		if kindKnown && !allows(only.kinds, spec.Kind) {
			r.faultAt(r.keys[only.at.path], only.at.path, "%s", onlyFor(only.name, only.kinds, spec.Kind))
		}
	}
	if _, given := r.at["precedence"]; !given {
		spec.Precedence = proto.Int32(DefaultPrecedence(spec.Kind)) // for a server that does not know that it may be absent
	}
	r.missing(place{}, "job", "job is missing; every job has a name, e.g. job: hello")
	for i, g := range spec.Groups {
		at := place{"groups", "groups"}.item(i)
		if !r.given(at, "count") && spec.Kind != "system" {
			g.Count = 1
		}
		r.missing(at, "name", "name is missing; every group has one, e.g. name: main")
		r.missing(at, "memory", "memory is missing; say how much each task needs, e.g. memory: 64Mi")
		for k := range g.Containers {
			r.missing(at.key("containers").item(k), "name", "name is missing; every container has one, e.g. name: main")
		}
	}
}

func (r *reader) given(at place, key string) bool {
	_, ok := r.keys[at.key(key).path]
	return ok
}

func (r *reader) missing(at place, key, message string) {
	here := at.key(key)
	if r.given(at, key) || r.excused[key] || r.bad[at.path] || r.bad[here.path] {
		return
	}
	r.fault(here, "%s", message)
}

// isJob tells a job file from any other kind of file, which gets one message
// instead of one for each key.
func (r *reader) isJob(root ast.Node) bool {
	m, ok := root.(*ast.MappingNode)
	if !ok {
		r.faultAt(positionOf(root), "", "this does not look like a job file: it is %s, not a map with the key \"job\"", describe(root))
		return false
	}
	var names []string
	known := 0
	for _, entry := range m.Values {
		name, _ := keyText(entry.Key)
		for _, f := range jobFields() {
			if f.name == name {
				known++
			}
		}
		if near.Of(name, []string{"job", "groups"}) != "" || known > 1 {
			return true
		}
		names = append(names, quote(name))
	}
	if len(names) == 0 {
		r.faultAt(positionOf(root), "", "this does not look like a job file: it is an empty map, without the key \"job\"")
		return false
	}
	message := "this does not look like a job file: no key \"job\""
	for _, name := range names {
		plain := strings.NewReplacer("-", "", "_", "", `"`, "").Replace(strings.ToLower(name))
		if slices.Contains([]string{"datadir", "address", "etcd", "embeddedetcd", "tokenfile", "server", "agent", "node", "driver", "schedulers", "policy"}, plain) {
			message += "; with " + name + " it looks like a configuration of ohm server, scheduler or agent"
			break
		}
	}
	if len(names) > 5 {
		names = append(names[:5], "…")
	}
	r.faultAt(positionOf(root), "", "%s; its keys are %s", message, strings.Join(names, ", "))
	return false
}
