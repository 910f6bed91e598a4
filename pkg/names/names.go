// Package names holds the rules for what people may name: one for names, one for the
// keys of labels and attributes, one for the values of labels.
package names

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits, in bytes.
const (
	MaxName  = 63
	MaxKey   = 63
	MaxValue = 256
)

// maxQuoted is how many characters of a wrong name a message quotes.
const maxQuoted = 60

// Check holds a name against the one rule for jobs, groups, namespaces, schedulers and
// their instances, and nodes: a DNS label (RFC 1123), so that it can stand in keys, paths
// and host names as it is. what names it in the error ("job name").
func Check(what, name string) error {
	const rule = `use 1 to 63 lower-case letters, digits and "-", with a letter or digit at both ends`
	inner := func(c byte) bool { return isLower(c) || isDigit(c) || c == '-' }
	switch {
	case name == "":
		return errors.New(what + " is empty; " + rule)
	case len(name) > MaxName:
		return fmt.Errorf("%s %s is %d characters long; %s", what, quote(name), utf8.RuneCountInString(name), rule)
	case !only(name, inner) || name[0] == '-' || name[len(name)-1] == '-':
		return fmt.Errorf("%s %s is not allowed; %s", what, quote(name), rule)
	}
	return nil
}

// CheckKey is the rule for the keys of labels and attributes.
func CheckKey(what, key string) error {
	outer := func(c byte) bool { return isLower(c) || c >= 'A' && c <= 'Z' || isDigit(c) }
	inner := func(c byte) bool { return outer(c) || strings.IndexByte("-_./", c) >= 0 }
	if key == "" || len(key) > MaxKey || !only(key, inner) || !outer(key[0]) || !outer(key[len(key)-1]) {
		return fmt.Errorf(`%s %s is not allowed; use 1 to 63 letters, digits and "-_./", with a letter or digit at both ends`, what, quote(key))
	}
	return nil
}

// CheckValue is the rule for the value of the label with that key.
func CheckValue(what, key, value string) error {
	if len(value) > MaxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s %s: its value must be at most %d bytes of printable text", what, quote(key), MaxValue)
	}
	return nil
}

// Label makes the nearest DNS label of a host's name: lower case, up to the first dot,
// letters, digits and hyphens, at most 63 of them; "" if nothing of it can stand.
func Label(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	clean := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (isLower(byte(r)) || isDigit(byte(r))) {
			return r
		}
		return '-'
	}, host)
	return strings.Trim(clean[:min(len(clean), MaxName)], "-")
}

// only reports whether every byte of s is of a class.
func only(s string, class func(c byte) bool) bool {
	for i := 0; i < len(s); i++ {
		if !class(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

// quote keeps a message short whatever was written.
func quote(s string) string {
	if r := []rune(s); len(r) > maxQuoted {
		return fmt.Sprintf("%q…", string(r[:maxQuoted]))
	}
	return fmt.Sprintf("%q", s)
}
