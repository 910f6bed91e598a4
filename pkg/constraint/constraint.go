// Package constraint says what a condition on one label or attribute of a node means:
// whether a value satisfies it, whether it is well-formed, and how people read it.
package constraint

import (
	"fmt"
	"slices"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Holds says whether a node satisfies a constraint on a key of which it has the value v,
// or, with has false, none. A comparison (lt, gt, version) holds only of a value that can be
// compared: a node without one, or with text where a number is asked for, does not satisfy it.
func Holds(c *ohmv1.Constraint, v string, has bool) bool {
	switch c.GetOp() {
	case ohmv1.Operator_OPERATOR_IN:
		return has && slices.Contains(c.GetValues(), v)
	case ohmv1.Operator_OPERATOR_NOT_IN:
		return !has || !slices.Contains(c.GetValues(), v)
	case ohmv1.Operator_OPERATOR_EXISTS:
		return has
	case ohmv1.Operator_OPERATOR_ABSENT:
		return !has
	case ohmv1.Operator_OPERATOR_LT:
		order, ok := compareNumbers(v, only(c))
		return has && ok && order < 0
	case ohmv1.Operator_OPERATOR_GT:
		order, ok := compareNumbers(v, only(c))
		return has && ok && order > 0
	case ohmv1.Operator_OPERATOR_VERSION:
		wanted, err := parseRange(only(c))
		is, ok := parseVersion(v)
		return has && ok && err == nil && wanted.holds(is)
	}
	return false // of a later release: better no node than a wrong one
}

// Check says what is wrong with the values of a constraint; empty if nothing is. It does
// not judge the key.
func Check(c *ohmv1.Constraint) string {
	name := Name(c.GetOp())
	switch c.GetOp() {
	case ohmv1.Operator_OPERATOR_IN, ohmv1.Operator_OPERATOR_NOT_IN:
		if len(c.GetValues()) == 0 {
			return name + " has no values"
		}
		return ""
	case ohmv1.Operator_OPERATOR_EXISTS, ohmv1.Operator_OPERATOR_ABSENT:
		if len(c.GetValues()) > 0 {
			return name + " takes no values"
		}
		return ""
	case ohmv1.Operator_OPERATOR_LT, ohmv1.Operator_OPERATOR_GT, ohmv1.Operator_OPERATOR_VERSION:
	default: // or one of a later release
		return "the constraint has no operator; it takes one of " + Names()
	}
	if len(c.GetValues()) != 1 {
		return fmt.Sprintf("%s takes one value", name)
	}
	if c.GetOp() != ohmv1.Operator_OPERATOR_VERSION {
		if _, ok := parseNumber(only(c)); !ok {
			return fmt.Sprintf("%s %q is not a number; write plain digits, e.g. %s: 64", name, only(c), name)
		}
	} else if _, err := parseRange(only(c)); err != nil {
		return fmt.Sprintf("version %v", err)
	}
	return ""
}

func only(c *ohmv1.Constraint) string {
	if len(c.GetValues()) != 1 {
		return ""
	}
	return c.GetValues()[0]
}

// Name is the operator as a job file has it; empty: it is of a later release.
func Name(op ohmv1.Operator) string {
	switch op {
	case ohmv1.Operator_OPERATOR_IN:
		return "in"
	case ohmv1.Operator_OPERATOR_NOT_IN:
		return "notIn"
	case ohmv1.Operator_OPERATOR_EXISTS:
		return "exists"
	case ohmv1.Operator_OPERATOR_ABSENT:
		return "absent"
	case ohmv1.Operator_OPERATOR_LT:
		return "lt"
	case ohmv1.Operator_OPERATOR_GT:
		return "gt"
	case ohmv1.Operator_OPERATOR_VERSION:
		return "version"
	}
	return ""
}

// Names are those of all operators, for messages.
func Names() string { return "in, notIn, exists, absent, lt, gt, version" }

// Text is a constraint as people would say it: "zone in [a b]".
func Text(c *ohmv1.Constraint) string {
	text := c.GetKey()
	switch c.GetOp() {
	case ohmv1.Operator_OPERATOR_IN:
		text += fmt.Sprintf(" in [%s]", strings.Join(c.GetValues(), " "))
	case ohmv1.Operator_OPERATOR_NOT_IN:
		text += fmt.Sprintf(" not in [%s]", strings.Join(c.GetValues(), " "))
	case ohmv1.Operator_OPERATOR_EXISTS:
		text += " exists"
	case ohmv1.Operator_OPERATOR_ABSENT:
		text += " absent"
	case ohmv1.Operator_OPERATOR_LT:
		text += " < " + only(c)
	case ohmv1.Operator_OPERATOR_GT:
		text += " > " + only(c)
	case ohmv1.Operator_OPERATOR_VERSION:
		text += " version " + only(c)
	default:
		text += " under an operator that this release does not know"
	}
	if c.GetAlways() {
		text += ", always"
	}
	return text
}
