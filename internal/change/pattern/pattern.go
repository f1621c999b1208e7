// Package pattern matches names of files with patterns as in gitignore(5), and with names that some
// file systems do not tell apart.
package pattern

import "strings"

// Pattern is one pattern of gitignore(5).
type Pattern struct {
	negated  bool
	dirOnly  bool
	anchored bool // relative to the directory of the pattern; otherwise it matches the last component
	parts    []string
}

// ParseFile returns the patterns of the content of a .gitignore file. A malformed pattern matches
// nothing, and so does one with an escaped slash.
func ParseFile(text string) (all []Pattern) {
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		if p, ok := parse(strings.TrimSuffix(line, "\r")); ok {
			all = append(all, p)
		}
	}
	return all
}

// parse parses one line. It returns false for comments and blank lines.
func parse(line string) (p Pattern, ok bool) {
	if strings.HasPrefix(line, "#") {
		return p, false
	}
	for strings.HasSuffix(line, " ") && !endsEscaped(line[:len(line)-1]) {
		line = line[:len(line)-1]
	}
	line, p.negated = strings.CutPrefix(line, "!")
	line, p.dirOnly = strings.CutSuffix(line, "/")
	if line == "" {
		return p, false
	}
	p.anchored = strings.Contains(line, "/")
	p.parts = strings.Split(strings.TrimPrefix(line, "/"), "/")
	for i, part := range p.parts {
		if p.anchored && len(part) > 2 && strings.Trim(part, "*") == "" {
			p.parts[i] = "**"
		}
	}
	return p, true
}

// endsEscaped reports whether an odd number of backslashes is at the end, so that the next character
// is escaped.
func endsEscaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// Decide returns whether the last pattern that matches a name excludes it, and whether any does.
// name is relative to the directory of the patterns, with slashes.
func Decide(all []Pattern, name string, dir bool) (excluded, decided bool) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].matches(name, dir) {
			return !all[i].negated, true
		}
	}
	return false, false
}

// matches reports whether the pattern matches the name itself, not a directory above it.
func (p Pattern) matches(name string, dir bool) bool {
	if p.dirOnly && !dir {
		return false
	}
	if !p.anchored {
		return matchPart(p.parts[0], name[strings.LastIndexByte(name, '/')+1:])
	}
	return matchParts(p.parts, strings.Split(name, "/"))
}

// matchParts matches components. "**" stands for any number of them; at the end, for at least one.
// As in matchPart, going back to the last "**" is enough.
func matchParts(parts, names []string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(names) {
		switch {
		case p < len(parts) && parts[p] == "**":
			if p == len(parts)-1 {
				return true
			}
			star, mark = p, n
			p++
		case p < len(parts) && matchPart(parts[p], names[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return p == len(parts)
}

// matchPart matches one component, byte by byte as git does.
func matchPart(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, n
			p++
			continue
		}
		if size, ok := matchByte(pattern[p:], name[n]); ok {
			p += size
			n++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, n = star+1, mark
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchByte matches one byte with the start of a pattern, and returns how much of the pattern was
// used.
func matchByte(pattern string, c byte) (size int, ok bool) {
	switch {
	case pattern == "":
		return 0, false
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '[':
		return matchClass(pattern, c)
	case pattern[0] == '\\':
		return 2, len(pattern) > 1 && pattern[1] == c
	}
	return 1, pattern[0] == c
}

// matchClass matches a byte with a class such as [a-z], [!x] or [[:digit:]].
func matchClass(pattern string, c byte) (size int, ok bool) {
	i := 1
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	found := false
	for first := true; ; first = false {
		if i >= len(pattern) {
			return 0, false // never closed
		}
		if pattern[i] == ']' && !first {
			return i + 1, found != negated
		}
		if named, rest, is := strings.Cut(strings.TrimPrefix(pattern[i:], "[:"), ":]"); is &&
			strings.HasPrefix(pattern[i:], "[:") && !strings.Contains(named, "]") {
			in, known := classes[named]
			if !known {
				return 0, false
			}
			found = found || strings.IndexByte(in, c) >= 0
			i = len(pattern) - len(rest)
			continue
		}
		low, next, valid := classByte(pattern, i)
		if !valid {
			return 0, false
		}
		high := low
		if next+1 < len(pattern) && pattern[next] == '-' && pattern[next+1] != ']' {
			if high, next, valid = classByte(pattern, next+1); !valid {
				return 0, false
			}
		}
		found = found || c == low || low <= c && c <= high // git matches the start of an empty range, too
		i = next
	}
}

// classByte returns the byte of a class at i, which may be escaped, and where the next begins.
func classByte(pattern string, i int) (c byte, next int, valid bool) {
	if pattern[i] == '\\' {
		i++
	}
	if i >= len(pattern) {
		return 0, i, false
	}
	return pattern[i], i + 1, true
}

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	punct  = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
)

var classes = map[string]string{
	"alnum": lower + upper + digits, "alpha": lower + upper, "digit": digits, "lower": lower, "upper": upper,
	"punct": punct, "xdigit": digits + "abcdefABCDEF", "blank": " \t", "space": " \t\n\r\v\f",
	"graph": lower + upper + digits + punct, "print": lower + upper + digits + punct + " ",
}
