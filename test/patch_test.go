package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The examples in docs/patch.md print what the page shows.
func TestPatchDocs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "patch.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, dir := string(data), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "shop"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "shop", "total.go"), block(t, page, "go"))
	write(t, filepath.Join(dir, "fix.diff"), block(t, page, "diff"))
	sh := func(command string) string {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	shown := block(t, page, "console")
	var got strings.Builder
	for line := range strings.Lines(shown) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			got.WriteString(line + sh(command))
		}
	}
	if got.String() != shown {
		t.Errorf("it is\n%s\nshown is\n%s", got.String(), shown)
	}
	if out := sh(block(t, page, "sh")); out != "shop/total.go: hunk 1 applied\nshop/total.go: hunk 2 applied\n" {
		t.Error(out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "shop", "total.go"))
	if want := "package shop\n\nimport \"slices\"\n\n// Total"; err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	write(t, file, "first line\nsecond line\n")
	write(t, filepath.Join(dir, "ok.diff"),
		"--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n first line\n-second line\n+2nd line\n")
	write(t, filepath.Join(dir, "bad.diff"), "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-nothing like it\n+2nd line\n"+
		"--- a/\x1b[31m.txt\n+++ b/\x1b[31m.txt\n@@ -1 +1 @@\n-a\n+b\n")
	write(t, filepath.Join(dir, "prose.txt"), "I can't do that.\n")
	for args, want := range map[string]struct {
		code     int
		out, err string
	}{
		"bad.diff": {1, "a.txt: hunk 1 does not apply: its lines are not in the file (line 3 of the patch)\n" +
			".txt: refused: the path has control characters (line 6 of the patch)\n", "coppice: nothing was applied\n"},
		"prose.txt": {1, "", "coppice: prose.txt:1: no edits found: expected a diff, a search and replace block, " +
			"or files as code blocks below their paths\n"},
		"none":              {1, "", "coppice: open none: no such file or directory\n"},
		"-C none ok.diff":   {1, "", "coppice: open none: no such file or directory\n"},
		"a b":               {2, "", "coppice: unexpected argument \"b\": coppice patch takes one file\n"},
		"--chekc ok.diff":   {2, "", "coppice: unknown flag: --chekc; did you mean --check?\n"},
		"--dry-run ok.diff": {0, "a.txt: hunk 1 applies\n", ""},
		"--json none": {1, `{"applied":false,"files":[],"error":"open none: no such file or directory"}` + "\n",
			""},
	} {
		out, err := coppice(t, dir, want.code, append([]string{"patch"}, strings.Fields(args)...)...)
		if out != want.out || err != want.err {
			t.Errorf("%s: %q %q, want %q %q", args, out, err, want.out, want.err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "first line\nsecond line\n" {
		t.Fatalf("the file was changed: %q %v", text, err)
	}
	out, _ := coppice(t, dir, 0, "patch", "--json", "ok.diff")
	var r struct {
		Applied bool
		Files   []struct {
			Path, Action string
			Hunks        []struct{ Hunk, Line, At int }
		}
	}
	err := json.Unmarshal([]byte(out), &r)
	if err != nil || !r.Applied || len(r.Files) != 1 || r.Files[0].Path != "a.txt" || r.Files[0].Hunks[0].At != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "first line\n2nd line\n" {
		t.Errorf("%q %v", text, err)
	}
}
