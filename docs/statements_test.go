package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each statement of the source of pipelines names tests that hold it, and these exist.
func TestStatements(t *testing.T) {
	page, err := os.ReadFile("adr/0008-a-failed-attempt-is-context.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d|P\d) \| (.+) \| (.*) \|$`).FindAllStringSubmatch(string(page), -1)
	if len(rows) != 63 {
		t.Errorf("%d statements", len(rows))
	}
	for _, row := range rows {
		named := regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(row[3], -1)
		if len(named) == 0 {
			t.Errorf("no test of %q", row[2])
		}
		for _, n := range named {
			if !hasTest(t, n[1], n[2]) {
				t.Errorf("%q names %s.%s, which does not exist", row[2], n[1], n[2])
			}
		}
	}
}

// hasTest reports whether a package has a test.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
