package constraint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// version is a version of some software: 1.2, v5.10.0-21-amd64, 2.0.0-rc.1+build7. Its
// numbers count, one after the other, those left out as 0. Of what follows them only one
// thing matters: a pre-release (alpha, beta, dev, pre, preview, rc) comes before the same
// numbers without it. Anything else, as in the versions of kernels and images, is ignored.
type version struct {
	numbers []string // without leading zeros: compared by length, then as text
	before  []string // of a pre-release: its parts
}

func parseVersion(s string) (version, bool) {
	s = strings.TrimPrefix(s, "v")
	s, _, _ = strings.Cut(s, "+")
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(s)
	}
	var v version
	for n := range strings.SplitSeq(strings.TrimRight(s[:end], "."), ".") {
		if n == "" {
			return version{}, false
		}
		v.numbers = append(v.numbers, strings.TrimLeft(n, "0"))
	}
	for len(v.numbers) > 0 && v.numbers[len(v.numbers)-1] == "" { // 1.2.0 is 1.2
		v.numbers = v.numbers[:len(v.numbers)-1]
	}
	rest := strings.TrimLeft(s[end:], "-_~.")
	for _, word := range []string{"alpha", "beta", "dev", "pre", "preview", "rc"} {
		if after, is := strings.CutPrefix(strings.ToLower(rest), word); is && strings.IndexAny(after, "abcdefghijklmnopqrstuvwxyz") != 0 {
			v.before = slices.DeleteFunc(strings.FieldsFunc(word+" "+after, func(r rune) bool { return strings.ContainsRune(" .-_", r) }), func(p string) bool { return p == "" })
		}
	}
	return v, true
}

// compare orders two versions.
func (v version) compare(o version) int {
	if c := compareParts(v.numbers, o.numbers, true); c != 0 {
		return c
	}
	switch {
	case v.before == nil && o.before == nil:
		return 0
	case v.before == nil:
		return 1
	case o.before == nil:
		return -1
	}
	return compareParts(v.before, o.before, false)
}

func compareParts(a, b []string, zeros bool) int {
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if allDigits(x) && allDigits(y) || zeros {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if c := cmp.Compare(len(x), len(y)); c != 0 {
				return c
			}
		}
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// versionRange is what a version must satisfy: all of its bounds.
type versionRange []bound

type bound struct {
	op string
	of version
}

// parseRange reads ">= 1.2, < 2": bounds that must all hold, each an operator (=, !=, <,
// <=, >, >=; none is =) and a version.
func parseRange(s string) (versionRange, error) {
	var r versionRange
	for part := range strings.SplitSeq(s, ",") {
		text := strings.TrimSpace(part)
		op := text[:len(text)-len(strings.TrimLeft(text, "<>=!"))]
		if !slices.Contains([]string{"", "=", "!=", "<", "<=", ">", ">="}, op) {
			return nil, fmt.Errorf("%q: %q is not one of =, !=, <, <=, >, >=", s, op)
		}
		of, ok := parseVersion(strings.TrimSpace(text[len(op):]))
		if !ok {
			return nil, fmt.Errorf("%q is not a list of bounds; write e.g. version: \">= 1.2, < 2\"", s)
		}
		r = append(r, bound{op, of})
	}
	return r, nil
}

func (r versionRange) holds(v version) bool {
	return !slices.ContainsFunc(r, func(b bound) bool {
		c := v.compare(b.of)
		switch b.op {
		case "<":
			return c >= 0
		case "<=":
			return c > 0
		case ">":
			return c <= 0
		case ">=":
			return c < 0
		case "!=":
			return c == 0
		}
		return c != 0
	})
}
