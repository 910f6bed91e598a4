package resource

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

const cpuForm = "write cores, such as 500m, 0.5 or 4"

// ParseCPU reads an amount of CPU, `500m`, `0.5` or `4`, in thousandths of a core.
// Anything finer than a thousandth is refused, never rounded.
func ParseCPU(s string) (milli int64, err error) {
	if milli, ok := tryCPU(s); ok {
		return milli, nil
	}
	n, unit, ok := split(s)
	if !ok {
		wrong, tidy := untidy(s)
		if n, unit, ok = split(tidy); ok && isCore(unit) {
			tidy = tidy[:len(tidy)-len(unit)]
		} else if _, exp, is := exponent(s); is && exp > 0 && (!ok || tooMuchCPU(n, 1000)) {
			return 0, tooMuch(s, FormatCPU(MaxCPU))
		}
		return 0, refuse(s, wrong, isCPU, cpuForm, tidy)
	}
	scale := int64(1000)
	switch value := s[:len(s)-len(unit)]; {
	case unit == "":
	case unit == "m":
		scale = 1
	case unit == "M":
		return 0, refuse(s, `has an unknown unit "M"`, isCPU, cpuForm, value+"m")
	case isCore(unit):
		return 0, refuse(s, fmt.Sprintf("has an unknown unit %q", unit), isCPU, cpuForm, value)
	default:
		return 0, refuse(s, fmt.Sprintf("has an unknown unit %q", unit), isCPU, cpuForm)
	}
	if tooMuchCPU(n, scale) {
		return 0, tooMuch(s, FormatCPU(MaxCPU))
	}
	whole, _ := n.times(scale)
	return 0, refuse(s, "is finer than a thousandth of a core", isCPU, cpuForm, FormatCPU(max(1, whole.Int64())))
}

// tryCPU is the whole rule; ParseCPU adds the explanations.
func tryCPU(s string) (milli int64, ok bool) {
	n, unit, ok := split(s)
	if !ok || unit != "" && unit != "m" {
		return 0, false
	}
	scale := int64(1000)
	if unit == "m" {
		scale = 1
	}
	whole, exact := n.times(scale)
	if !exact || tooMuchCPU(n, scale) {
		return 0, false
	}
	return whole.Int64(), true
}

func isCPU(s string) bool { _, ok := tryCPU(s); return ok }

func isCore(unit string) bool {
	switch strings.ToLower(unit) {
	case "c", "core", "cores", "cpu", "cpus":
		return true
	}
	return false
}

func tooMuchCPU(n number, scale int64) bool {
	whole, _ := n.times(scale)
	return whole.Cmp(big.NewInt(MaxCPU)) > 0
}

// FormatCPU prints thousandths of a core: `500m` below one core, `4` and `1.5`
// from there on. ParseCPU reads it back exactly.
func FormatCPU(milli int64) string {
	if milli < 0 {
		// Not -milli: the smallest int64 has no positive counterpart.
		return "-" + formatCPU(uint64(-(milli+1))+1)
	}
	return formatCPU(uint64(milli))
}

func formatCPU(milli uint64) string {
	switch {
	case milli == 0:
		return "0"
	case milli < 1000:
		return strconv.FormatUint(milli, 10) + "m"
	}
	return trim(fmt.Sprintf("%d.%03d", milli/1000, milli%1000))
}
