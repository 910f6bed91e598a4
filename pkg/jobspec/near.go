package jobspec

import "strings"

// near returns the name that word was probably meant to be, "" if none is close:
// the same but for case, hyphens and underscores; the beginning of it; or a few
// edits away, fewer for short words.
func near(word string, names []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.Map(func(r rune) rune {
			if r == '-' || r == '_' {
				return -1
			}
			return r
		}, s))
	}
	w := plain(word)
	if len(w) < 2 || len(w) > 40 {
		return ""
	}
	best, least := "", min(3, 1+len(w)/3)
	for _, name := range names {
		n := plain(name)
		if n == w {
			return name
		}
		d := max(len(w)-len(n), len(n)-len(w)) // no fewer edits than that
		if len(w) >= 3 && strings.HasPrefix(n, w) {
			d = 1
		} else if d < least {
			d = distance(w, n)
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// oneOf words a refusal of a value outside a closed list.
func oneOf(value string, list []string) string {
	message := "is not one of " + strings.Join(list, ", ")
	if n := near(value, list); n != "" {
		message += "; did you mean " + n + "?"
	}
	return message
}
