package resource

import (
	"fmt"
	"math/big"
	"strconv"
)

const shareForm = "write thousandths of one GPU, 1m to 1000m"

// ParseShare reads a part of one GPU, `1m` to `1000m`, in thousandths.
func ParseShare(s string) (milli int32, err error) {
	if milli, ok := tryShare(s); ok {
		return milli, nil
	}
	n, unit, ok := split(s)
	if !ok {
		wrong, tidy := untidy(s)
		return 0, refuse(s, wrong, isShare, shareForm, tidy)
	}
	whole, _ := n.times(1)
	switch value := s[:len(s)-len(unit)]; {
	case n.digits.Sign() == 0:
		return 0, refuse(s, "is nothing", isShare, shareForm, "1m")
	case unit == "":
		if thousandths, exact := n.times(1000); exact && thousandths.IsInt64() && thousandths.Int64() <= int64(MaxShare) {
			return 0, refuse(s, "has no unit", isShare, shareForm, thousandths.String()+"m")
		}
		return 0, refuse(s, "has no unit", isShare, shareForm, s+"m")
	case unit != "m":
		return 0, refuse(s, fmt.Sprintf("has an unknown unit %q", unit), isShare, shareForm, value+"m")
	case whole.Cmp(big.NewInt(int64(MaxShare))) > 0:
		return 0, refuse(s, "is more than one GPU", isShare, shareForm, "1000m")
	}
	near := FormatShare(int32(max(1, whole.Int64())))
	return 0, refuse(s, "is finer than a thousandth of a GPU", isShare, shareForm, near)
}

// tryShare is the whole rule; ParseShare adds the explanations.
func tryShare(s string) (milli int32, ok bool) {
	n, unit, ok := split(s)
	if !ok || unit != "m" {
		return 0, false
	}
	whole, exact := n.times(1)
	if !exact || whole.Sign() == 0 || whole.Cmp(big.NewInt(int64(MaxShare))) > 0 {
		return 0, false
	}
	return int32(whole.Int64()), true
}

func isShare(s string) bool { _, ok := tryShare(s); return ok }

// FormatShare prints a part of one GPU as ParseShare reads it.
func FormatShare(milli int32) string { return strconv.FormatInt(int64(milli), 10) + "m" }
