// Package resource reads and prints the quantities of a job file and of a node:
// CPU in thousandths of a core, bytes, and shares of one GPU.
//
// All of it is integer arithmetic. A quantity is rounded at most once, when it is
// read; sums and differences are exact from there on, and what is printed here
// reads back as the same integer. An error says what is wrong with the text and
// names the nearest text that would have been right; it does not name the field,
// which its caller knows.
package resource

import (
	"fmt"
	"math/big"
	"strings"
)

// Largest quantities of one task or node. Sums over thousands of them stay far
// below the range of int64.
const (
	MaxCPU   int64 = 1_000_000_000 // milli: a million cores
	MaxBytes int64 = 1 << 50       // 1024Ti
	MaxShare int32 = 1000          // milli: a whole GPU
)

// maxText bounds the text of a quantity; no sensible one is longer.
const maxText = 40

// number is a decimal: digits × 10^-scale.
type number struct {
	digits *big.Int
	scale  int
}

// split reads "12.5Mi" as 12.5 and "Mi". It accepts one form only: no sign, no
// exponent, no leading zeros, digits on both sides of the point.
func split(s string) (n number, unit string, ok bool) {
	if len(s) > maxText {
		return n, "", false
	}
	i := digits(s)
	if i == 0 || (i > 1 && s[0] == '0') {
		return n, "", false
	}
	text, rest := s[:i], s[i:]
	if frac, found := strings.CutPrefix(rest, "."); found {
		j := digits(frac)
		if j == 0 {
			return n, "", false
		}
		text, rest, n.scale = text+frac[:j], frac[j:], j
	}
	for _, c := range rest {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return n, "", false
		}
	}
	n.digits, ok = new(big.Int).SetString(text, 10)
	return n, rest, ok
}

// digits counts the leading decimal digits of s.
func digits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// times returns n × unit, rounded half up to a whole number, and whether that was
// exact.
func (n number) times(unit int64) (whole *big.Int, exact bool) {
	pow := pow10(n.scale)
	num := new(big.Int).Mul(n.digits, big.NewInt(unit))
	rem := new(big.Int)
	whole, rem = new(big.Int).QuoRem(num, pow, rem)
	if rem.Lsh(rem, 1).Cmp(pow) >= 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole, rem.Sign() == 0
}

func pow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// refuse builds the error for text s: what is wrong, and those of the candidates
// that parse, or else a form that does.
func refuse(s, wrong string, parses func(string) bool, otherwise string, candidates ...string) error {
	var good []string
	for _, c := range candidates {
		if c != s && parses(c) {
			good = append(good, c)
		}
	}
	if len(good) == 0 {
		return fmt.Errorf("%s %s; %s", quote(s), wrong, otherwise)
	}
	return fmt.Errorf("%s %s; did you mean %s?", quote(s), wrong, strings.Join(good, " or "))
}

func tooMuch(s, most string) error {
	return fmt.Errorf("%s is too much; the most is %s", quote(s), most)
}

// quote keeps a message short whatever was written.
func quote(s string) string {
	if len(s) > maxText {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(s[:maxText], "?"))
	}
	return fmt.Sprintf("%q", s)
}

// untidy explains text that split does not accept, and returns it set right as
// far as that can be guessed.
func untidy(s string) (wrong, tidy string) {
	bare := strings.Join(strings.Fields(s), "")
	switch {
	case bare == "":
		return "is empty", ""
	case len(s) > maxText:
		return "is too long for a quantity", ""
	case bare != s:
		return "has spaces in it", bare
	case s[0] == '-':
		return "is negative", s[1:]
	case s[0] == '+':
		return "has a sign", s[1:]
	case strings.Count(s, ",") == 1 && !strings.Contains(s, "."):
		return "has a comma in it", strings.Replace(s, ",", ".", 1)
	case strings.ContainsAny(s, "_,") && s[0] >= '0' && s[0] <= '9':
		return "has separators in it", strings.NewReplacer("_", "", ",", "").Replace(s)
	case s[0] == '.' && digits(s[1:]) > 0:
		return "begins with a point", "0" + s
	}
	i := digits(s)
	if i == 0 {
		return "is not a number", ""
	}
	if i > 1 && s[0] == '0' {
		t := strings.TrimLeft(s, "0")
		if t == "" || t[0] < '0' || t[0] > '9' {
			t = "0" + t
		}
		return "has leading zeros", t
	}
	if n, exp, ok := exponent(s); ok {
		return "is written with an exponent", plain(n, exp)
	}
	if s[i] == '.' && digits(s[i+1:]) == 0 {
		return "has no digit after the point", s[:i] + s[i+1:]
	}
	return "is not a number", ""
}

// exponent reads "9e30" as 9 and 30.
func exponent(s string) (n number, exp int, ok bool) {
	at := strings.IndexAny(s, "eE")
	if at < 0 {
		return n, 0, false
	}
	n, unit, ok := split(s[:at])
	if !ok || unit != "" {
		return n, 0, false
	}
	power := s[at+1:]
	negative := strings.HasPrefix(power, "-")
	power = strings.TrimLeft(power, "+-")
	if power == "" || len(power) > 4 || digits(power) != len(power) {
		return n, 0, false
	}
	for _, c := range power {
		exp = exp*10 + int(c-'0')
	}
	if negative {
		exp = -exp
	}
	return n, exp, true
}

// plain writes n × 10^exp without an exponent; "" where that is longer than a
// quantity may be.
func plain(n number, exp int) string {
	digits, scale := n.digits.String(), n.scale-exp
	switch {
	case scale > maxText || -scale > maxText:
		return ""
	case scale <= 0:
		return digits + strings.Repeat("0", -scale)
	case len(digits) <= scale:
		digits = strings.Repeat("0", scale-len(digits)+1) + digits
	}
	return trim(digits[:len(digits)-scale] + "." + digits[len(digits)-scale:])
}

// trim drops zeros behind the point, and the point if nothing is left there.
func trim(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Part is which part of the whole an amount is; 0 where there is no whole.
func Part(amount, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(amount) / float64(of)
}
