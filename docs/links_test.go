package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInLink = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks checks that each link between pages leads to a file, and to a heading in it.
func TestLinks(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, pattern := range []string{"../*.md", "*.md", "*/*.md", "../bench/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			for _, m := range link.FindAllStringSubmatch(prose(t, page), -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				seen++
				name, anchor, _ := strings.Cut(m[1], "#")
				target := page
				if name != "" {
					target = filepath.Join(filepath.Dir(page), name)
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: the link %s leads to no file", page, m[1])
				} else if anchor != "" && !hasHeading(prose(t, target), anchor) {
					t.Errorf("%s: the link %s leads to no heading", page, m[1])
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d links were found", seen)
	}
}

// prose returns the text of a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return codeBlock.ReplaceAllString(string(text), "")
}

// hasHeading reports whether a page has a heading that GitHub gives this anchor.
func hasHeading(page, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		id := notInLink.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(id, " ", "-") == anchor {
			return true
		}
	}
	return false
}
