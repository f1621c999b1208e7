// Package docs_test holds the pages for developers to the code.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = ".."

// architecture returns the text of ARCHITECTURE.md.
func architecture(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A package is a directory of the module with Go files that are not tests.
type pkg struct {
	path    string // below the root, with slashes
	comment bool
}

// packages returns the packages of the module by path.
func packages(t *testing.T) (all []pkg) {
	t.Helper()
	byPath := map[string]*pkg{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			other := name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata")
			if _, err := os.Stat(filepath.Join(name, "go.mod")); other || err == nil && name != root {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if byPath[dir] == nil {
			byPath[dir] = &pkg{path: dir}
		}
		byPath[dir].comment = byPath[dir].comment || file.Doc != nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range byPath {
		all = append(all, *p)
	}
	if len(all) < 50 {
		t.Fatalf("only %d packages were found", len(all))
	}
	slices.SortFunc(all, func(a, b pkg) int { return strings.Compare(a.path, b.path) })
	return all
}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if !p.comment {
			t.Errorf("%s has no package comment", p.path)
		}
	}
}

// Each package has a row in the tables, or is named in the row of a package that it is in; and
// each row is that of a directory.
func TestArchitecturePackages(t *testing.T) {
	t.Parallel()
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|(.*)\\|$").FindAllStringSubmatch(architecture(t), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			rows[name[1]] = row[2]
			if info, err := os.Stat(filepath.Join(root, name[1])); err != nil || !info.IsDir() {
				t.Errorf("ARCHITECTURE.md names %s: %v", name[1], err)
			}
		}
	}
	named := func(name string) bool {
		if _, ok := rows[name]; ok {
			return true
		}
		for i, c := range name {
			if row, ok := rows[name[:i]]; c == '/' && ok && strings.Contains(row, "`"+name[i+1:]+"`") {
				return true
			}
		}
		return false
	}
	for _, p := range packages(t) {
		if !named(p.path) {
			t.Errorf("ARCHITECTURE.md does not name %s", p.path)
		}
	}
}

// Each function that the page names, as `file.go:function`, is declared in that file.
func TestArchitectureFunctions(t *testing.T) {
	t.Parallel()
	steps := regexp.MustCompile("`([a-z_/0-9]+\\.go):([A-Za-z0-9]+)`").FindAllStringSubmatch(architecture(t), -1)
	if len(steps) < 20 {
		t.Errorf("only %d functions are named", len(steps))
	}
	for _, step := range steps {
		name := filepath.Join(root, step[1])
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Name.Name == step[2]
		}) {
			t.Errorf("%s has no function %s", step[1], step[2])
		}
	}
}
