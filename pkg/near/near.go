// Package near guesses which name a misspelt one was meant to be. It is only ever for a
// hint: nothing acts on a name that was not given exactly.
package near

import "strings"

// longest is the length beyond which no word is taken for a misspelt name.
const longest = 64

// Of returns the name that word was probably meant to be, the first of equals; "" if
// none is close: the same but for case, hyphens and underscores; one that begins with
// it; or a few edits away, fewer for short words.
func Of(word string, names []string) string {
	w := plain(word)
	if w == "" || len(w) > longest {
		return ""
	}
	best, least := "", min(3, max(2, 1+len(w)/3))
	for _, name := range names {
		n := plain(name)
		if n == w {
			return name
		}
		d := max(len(w)-len(n), len(n)-len(w)) // no fewer edits than that
		switch begins := strings.HasPrefix(n, w); {
		case len(w) >= 3 && begins:
			d = 1
		case len(w) < 3 && !strings.HasPrefix(n, w[:1]): // it could be anything
			continue
		case d < least:
			d = edits(w, n)
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

func plain(s string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return r
	}, s))
}

// edits is the number of insertions, deletions, replacements and swaps of neighbours
// that turn a into b.
func edits(a, b string) int {
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
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
