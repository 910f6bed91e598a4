package resource

import (
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

const bytesForm = "write a number and a unit, such as 512Mi, 1.5Gi or 2G"

type unit struct {
	name string
	size int64
}

// The units, each list from the smallest. Sizes follow IEC 80000-13.
func binaryUnits() []unit {
	return []unit{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}}
}

func decimalUnits() []unit {
	return []unit{{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}}
}

// ParseBytes reads an amount of bytes with one of the units Ki Mi Gi Ti k M G T.
// A decimal such as `1.2Gi` is rounded half up to whole bytes, once. A number
// without a unit is refused, except 0; so is anything below a byte.
func ParseBytes(s string) (int64, error) {
	if n, ok := tryBytes(s); ok {
		return n, nil
	}
	n, name, ok := split(s)
	switch {
	case !ok:
		return 0, untidyBytes(s)
	case name == "":
		return 0, noUnit(s, n)
	case unitSize(name) == 0:
		return 0, badUnit(s, n, s[:len(s)-len(name)], name)
	case below(n, 1):
		return 0, refuse(s, "is less than a byte", isBytes, bytesForm, "1"+name)
	}
	return 0, tooMuch(s, FormatBytes(MaxBytes))
}

// tryBytes is the whole rule; ParseBytes adds the explanations.
func tryBytes(s string) (int64, bool) {
	n, name, ok := split(s)
	if !ok {
		return 0, false
	}
	zero := n.digits.Sign() == 0
	if name == "" {
		return 0, zero
	}
	size := unitSize(name)
	whole, _ := n.times(size)
	if size == 0 || whole.Cmp(big.NewInt(MaxBytes)) > 0 || whole.Sign() == 0 && !zero {
		return 0, false
	}
	return whole.Int64(), true
}

func isBytes(s string) bool { _, ok := tryBytes(s); return ok }

// unitSize is 0 for a unit that there is not.
func unitSize(name string) int64 {
	for _, u := range append(binaryUnits(), decimalUnits()...) {
		if u.name == name {
			return u.size
		}
	}
	return 0
}

// untidyBytes explains text that is no number with a unit at all.
func untidyBytes(s string) error {
	wrong, tidy := untidy(s)
	n, name, ok := split(tidy)
	switch {
	case !ok || name != "":
		if _, exp, is := exponent(s); is && exp > 0 {
			return tooMuch(s, FormatBytes(MaxBytes))
		}
		return refuse(s, wrong, isBytes, bytesForm, tidy)
	case wrong == "is written with an exponent" && below(n, 1):
		// 1e-3 is a thousandth: whoever writes that means what 1m means elsewhere.
		value := s[:strings.IndexAny(s, "eE")]
		return refuse(s, "is less than a byte", isBytes, bytesForm, value+"M", value+"Mi")
	case wrong == "is written with an exponent":
		if whole, exact := n.times(1); exact && whole.Cmp(big.NewInt(MaxBytes)) > 0 {
			return tooMuch(s, FormatBytes(MaxBytes))
		} else if exact {
			return refuse(s, wrong, isBytes, bytesForm, FormatBytes(whole.Int64()))
		}
	}
	if isBytes(tidy) {
		return refuse(s, wrong, isBytes, bytesForm, tidy)
	}
	if _, exact := n.times(1); !exact {
		return refuse(s, wrong+" and has no unit", isBytes, bytesForm, tidy+"G", tidy+"Gi")
	}
	return refuse(s, wrong+" and has no unit", isBytes, bytesForm, tidy+"M", tidy+"Mi")
}

// noUnit guesses what a bare number means: a fraction is of a giga, a small whole
// number counts megas, a large one bytes.
func noUnit(s string, n number) error {
	whole, exact := n.times(1)
	switch {
	case below(n, 1):
		return refuse(s, "is less than a byte", isBytes, bytesForm, s+"G", s+"Gi")
	case !exact:
		return refuse(s, "has no unit", isBytes, bytesForm, s+"G", s+"Gi")
	case whole.Cmp(big.NewInt(MaxBytes)) > 0:
		return tooMuch(s, FormatBytes(MaxBytes))
	case below(n, 1_000_000):
		return refuse(s, "has no unit", isBytes, bytesForm, s+"M", s+"Mi")
	}
	return refuse(s, "has no unit", isBytes, bytesForm, FormatBytes(whole.Int64()))
}

func badUnit(s string, n number, value, name string) error {
	if name == "m" {
		if below(n, 1000) {
			return refuse(s, "is less than a byte", isBytes, bytesForm, value+"M", value+"Mi")
		}
		return refuse(s, "counts thousandths of a byte", isBytes, bytesForm, value+"M", value+"Mi")
	}
	wrong := fmt.Sprintf("has an unknown unit %q", name)
	lower := strings.ToLower(name)
	short := strings.TrimSuffix(lower, "b")
	for i, u := range decimalUnits() {
		binary := binaryUnits()[i].name
		switch short {
		case strings.ToLower(binary):
			return refuse(s, wrong, isBytes, bytesForm, value+binary)
		case strings.ToLower(u.name):
			return refuse(s, wrong, isBytes, bytesForm, value+u.name, value+binary)
		}
	}
	return refuse(s, wrong, isBytes, bytesForm)
}

func below(n number, limit int64) bool {
	return n.digits.Cmp(new(big.Int).Mul(big.NewInt(limit), pow10(n.scale))) < 0
}

// FormatBytes prints bytes in the shortest form that ParseBytes reads back
// exactly: `1.2Gi`, `512Mi`, `2G`, and `0.5Ki` for 512. A sum that no unit suits
// comes out with more digits (`1.234567M`), never rounded. Of two forms of one
// length the one of the larger unit wins.
func FormatBytes(n int64) string {
	switch {
	case n == 0:
		return "0"
	case n < 0:
		return "-" + formatBytes(uint64(-(n+1))+1)
	}
	return formatBytes(uint64(n))
}

func formatBytes(n uint64) string {
	binary, decimal := shortest(n, binaryUnits()), shortest(n, decimalUnits())
	// Every whole number of bytes is at most three decimals of a k, so the decimal
	// form always exists.
	if binary == "" || len(decimal) < len(binary) || len(decimal) == len(binary) && decimals(decimal) < decimals(binary) {
		return decimal
	}
	return binary
}

func decimals(s string) int {
	_, frac, _ := strings.Cut(s, ".")
	return digits(frac)
}

// shortest returns the shortest form of n in one of the units, "" if there is none.
func shortest(n uint64, units []unit) string {
	best := ""
	for i, u := range units {
		if i > 0 && uint64(u.size) > n {
			break
		}
		if s := inUnit(n, u); s != "" && (best == "" || len(s) <= len(best)) {
			best = s
		}
	}
	return best
}

// inUnit returns n in unit u with as few decimals as read back exactly.
func inUnit(n uint64, u unit) string {
	pow := uint64(1)
	for places := 0; places <= 12; places++ {
		value, ok := mulDiv(n, pow, uint64(u.size))
		if !ok {
			return ""
		}
		if back, ok := mulDiv(value, uint64(u.size), pow); ok && back == n {
			if places == 0 {
				return strconv.FormatUint(value, 10) + u.name
			}
			return fmt.Sprintf("%d.%0*d%s", value/pow, places, value%pow, u.name)
		}
		pow *= 10
	}
	return ""
}

// mulDiv returns a × b ÷ c, rounded half up; false if it does not fit.
func mulDiv(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, c/2, 0)
	hi += carry
	if hi >= c {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, c)
	return q, true
}
