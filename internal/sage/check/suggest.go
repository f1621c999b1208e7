package check

import (
	"slices"
	"strings"
)

// nearest is the name most like a misspelled one, "" if none is.
func nearest(name string, names []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", len(name)/3+1
	folded := fold(name)
	for _, n := range names {
		if n == "" || n == name || max(len(n)-len(name), len(name)-len(n)) > least+2 {
			continue
		}
		if d := distance(folded, fold(n), least+1); d < least || d == least && best != "" && n < best {
			best, least = n, d
		}
	}
	return best
}

// fold is a name without what is easily confused.
func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "") }

// distance is how many letters have to be changed, added, left out or swapped
// with the next; at most limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least >= limit {
			return limit
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}

// meant is the help for a misspelled name, "" if nothing is like it.
func meant(name string, names []string) string {
	if n := nearest(name, names); n != "" {
		return "did you mean `" + n + "`?"
	}
	return ""
}

// choices is a list for people: a, b and c.
func choices(names []string) string {
	names = slices.Clone(names)
	const most = 12
	if len(names) > most {
		names = append(names[:most], "…")
	}
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
