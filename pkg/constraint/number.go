package constraint

import (
	"math/big"
	"strings"
)

// compareNumbers compares two decimal numbers exactly; not ok if one is none.
func compareNumbers(a, b string) (order int, ok bool) {
	x, isX := parseNumber(a)
	y, isY := parseNumber(b)
	if !isX || !isY {
		return 0, false
	}
	return x.Cmp(y), true
}

// maxDigits bounds a number: nobody counts further, and exact arithmetic stays cheap.
const maxDigits = 40

// parseNumber reads a decimal number such as 64, -1 or 2.50: no exponent, no unit.
func parseNumber(s string) (*big.Rat, bool) {
	digits := strings.TrimPrefix(s, "-")
	whole, part, point := strings.Cut(digits, ".")
	if len(digits) > maxDigits || !allDigits(whole) || point && !allDigits(part) {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
