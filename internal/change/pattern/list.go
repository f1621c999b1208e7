package pattern

import (
	"fmt"
	"path"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// List is a list of patterns that name files and directories, the latter with all below them. It
// compares as the file system that tells the fewest names apart, see Fold. The zero List matches
// nothing.
type List struct {
	texts    []string
	patterns []Pattern
}

// NewList returns a list. Each pattern is one of gitignore(5), without "!": a plain name such as
// ".github" matches in any directory; "/.github" and "docs/adr" are relative to the root. Components
// are compared as a whole: ".github" does not match ".github-x".
func NewList(patterns ...string) (List, error) {
	var l List
	for _, text := range patterns {
		p, ok := parse(Fold(strings.TrimPrefix(text, "./")))
		switch {
		case !ok || p.negated:
			return List{}, fmt.Errorf("pattern %q: expected a name or a pattern such as *.lock, docs/ or /api/**", text)
		case !p.canMatch():
			return List{}, fmt.Errorf("pattern %q can match nothing", text)
		}
		p.dirOnly = false // a file may take the place of the directory
		l.texts, l.patterns = append(l.texts, text), append(l.patterns, p)
	}
	return l, nil
}

// canMatch reports whether some name can match.
func (p Pattern) canMatch() bool {
	for _, part := range p.parts {
		if part == "" || part == "." || part == ".." || endsEscaped(part) || !closes(part) {
			return false
		}
	}
	return true
}

// closes reports whether each class of a component is complete.
func closes(part string) bool {
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '\\':
			i++
		case '[':
			size := 0
			for c := range 256 {
				n, _ := matchClass(part[i:], byte(c))
				size = max(size, n)
			}
			if size == 0 {
				return false
			}
			i += size - 1
		}
	}
	return true
}

// Match returns the first pattern that matches a name, or a directory above it. The name is clean
// (path.Clean) and relative to the root.
func (l List) Match(name string) (text string, ok bool) {
	name = Fold(name)
	for i, p := range l.patterns {
		for at := name; at != "." && at != "/"; at = path.Dir(at) {
			if p.matches(at, true) {
				return l.texts[i], true
			}
		}
	}
	return "", false
}

// Below returns the first pattern whose files can be below a directory: the fixed components that
// it begins with are at or below the directory. "." is the root.
func (l List) Below(dir string) (text string, ok bool) {
	dir = Fold(dir)
	for i, p := range l.patterns {
		fixed := p.fixed()
		if p.anchored && (dir == "." || fixed == dir || strings.HasPrefix(fixed, dir+"/")) {
			return l.texts[i], true
		}
	}
	return "", false
}

// fixed returns the components before the first that is no plain name.
func (p Pattern) fixed() string {
	n := 0
	for n < len(p.parts) && !strings.ContainsAny(p.parts[n], `*?[\`) {
		n++
	}
	return strings.Join(p.parts[:n], "/")
}

// Fold returns a text that is equal for names that some file system does not tell apart: names that
// differ in case, in the Unicode normal form, or in the code points that HFS+ ignores.
func Fold(name string) string {
	if isLowerASCII(name) {
		return name
	}
	folded := strings.Map(func(r rune) rune {
		if isIgnorable(r) {
			return -1
		}
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return unicode.ToLower(least)
	}, norm.NFC.String(name))
	return norm.NFC.String(folded)
}

func isLowerASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 || 'A' <= s[i] && s[i] <= 'Z' {
			return false
		}
	}
	return true
}

// isIgnorable reports whether HFS+ ignores a code point in names (Apple Technical Note TN1150).
func isIgnorable(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}

// IsGit reports whether some file system takes a component of a name for ".git": in another case,
// with ignored code points, as the short name "git~1", or with an ending that Windows drops.
func IsGit(component string) bool {
	folded := Fold(component)
	folded, _, _ = strings.Cut(folded, ":") // a stream of NTFS
	folded = strings.TrimRight(folded, " .")
	return folded == ".git" || folded == "git~1"
}
