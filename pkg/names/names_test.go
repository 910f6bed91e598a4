package names

import (
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	name := func(s string) error { return Check("job name", s) }
	key := func(s string) error { return CheckKey("label", s) }
	value := func(s string) error { return CheckValue("label", "zone", s) }
	const (
		nameRule = `use 1 to 63 lower-case letters, digits and "-", with a letter or digit at both ends`
		keyRule  = `use 1 to 63 letters, digits and "-_./", with a letter or digit at both ends`
		valRule  = `label "zone": its value must be at most 256 bytes of printable text`
	)
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		check func(string) error
		s     string
		want  string // "": allowed
	}{
		{name, "a", ""}, {name, "web-1", ""}, {name, "0", ""}, {name, long[:63], ""},
		{name, "", "job name is empty; " + nameRule},
		{name, long, `job name "` + long[:60] + `"… is 64 characters long; ` + nameRule},
		{name, "-a", `job name "-a" is not allowed; ` + nameRule},
		{name, "a-", `job name "a-" is not allowed; ` + nameRule},
		{name, "A", `job name "A" is not allowed; ` + nameRule},
		{name, "a.b", `job name "a.b" is not allowed; ` + nameRule},
		{name, "ä", `job name "ä" is not allowed; ` + nameRule},

		{key, "zone", ""}, {key, "Example.org/Rack_1-b", ""},
		{key, "", `label "" is not allowed; ` + keyRule},
		{key, "/a", `label "/a" is not allowed; ` + keyRule},
		{key, "a b", `label "a b" is not allowed; ` + keyRule},
		{key, long, `label "` + long[:60] + `"… is not allowed; ` + keyRule},

		{value, "", ""}, {value, "rack 7 é", ""}, {value, strings.Repeat("v", 256), ""},
		{value, "a\nb", valRule}, {value, "\xff", valRule}, {value, strings.Repeat("v", 257), valRule},
	} {
		got := ""
		if err := c.check(c.s); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.s, got, c.want)
		}
	}
}

func TestLabel(t *testing.T) {
	for host, want := range map[string]string{
		"n1": "n1", "Web_1.example.org": "web-1", "-x-": "x", "": "", "...": "", "äb": "b", "ſx": "x",
		strings.Repeat("a", 70): strings.Repeat("a", 63),
	} {
		got := Label(host)
		if got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
		if got != "" && Check("node name", got) != nil {
			t.Errorf("%q makes %q, which is no name", host, got)
		}
	}
}
