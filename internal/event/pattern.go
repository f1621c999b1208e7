package event

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/suggest"
)

// PatternError is the error for a type, or a pattern of types, that no event can have.
type PatternError struct {
	Problem string
	Hint    string // how to fix it
}

func (e *PatternError) Error() string { return e.Problem + "; " + e.Hint }

// CheckTypes returns the error of the first pattern that cannot match any event in the log, or
// nil. It accepts a type that only earlier versions have written.
func (f Filter) CheckTypes() error {
	for _, p := range f.Types {
		if err := CheckPattern(p); err != nil && Type(p) != unknown {
			return err
		}
	}
	return nil
}

// CheckPattern returns a *PatternError if a pattern, as of path.Match, matches no type of the
// catalogue.
func CheckPattern(pattern string) error {
	shown := fmt.Sprintf("%.100q", pattern)
	e := &PatternError{
		"there is no event type " + shown, "write a type such as agent.crashed, or a pattern such as agent.*",
	}
	if _, err := path.Match(pattern, ""); err != nil {
		e.Problem = shown + " is not a pattern of event types"
		return e
	}
	if matches(pattern) {
		return nil
	}
	if instead, ok := retired()[Type(pattern)]; ok {
		e.Hint = fmt.Sprintf("use %q", instead)
		return e
	}
	var near string
	if wild := strings.IndexAny(pattern, `*?[\`); wild >= 0 {
		e.Problem = "no event type matches " + shown
		near = nearPattern(pattern[:wild], pattern[wild:])
	} else {
		near = suggest.Nearest(pattern, all())
	}
	if near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return e
}

// matches reports whether a pattern matches a type of the catalogue.
func matches(pattern string) bool {
	return slices.ContainsFunc(all(), func(name string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// nearPattern returns a pattern that matches something, with a beginning like the one given and
// the same rest, or "".
func nearPattern(beginning, rest string) string {
	family, _, _ := strings.Cut(beginning, ".")
	var families []string
	for _, name := range all() {
		first, _, _ := strings.Cut(name, ".")
		if !slices.Contains(families, first) {
			families = append(families, first)
		}
	}
	near := suggest.Nearest(family, families)
	if near == "" {
		return ""
	}
	for _, p := range []string{near + beginning[len(family):] + rest, near + ".*"} {
		if matches(p) {
			return p
		}
	}
	return ""
}
