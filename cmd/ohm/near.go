package main

import "strings"

// nearest returns the one of names that word was probably meant to be, "" if none
// is close: a few edits away, or the word is its beginning. It is only ever for a
// hint: no verb acts on a name that was not given exactly.
func nearest(word string, names []string) string {
	best, least := "", max(2, 1+len(word)/3)
	for _, name := range names {
		d := edits(word, name)
		if len(word) >= 3 && strings.HasPrefix(name, word) {
			d = 1
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// edits counts the insertions, deletions, replacements and swaps of neighbours that
// turn a into b.
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
