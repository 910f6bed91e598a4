package ohmjson

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestYAML(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b":1,"a":"x"}`, "b: 1\na: x\n"},
		{`[]`, "[]\n"},
		{`{}`, "{}\n"},
		{`7`, "7\n"},
		{`{"a":[],"b":{},"c":[1,"two"],"d":{"e":{"f":true}}}`, "a: []\nb: {}\nc:\n  - 1\n  - two\nd:\n  e:\n    f: true\n"},
		{`[{"a":1,"b":[{"c":2},{"d":3,"e":4}]},{"f":null}]`, "- a: 1\n  b:\n    - c: 2\n    - d: 3\n      e: 4\n- f: null\n"},
		{`[[1,2],[[3]]]`, "- - 1\n  - 2\n- - - 3\n"},
		{`{"n":9223372036854775807,"s":"12","y":"yes","k":"a: b","e":"","l":"x\\ny","c":"\\u001b"}`,
			"\"n\": 9223372036854775807\ns: \"12\"\n\"y\": \"yes\"\nk: \"a: b\"\ne: \"\"\nl: \"x\\ny\"\nc: \"\\u001b\"\n"},
	} {
		got, err := YAML([]byte(strings.ReplaceAll(c.in, "\\\\", "\\")))
		if err != nil || string(got) != strings.ReplaceAll(c.want, "\\\\", "\\") {
			t.Errorf("%s: %v\ngot  %q\nwant %q", c.in, err, got, c.want)
		}
	}
	for _, bad := range []string{``, `{`, `[1`, `{"a":1} 2`, `{"a"`} {
		if got, err := YAML([]byte(bad)); err == nil {
			t.Errorf("%s: got %q, want an error", bad, got)
		}
	}
}

// Whatever the JSON holds, a YAML reader gets the same from the YAML.
func TestYAMLReadsBack(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-?:,\[\]{}#&*!|>'"%@~0-9a-e. ]{0,6}`))
	var values func(depth int) *rapid.Generator[any]
	values = func(depth int) *rapid.Generator[any] {
		kinds := []*rapid.Generator[any]{texts.AsAny(), rapid.Bool().AsAny(), rapid.Int32().AsAny(), rapid.Just[any](nil)}
		if depth > 0 {
			kinds = append(kinds, rapid.SliceOfN(values(depth-1), 0, 3).AsAny(), rapid.MapOfN(texts, values(depth-1), 0, 3).AsAny())
		}
		return rapid.OneOf(kinds...)
	}
	rapid.Check(t, func(t *rapid.T) {
		data, err := json.Marshal(values(3).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := YAML(data)
		if err != nil {
			t.Fatal(err)
		}
		var want, read, got any
		if err := yaml.Unmarshal(text, &read); err != nil {
			t.Fatalf("%s\n%s: %v", data, text, err)
		}
		back, err := json.Marshal(read) // so that both sides have JSON's types
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(back, &got); err != nil {
			t.Fatalf("%s: %v", back, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n%s\n%s", data, text, diff)
		}
	})
}
