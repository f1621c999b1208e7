// Package suggest finds the known word that is closest to an unknown one, for hints in errors.
package suggest

import (
	"cmp"
	"strings"
)

// maxLength is the length of the longest word that is compared.
const maxLength = 64

// Nearest returns the candidate that is most similar to word, or "" if none is close. At most
// a third of the letters may be missing, added, changed or swapped with their neighbor. Case is
// ignored, and dashes equal underscores. Of equally close candidates the first wins. If none is
// close, it returns the first candidate that begins with word, if word has three letters.
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

// distance returns the optimal string alignment distance: Levenshtein's, with a swap of
// neighbors as one step.
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
