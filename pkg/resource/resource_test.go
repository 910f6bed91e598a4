package resource

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type row struct {
	in   string
	want int64
	err  string // exact
}

func check(t *testing.T, rows []row, parse func(string) (int64, error)) {
	t.Helper()
	for _, r := range rows {
		got, err := parse(r.in)
		switch {
		case r.err == "" && err != nil:
			t.Errorf("%q: refused: %v", r.in, err)
		case r.err != "" && err == nil:
			t.Errorf("%q: got %d, want it refused: %s", r.in, got, r.err)
		case r.err != "" && err.Error() != r.err:
			t.Errorf("%q:\n got %s\nwant %s", r.in, err, r.err)
		case got != r.want:
			t.Errorf("%q: got %d, want %d", r.in, got, r.want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	check(t, []row{
		{in: "0"}, {in: "0Gi"},
		{in: "1k", want: 1000}, {in: "1Ki", want: 1024},
		{in: "64Mi", want: 64 << 20}, {in: "2M", want: 2_000_000},
		{in: "1.5Gi", want: 3 << 29}, {in: "2G", want: 2e9},
		{in: "1T", want: 1e12}, {in: "1Ti", want: 1 << 40},
		{in: "1024Ti", want: MaxBytes},
		// Rounded once, half up: 1288490188.8 and 3060164198.4.
		{in: "1.2Gi", want: 1288490189}, {in: "2.85Gi", want: 3060164198},
		{in: "0.0005k", want: 1}, {in: "0.0015k", want: 2},

		{in: "512m", err: `"512m" is less than a byte; did you mean 512M or 512Mi?`},
		{in: "2000m", err: `"2000m" counts thousandths of a byte; did you mean 2000M or 2000Mi?`},
		{in: "0.5", err: `"0.5" is less than a byte; did you mean 0.5G or 0.5Gi?`},
		{in: "1e-3", err: `"1e-3" is less than a byte; did you mean 1M or 1Mi?`},
		{in: "0.0001k", err: `"0.0001k" is less than a byte; did you mean 1k?`},
		{in: "512", err: `"512" has no unit; did you mean 512M or 512Mi?`},
		{in: "1073741824", err: `"1073741824" has no unit; did you mean 1Gi?`},
		{in: "400mi", err: `"400mi" has an unknown unit "mi"; did you mean 400Mi?`},
		{in: "1GB", err: `"1GB" has an unknown unit "GB"; did you mean 1G or 1Gi?`},
		{in: "1KiB", err: `"1KiB" has an unknown unit "KiB"; did you mean 1Ki?`},
		{in: "1K", err: `"1K" has an unknown unit "K"; did you mean 1k or 1Ki?`},
		{in: "1P", err: `"1P" has an unknown unit "P"; ` + bytesForm},
		{in: "-1Gi", err: `"-1Gi" is negative; did you mean 1Gi?`},
		{in: "-0.5", err: `"-0.5" is negative and has no unit; did you mean 0.5G or 0.5Gi?`},
		{in: "1Gi ", err: `"1Gi " has spaces in it; did you mean 1Gi?`},
		{in: "1 Gi", err: `"1 Gi" has spaces in it; did you mean 1Gi?`},
		{in: "9e30", err: `"9e30" is too much; the most is 1024Ti`},
		{in: "1025Ti", err: `"1025Ti" is too much; the most is 1024Ti`},
		{in: "1e9", err: `"1e9" is written with an exponent; did you mean 1G?`},
		{in: "NaN", err: `"NaN" is not a number; ` + bytesForm},
		{in: "", err: `"" is empty; ` + bytesForm},
		{in: "1,5Gi", err: `"1,5Gi" has a comma in it; did you mean 1.5Gi?`},
		{in: "1_000Mi", err: `"1_000Mi" has separators in it; did you mean 1000Mi?`},
		{in: ".5Gi", err: `".5Gi" begins with a point; did you mean 0.5Gi?`},
		{in: "1.Gi", err: `"1.Gi" has no digit after the point; did you mean 1Gi?`},
		{in: "010Mi", err: `"010Mi" has leading zeros; did you mean 10Mi?`},
		{in: "0x10", err: `"0x10" is not a number; ` + bytesForm},
	}, ParseBytes)
}

func TestParseCPU(t *testing.T) {
	check(t, []row{
		{in: "0"}, {in: "500m", want: 500}, {in: "0.5", want: 500}, {in: "0.1", want: 100},
		{in: "4", want: 4000}, {in: "1500m", want: 1500}, {in: "1.25", want: 1250}, {in: "1.0000", want: 1000},
		{in: "1000000", want: MaxCPU},

		{in: "0.0005", err: `"0.0005" is finer than a thousandth of a core; did you mean 1m?`},
		{in: "0.5m", err: `"0.5m" is finer than a thousandth of a core; did you mean 1m?`},
		{in: "500M", err: `"500M" has an unknown unit "M"; did you mean 500m?`},
		{in: "4 cores", err: `"4 cores" has spaces in it; did you mean 4?`},
		{in: "2cpu", err: `"2cpu" has an unknown unit "cpu"; did you mean 2?`},
		{in: "100Mi", err: `"100Mi" has an unknown unit "Mi"; ` + cpuForm},
		{in: "1e3", err: `"1e3" is written with an exponent; did you mean 1000?`},
		{in: "9e30", err: `"9e30" is too much; the most is 1000000`},
		{in: "9e300", err: `"9e300" is too much; the most is 1000000`},
		{in: "1000001", err: `"1000001" is too much; the most is 1000000`},
		{in: "-1", err: `"-1" is negative; did you mean 1?`},
		{in: ".5", err: `".5" begins with a point; did you mean 0.5?`},
		{in: "nan", err: `"nan" is not a number; ` + cpuForm},
	}, ParseCPU)
}

func TestParseShare(t *testing.T) {
	check(t, []row{
		{in: "1m", want: 1}, {in: "460m", want: 460}, {in: "1000m", want: 1000},

		{in: "0m", err: `"0m" is nothing; did you mean 1m?`},
		{in: "0.46", err: `"0.46" has no unit; did you mean 460m?`},
		{in: "460", err: `"460" has no unit; did you mean 460m?`},
		{in: "1", err: `"1" has no unit; did you mean 1000m?`},
		{in: "1001m", err: `"1001m" is more than one GPU; did you mean 1000m?`},
		{in: "0.5m", err: `"0.5m" is finer than a thousandth of a GPU; did you mean 1m?`},
		{in: "460M", err: `"460M" has an unknown unit "M"; did you mean 460m?`},
		{in: "-1m", err: `"-1m" is negative; did you mean 1m?`},
		{in: "50%", err: `"50%" is not a number; ` + shareForm},
	}, func(s string) (int64, error) {
		n, err := ParseShare(s)
		return int64(n), err
	})
}

func TestFormat(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "0.001k", 512: "0.5Ki", 1000: "1k", 1024: "1Ki", 1536: "1.5Ki", 64 << 20: "64Mi",
		1288490189: "1.2Gi", 3060164198: "2.85Gi", 5 << 28: "1.25Gi", 1e9: "1G", 15e8: "1.5G", 1 << 30: "1Gi",
		1234567: "1.234567M", -1 << 30: "-1Gi", MaxBytes: "1024Ti", -1 << 63: "-8388608Ti",
		1<<63 - 1: "9223372.036854775807T",
	} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0", 1: "1m", 100: "100m", 999: "999m", 1000: "1", 1500: "1.5", 1001: "1.001", 64000: "64",
		-250: "-250m", -1500: "-1.5", -1 << 63: "-9223372036854775.808",
	} {
		if got := FormatCPU(n); got != want {
			t.Errorf("FormatCPU(%d) = %s, want %s", n, got, want)
		}
	}
	if got := FormatShare(460); got != "460m" {
		t.Errorf("FormatShare(460) = %s", got)
	}
}

// Field case 2: what was written comes back readable, and sums do not drift.
func TestCase2RoundTripsAndSumsAreExact(t *testing.T) {
	for in, want := range map[string]string{"1.2Gi": "1.2Gi", "2.85Gi": "2.85Gi"} {
		one, err := ParseBytes(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := FormatBytes(one); got != want {
			t.Errorf("%s comes back as %s", in, got)
		}
		sum := int64(0)
		for i := int64(1); i <= 10_000; i++ {
			sum += one
			text := FormatBytes(sum)
			if back, err := ParseBytes(text); err != nil || back != i*one {
				t.Fatalf("%d × %s = %s reads back as %d, %v; want %d", i, in, text, back, err, i*one)
			}
		}
	}
	for in, want := range map[string]string{"0.1": "100m", "1500m": "1.5"} {
		one, err := ParseCPU(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := FormatCPU(one); got != want {
			t.Errorf("%s comes back as %s, want %s", in, got, want)
		}
		sum := int64(0)
		for i := int64(1); i <= 10_000; i++ {
			sum += one
			text := FormatCPU(sum)
			if back, err := ParseCPU(text); err != nil || back != i*one {
				t.Fatalf("%d × %s = %s reads back as %d, %v; want %d", i, in, text, back, err, i*one)
			}
		}
	}
}

func TestWhatIsPrintedReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, MaxBytes).Draw(t, "bytes")
		text := FormatBytes(n)
		if back, err := ParseBytes(text); err != nil || back != n {
			t.Fatalf("FormatBytes(%d) = %s reads back as %d, %v", n, text, back, err)
		}
		c := rapid.Int64Range(0, MaxCPU).Draw(t, "cpu")
		text = FormatCPU(c)
		if back, err := ParseCPU(text); err != nil || back != c {
			t.Fatalf("FormatCPU(%d) = %s reads back as %d, %v", c, text, back, err)
		}
	})
}

// FuzzParse: no text makes a parser crash, a suggestion always parses, and what
// parses is in range and prints as something that reads back.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"512m", "1.2Gi", "9e30", "1e-3", "-1Gi", "1Gi ", "0.5", "NaN", "01", "1.", "e", "1e", "1,5", "1e+", "++", "1000m", "4 cores", "1e40", "00e5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		suggested := func(err error, parse func(string) bool) {
			_, list, found := strings.Cut(err.Error(), "; did you mean ")
			if !found || strings.Contains(s, "did you mean") {
				return
			}
			for _, form := range strings.Split(strings.TrimSuffix(list, "?"), " or ") {
				if !parse(form) {
					t.Errorf("%q: the suggested %q does not parse", s, form)
				}
			}
		}
		if n, err := ParseBytes(s); err != nil {
			suggested(err, isBytes)
		} else if back, err := ParseBytes(FormatBytes(n)); n < 0 || n > MaxBytes || err != nil || back != n {
			t.Errorf("bytes %q: %d, back %d, %v", s, n, back, err)
		}
		if n, err := ParseCPU(s); err != nil {
			suggested(err, isCPU)
		} else if back, err := ParseCPU(FormatCPU(n)); n < 0 || n > MaxCPU || err != nil || back != n {
			t.Errorf("cpu %q: %d, back %d, %v", s, n, back, err)
		}
		if n, err := ParseShare(s); err != nil {
			suggested(err, isShare)
		} else if n < 1 || n > MaxShare {
			t.Errorf("share %q: %d", s, n)
		}
	})
}

func TestPart(t *testing.T) {
	for _, c := range []struct {
		amount, of int64
		want       float64
	}{{1, 4, 0.25}, {-1, 2, -0.5}, {3, 0, 0}, {3, -1, 0}} {
		if got := Part(c.amount, c.of); got != c.want {
			t.Errorf("%d of %d: %v", c.amount, c.of, got)
		}
	}
}
