package resource

import (
	"math"
	"testing"
)

func TestRoundBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "1", 512: "512", 972: "972", 973: "1Ki", 1024: "1Ki", 1536: "1.5Ki", 24585780 << 10: "23.4Gi", 64 << 30: "64Gi",
		64<<30 - 1: "64Gi", 1<<30 - 1: "1Gi", 1023 << 20: "1Gi", 900 << 20: "900Mi", 3 << 39: "1.5Ti", 5000 << 40: "5000Ti",
		-1: "-1", -3 << 29: "-1.5Gi", math.MinInt64: "-8388608Ti", math.MaxInt64: "8388608Ti",
	} {
		if got := RoundBytes(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	for _, c := range []struct {
		a, b int64
		want string
	}{
		{24585780 << 10, 64 << 30, "23.4Gi of 64Gi"},
		{64 << 30, 64 << 30, "64Gi of 64Gi"},
		{64<<30 - 1<<20, 64 << 30, "65535Mi of 64Gi"},
		{0, 1, "0 of 1"},
	} {
		a, b := RoundPair(c.a, c.b)
		if got := a + " of " + b; got != c.want {
			t.Errorf("%d of %d: got %s, want %s", c.a, c.b, got, c.want)
		}
		if x, y := RoundWritten(FormatBytes(c.a), FormatBytes(c.b)); (x != a || y != b) && c.b > 1 {
			t.Errorf("%d of %d, written: got %s of %s, want %s", c.a, c.b, x, y, c.want)
		}
	}
	for _, c := range [][2]string{{"3", "0"}, {"500m", "1.5"}, {"", ""}, {"http", ""}, {"1Gi", ""}} {
		if a, b := RoundWritten(c[0], c[1]); a != c[0] || b != c[1] {
			t.Errorf("%q: got %q and %q", c, a, b)
		}
	}
}
