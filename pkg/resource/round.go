package resource

import "strconv"

// RoundBytes prints bytes for people to look at, to the nearest tenth of the largest
// binary unit: `23.4Gi` for 24585780Ki. FormatBytes is the form that is exact.
func RoundBytes(n int64) string {
	if n < 0 {
		return "-" + roundBytes(uint64(-(n+1))+1)
	}
	return roundBytes(uint64(n))
}

func roundBytes(n uint64) string {
	units := binaryUnits()
	for i := len(units) - 1; i >= 0; i-- {
		tenths, _ := mulDiv(n, 10, uint64(units[i].size)) // of at most 2^63: it fits
		if tenths < 10 {
			continue
		}
		text := strconv.FormatUint(tenths/10, 10)
		if tenths%10 > 0 {
			text += "." + strconv.FormatUint(tenths%10, 10)
		}
		return text + units[i].name
	}
	return strconv.FormatUint(n, 10)
}

// RoundPair rounds two amounts that are held against each other. Where they differ and
// would look alike they are printed exactly.
func RoundPair(a, b int64) (string, string) {
	if x, y := RoundBytes(a), RoundBytes(b); x != y || a == b {
		return x, y
	}
	return FormatBytes(a), FormatBytes(b)
}

// RoundWritten is RoundPair for amounts as FormatBytes writes them; where they are no
// bytes (of a conflict over cpu, say) they stay as they are.
func RoundWritten(a, b string) (string, string) {
	x, err := ParseBytes(a)
	if err != nil {
		return a, b
	}
	y, err := ParseBytes(b)
	if err != nil {
		return a, b
	}
	return RoundPair(x, y)
}
