package constraint

import (
	"strings"
	"testing"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestHolds(t *testing.T) {
	for _, row := range []struct {
		op     ohmv1.Operator
		values string
		yes    string // values of a node, by comma; - is a node without one
		no     string
	}{
		{ohmv1.Operator_OPERATOR_IN, "a|b", "a,b", "c,-"},
		{ohmv1.Operator_OPERATOR_NOT_IN, "a|b", "c,-", "a,b"},
		{ohmv1.Operator_OPERATOR_EXISTS, "", "a", "-"},
		{ohmv1.Operator_OPERATOR_ABSENT, "", "-", "a"},
		{ohmv1.Operator_OPERATOR_LT, "64", "63,0,-1,63.999,9", "64,64.0,100,-,many,6e1,0x1,1/2"},
		{ohmv1.Operator_OPERATOR_GT, "64", "65,64.001,100000000000000000000", "64,9,-,v65"},
		{ohmv1.Operator_OPERATOR_GT, "9007199254740992", "9007199254740993", "9007199254740992"}, // beyond a float's precision
		{ohmv1.Operator_OPERATOR_VERSION, ">= 1.2; < 2", "1.2,1.2.0,v1.10,1.999.9-alpine", "1.1.9,1.2-rc1,2,2.0.0,10,-,latest"},
		{ohmv1.Operator_OPERATOR_VERSION, ">= 5.10", "5.10.0-21-amd64,6.1,5.15.0-91-generic", "5.4.0-150-generic,4.19"},
		{ohmv1.Operator_OPERATOR_VERSION, "1.2", "1.2,1.2.0.0,1.2+build", "1.2.1,1.2-beta"},
		{ohmv1.Operator_OPERATOR_VERSION, "!= 1.2", "1.3,1.2-rc.1", "1.2"},
		{ohmv1.Operator_OPERATOR_VERSION, "> 1.0-rc.2; <= 1.0", "1.0-rc.10,1.0", "1.0-rc.2,1.0-rc.1,1.0-beta,1.0.1"},
		{99, "a", "", "a,-"},
	} {
		c := &ohmv1.Constraint{Key: "k", Op: row.op}
		if row.values != "" {
			c.Values = strings.Split(strings.ReplaceAll(row.values, ";", ","), "|")
		}
		for _, want := range []bool{true, false} {
			values := row.no
			if want {
				values = row.yes
			}
			for _, v := range strings.Split(values, ",") {
				if v != "" && Holds(c, v, v != "-") != want {
					t.Errorf("%s on %q: %v", Text(c), v, !want)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for _, row := range []struct {
		op     ohmv1.Operator
		values []string
		want   string // in the message; empty: nothing is wrong
	}{
		{ohmv1.Operator_OPERATOR_IN, []string{"a"}, ""},
		{ohmv1.Operator_OPERATOR_IN, nil, "in has no values"},
		{ohmv1.Operator_OPERATOR_EXISTS, []string{"a"}, "exists takes no values"},
		{ohmv1.Operator_OPERATOR_LT, []string{"1.5"}, ""},
		{ohmv1.Operator_OPERATOR_LT, []string{"8Gi"}, `lt "8Gi" is not a number`},
		{ohmv1.Operator_OPERATOR_GT, nil, "gt takes one value"},
		{ohmv1.Operator_OPERATOR_GT, []string{strings.Repeat("9", 41)}, "is not a number"},
		{ohmv1.Operator_OPERATOR_VERSION, []string{">= 1.2, < 2"}, ""},
		{ohmv1.Operator_OPERATOR_VERSION, []string{"~> 1.2"}, "is not a list of bounds"},
		{ohmv1.Operator_OPERATOR_VERSION, []string{"=> 1.2"}, `"=>" is not one of`},
		{ohmv1.Operator_OPERATOR_VERSION, []string{">= 1.2,"}, "is not a list of bounds"},
		{ohmv1.Operator_OPERATOR_VERSION, []string{"latest"}, "is not a list of bounds"},
		{ohmv1.Operator_OPERATOR_UNSPECIFIED, nil, "no operator"},
		{99, []string{"a"}, "no operator"},
	} {
		got := Check(&ohmv1.Constraint{Op: row.op, Values: row.values})
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%v %v: %q, want %q", row.op, row.values, got, row.want)
		}
	}
}
