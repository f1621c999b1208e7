// Package suggest finds the known word that is closest to an unknown one, so that
// an error can name it.
package suggest

import (
	"cmp"
	"strings"
)

// maxLength word that is compared; a longer one is rarely mistyped by a letter or two.
const maxLength = 64

// Nearest returns the candidate that is most like word, or "" if none is
// close: at most a third of the letters may be missing, added, changed or
// swapped with their neighbour. Case, and dashes for underscores, count as no
// difference. Of equally close candidates the first wins. Where none is close,
// it is the first that begins with word, if that has at least three letters.
func Nearest(word string, candidates []string) string {
	if len(word) > maxLength {
		return ""
	}
	w := normalize(word)
	prefixed := ""
	best, least := "", max(1, len(w)/3)+1
	for _, c := range candidates {
		n := normalize(c)
		if prefixed == "" && len(w) >= 3 && strings.HasPrefix(string(n), string(w)) {
			prefixed = c
		}
		if d := len(n) - len(w); len(n) > maxLength || d >= least || -d >= least {
			continue
		}
		if d := distance(w, n); d < least {
			best, least = c, d
		}
	}
	return cmp.Or(best, prefixed)
}

func normalize(s string) []rune {
	return []rune(strings.ReplaceAll(strings.ToLower(s), "-", "_"))
}

// distance is the optimal string alignment distance: Levenshtein's, with a
// swap of neighbours as one step.
func distance(a, b []rune) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		next[0] = i + 1
		for j := range b {
			d := row[j]
			if a[i] != b[j] {
				d++
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			next[j+1] = min(d, row[j+1]+1, next[j]+1)
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
