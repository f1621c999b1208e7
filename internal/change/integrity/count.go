package integrity

import (
	"path"
	"regexp"
	"strings"
)

// counts are the tests of a file.
type counts struct {
	tests     map[string]int // how often there is a test of this name
	skips     int
	focus     int
	asserts   int // without trivial ones
	trivial   int
	condition string // of a build
	problem   string // why the file could not be read
}

func (c counts) total() (n int) {
	for _, times := range c.tests {
		n += times
	}
	return n
}

// count counts the tests of a file in the language that its name says.
func count(name, text string) counts {
	if text == "" {
		return counts{}
	}
	if path.Ext(name) == ".go" {
		return countGo(name, text)
	}
	l := languageOf(name)
	code := l.syntax.strip(text)
	c := counts{tests: map[string]int{}}
	for _, at := range l.tests.FindAllStringSubmatchIndex(code, -1) {
		test := strings.Join(groups(text, at), "")
		if test == "" {
			test = firstString(text[at[1]:min(len(text), at[1]+200)])
		}
		c.tests[test]++
	}
	number := func(p *regexp.Regexp) int { return len(p.FindAllStringIndex(code, -1)) }
	c.skips, c.focus = number(l.skips), number(l.focus)
	trivial := map[int]bool{} // where such an assertion begins
	for _, at := range l.trivial.FindAllStringIndex(code, -1) {
		trivial[at[0]] = true
	}
	for _, at := range l.pairs.FindAllStringSubmatchIndex(code, -1) {
		if pair := groups(text, at); pair[0] == pair[1] {
			trivial[at[0]] = true
		}
	}
	c.trivial = len(trivial)
	c.asserts = max(0, number(l.asserts)-len(trivial))
	return c
}

// groups returns the texts of the groups of a match that take part in it.
func groups(text string, at []int) (all []string) {
	for i := 2; i < len(at); i += 2 {
		if at[i] >= 0 {
			all = append(all, text[at[i]:at[i+1]])
		}
	}
	return all
}

// firstString returns the content of the string that a text begins with, after blanks and an opening
// parenthesis.
func firstString(text string) string {
	text = strings.TrimLeft(text, " \t\n(")
	if text == "" || !strings.ContainsRune("'\"`", rune(text[0])) {
		return ""
	}
	content, _, _ := strings.Cut(text[1:], text[:1])
	return content
}
