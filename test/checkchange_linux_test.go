package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// changedRepo returns a repository with the change of docs/changes.md.
func changedRepo(t *testing.T) string {
	t.Helper()
	exectest.Need(t, "git")
	dir := t.TempDir()
	cmd := exec.Command("sh", "-euc", `git init -q; mkdir .github; echo 'on: push' >.github/ci.yml
		printf 'package a\n\nimport "testing"\n\nfunc TestOne(t *testing.T) {\n\tif one() != 1 {\n\t\tt.Error("not 1")\n\t}\n}\n' >a_test.go
		git add -A; git commit -qm first; echo 'on: never' >.github/ci.yml; sed -i 's/if one/t.Skip()\n\tif one/' a_test.go`)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, ".git", "none"),
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t.invalid", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t.invalid"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// The examples in docs/changes.md are what the commands print.
func TestCheckChangeDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "changes.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := changedRepo(t)
	seen := 0
	for _, b := range fenced.FindAllStringSubmatch(string(page), -1) {
		call, shown, ok := strings.Cut(b[2], "\n")
		if b[1] != "console" || !ok {
			continue
		}
		code := 0
		if strings.Contains(shown, "refused") {
			code = 1
		}
		args := strings.Fields(strings.TrimPrefix(call, "$ coppice "))
		if out, err := coppice(t, dir, code, args...); out != shown || err != "" {
			t.Errorf("%s prints\n%s%s\nthe page shows\n%s", call, out, err, shown)
		}
		seen++
	}
	if seen != 2 {
		t.Errorf("%d examples", seen)
	}
}

func TestCheckChange(t *testing.T) {
	t.Parallel()
	dir := changedRepo(t)
	out, _ := coppice(t, filepath.Join(dir, ".github"), 1, "check-change", "--json", "--base", "HEAD", dir)
	var c struct {
		Base, Tree string
		Files      []struct{ Path, Status string }
		Totals     struct{ Files, Added, Deleted int }
		Findings   []struct{ Rule, Path, Found, Allowed string }
		Allowed    bool
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err, out)
	}
	if len(c.Base) != 40 || len(c.Tree) != 40 || len(c.Files) != 2 || c.Totals.Files != 2 || len(c.Findings) != 3 ||
		c.Allowed {
		t.Errorf("%s", out)
	}
	for args, expected := range map[string]string{
		"--mode none":          `unknown kind of rules "none": expected maintenance or evolution`,
		"--protect !x":         `pattern "!x": expected a name or a pattern`,
		"--base none":          "none is no commit",
		"none":                 "none: no such file or directory",
		"a b":                  "expected at most one DIR",
		"--base --output=/x .": "--output=/x is no commit",
	} {
		if _, err := coppice(t, dir, 2, append([]string{"check-change"},
			strings.Fields(args)...)...); !strings.Contains(err, expected) {
			t.Errorf("%q: %q, expected %q", args, err, expected)
		}
	}
	if _, err := coppice(t, t.TempDir(), 2, "check-change"); !strings.Contains(err, "not a git repository") {
		t.Errorf("no repository: %q", err)
	}
	for i := range 60 {
		write(t, filepath.Join(dir, "a\x1b[m"+strings.Repeat("x", i)+"_test.go"), "")
	}
	if out, _ = coppice(t, dir, 1, "check-change"); !strings.Contains(out, "\n74 more findings\n") ||
		strings.Contains(out, "\x1b") {
		t.Errorf("many findings:\n%s", out)
	}
}
