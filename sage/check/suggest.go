package check

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/suggest"
)

// didYouMean returns the help for a misspelled name, "" if no name is similar.
func didYouMean(name string, names []string) string {
	if len(name) < 3 {
		return "" // any other short name is as near
	}
	if n := suggest.Nearest(name, names); n != "" && n != name {
		return "did you mean `" + n + "`?"
	}
	return ""
}

// choices lists names for people: a, b and c.
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
