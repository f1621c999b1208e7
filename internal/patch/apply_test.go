package patch

import (
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// testCase is a case of testdata/cases.txtar.
type testCase struct {
	name                string
	in, out             map[string]string
	patch, report, gone string
}

func cases(t *testing.T) (all []*testCase) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/cases.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, &testCase{name: name, in: map[string]string{}, out: map[string]string{}})
		}
		c, text := all[len(all)-1], string(f.Data)
		dir, path, _ := strings.Cut(part, "/")
		switch dir {
		case "in":
			c.in[path] = text
		case "out":
			c.out[path] = text
		case "patch":
			c.patch = text
		case "report":
			c.report = text
		case "gone":
			c.gone = text
		default:
			t.Fatalf("%s: unexpected", f.Name)
		}
	}
	return all
}

// plan applies a patch to texts, and returns the report, the texts that changed, and the files that are deleted.
func plan(t *testing.T, files map[string]string, patch string) (report string, out map[string]string, gone string) {
	t.Helper()
	out = map[string]string{}
	p, err := Parse(patch)
	if err != nil {
		return err.Error() + "\n", out, ""
	}
	changes, r := p.Plan(func(name string) (*Content, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return &Content{Text: text}, nil
	})
	for _, c := range changes {
		if c.New == nil {
			gone += c.Path + "\n"
		} else {
			out[c.Path] = c.New.Text
		}
	}
	return strings.Join(r.Lines(), "\n") + "\n", out, gone
}

func TestCases(t *testing.T) {
	t.Parallel()
	for _, c := range cases(t) {
		report, out, gone := plan(t, c.in, c.patch)
		if d := cmp.Diff([]any{c.report, c.out, c.gone}, []any{report, out, gone}); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if gone != "" || len(out) == 0 {
			continue
		}
		// The second time, there is nothing to do.
		after := maps.Clone(c.in)
		maps.Copy(after, out)
		if again, out, _ := plan(t, after, c.patch); len(out) > 0 {
			t.Errorf("%s: applied twice:\n%s", c.name, again)
		}
	}
}

// names begins a diff of the file f.
const names = "--- a/f\n+++ b/f\n"

// The line ends of a file are kept, and its last one, unless the diff says otherwise.
func TestLineEnds(t *testing.T) {
	t.Parallel()
	diff := names + "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three\n"
	for _, c := range []struct{ name, file, patch, want string }{
		{"LF", "one\ntwo\nthree\n", diff, "one\n2\n2b\nthree\n"},
		{"CRLF", "one\r\ntwo\r\nthree\r\n", diff, "one\r\n2\r\n2b\r\nthree\r\n"},
		{"mixed", "one\ntwo\r\nthree\n", diff, "one\n2\r\n2b\nthree\n"},
		{"CRLF in the patch", "one\ntwo\nthree\n", strings.ReplaceAll(diff, "\n", "\r\n"), "one\n2\n2b\nthree\n"},
		{"no final newline", "one\ntwo\nthree", diff, "one\n2\n2b\nthree"},
		{"no final CRLF", "one\r\ntwo\r\nthree", diff, "one\r\n2\r\n2b\r\nthree"},
		{
			"appended without a newline", "one\ntwo", names + "@@ -1,2 +1,3 @@\n one\n two\n+three\n",
			"one\ntwo\nthree",
		},
		{
			"newline added", "one\ntwo",
			names + "@@ -1,2 +1,2 @@\n one\n-two\n\\ No newline at end of file\n+two\n", "one\ntwo\n",
		},
		{
			"newline removed", "one\ntwo\n",
			names + "@@ -1,2 +1,2 @@\n one\n-two\n+two\n\\ No newline at end of file\n", "one\ntwo",
		},
		{"whole file", "one\r\ntwo", "f.txt\n```\n1\n2\n```\n", "1\r\n2"},
		{"emptied", "one\n", names + "@@ -1,1 +0,0 @@\n-one\n", ""},
		{"filled", "", names + "@@ -0,0 +1,1 @@\n+one\n", "one\n"},
	} {
		report, out, _ := plan(t, map[string]string{"f": c.file, "f.txt": c.file}, c.patch)
		if len(out) != 1 || out["f"]+out["f.txt"] != c.want {
			t.Errorf("%s: %q, want %q; %s", c.name, out, c.want, report)
		}
	}
}

// A file of 100 lines or more does not become a tenth of it by leaving lines out.
func TestShrink(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return strings.Repeat("a line of text\n", n) }
	whole := func(n int) string { return "a.txt\n```\n" + text(n) + "```\n" }
	for _, c := range []struct {
		old, now int
		refused  bool
	}{
		{1000, 800, false}, {1000, 50, true}, {1000, 100, false}, {1000, 99, true}, {100, 9, true}, {99, 1, false},
		{10, 100, false},
	} {
		files := map[string]string{"a.txt": text(c.old)}
		report, out, _ := plan(t, files, whole(c.now))
		want := fmt.Sprintf("would shrink from %d to %d lines", c.old, c.now)
		if got := strings.Contains(report, want); got != c.refused || len(out) == 0 != c.refused {
			t.Errorf("%d to %d lines: %s%v", c.old, c.now, report, out)
		}
		again := "*** Begin Patch\n*** Delete File: a.txt\n*** Add File: a.txt\n" +
			strings.Repeat("+a line of text\n", c.now) + "*** End Patch\n"
		if report, out, _ = plan(t, files, again); strings.Contains(report, want) != c.refused {
			t.Errorf("deleted and added, %d to %d lines: %s%v", c.old, c.now, report, out)
		}
	}
	diff := "--- a/a.txt\n+++ b/a.txt\n@@ -1,200 +1,1 @@\n" + strings.Repeat("-a line of text\n", 199) +
		" a line of text\n"
	if report, out, _ := plan(t, map[string]string{"a.txt": text(200)}, diff); out["a.txt"] != text(1) {
		t.Errorf("by a diff: %s", report)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	alike := strings.Repeat(" x = 1\n", 9999)
	for name, c := range map[string]struct{ file, patch, want string }{
		"patch":  {"", strings.Repeat("x", MaxBytes+1), "more than 10485760 bytes"},
		"lines":  {"", strings.Repeat("\n", maxLines+1), "more than 500000 lines"},
		"file":   {strings.Repeat("x", MaxBytes+1), names + "@@ -1 +1 @@\n-a\n+b\n", "more than 10485760 bytes"},
		"binary": {"a\x00\n", names + "@@ -1 +1 @@\n-a\n+b\n", "f: refused: the file is binary"},
		"result": {"a\n", names + "@@ -1 +1 @@\n-a\n+b\x00\n", "f: refused: the file is binary"},
		"git binary": {
			"", "diff --git a/f b/f\nindex 1..2 100644\nGIT binary patch\nliteral 1\n",
			"line 3: binary files are not supported",
		},
		"link": {
			"", "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
			"only regular files",
		},
		"hunk": {
			"", names + "@@ ... @@\n" + strings.Repeat("+x\n", maxHunkLines+1), "more than 20000 lines",
		},
		"hunks": {"", names + "" + strings.Repeat("@@\n+x\n", maxHunks+1), "more than 10000 hunks"},
		"files": {"", strings.Repeat(names+"@@ -1 +1 @@\n-a\n+b\n", maxFiles+1), "more than 1000 files"},
		"block": {"", "f.txt\n<<<<<<< SEARCH\n" + strings.Repeat("x\n", maxHunkLines+1), "more than 20000 lines"},
		"look-alikes": {
			strings.Repeat("x = 1\n", 100_000),
			names + "@@ ... @@\n" + alike + "-x = 2\n" + alike + "@@ ... @@\n" + alike + "+x = 2\n" + alike,
			"too many places in the file look alike",
		},
	} {
		report, out, _ := plan(t, map[string]string{"f": c.file}, c.patch)
		if !strings.Contains(report, c.want) || len(out) > 0 {
			t.Errorf("%s: %.200q, want %q", name, report, c.want)
		}
	}
}

func TestSyntax(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"", "line 1: no edits found"},
		{"Only prose.\n", "line 1: no edits found"},
		{"```go\npackage a\n```\n", "line 1: no edits found"},
		{names + "", "line 1: the diff has no hunks"},
		{"@@ -1 +1 @@\n-a\n+b\n", "line 1: the diff names no file"},
		{names + "@@ -1 +1 @@\n", "line 3: the patch ends before the last line"},
		{names + "@@ -1,9 +1,9 @@\n a\n-b\n+c\n+d\n", "line 3: the patch ends before the last line"},
		{names + "@@ -1 +1 @@\n a\n", "line 3: the hunk changes nothing"},
		{names + "@@ -1 +1 @@\n-a\n+a\n", "line 3: the hunk changes nothing"},
		{"Look:\n```diff\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", "line 2: the code block is not closed"},
		{"f.go\n```go\npackage a\n", "line 2: the code block of f.go is not closed"},
		{"diff --git a/f b/g\ncopy from f\ncopy to g\n", "line 2: copies of files"},
		{"<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "line 1: the search and replace block names no"},
		{"f.go\n<<<<<<< SEARCH\na\n=======\nb\n", "line 2: the search and replace block does not"},
		{"f.go\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "line 4: the block has no line ======="},
		{
			"f.go\n<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n",
			"line 6: the block has more than one line",
		},
		{"f.go\n<<<<<<< SEARCH\na\n=======\na\n>>>>>>> REPLACE\n", "line 2: the hunk changes nothing"},
		{"*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n", `line 1: "*** End Patch" is missing`},
		{"*** Begin Patch\n*** Update File: f\n*** End Patch\n", "line 2: the update of f has no hunks"},
		{"*** Begin Patch\n*** Add File: f\nx\n*** End Patch\n", "line 3: expected a line of the new file"},
		{"*** Begin Patch\n*** Rename File: f\n*** End Patch\n", "line 2: expected an operation"},
		{"*** Begin Patch\n*** Update File: f\n@@ func f\n+a\n*** End Patch\n", `write "@@ after NAME"`},
		{
			"*** Begin Patch\n*** Update File: f\n@@\n*** Oops\n-a\n+b\n*** End Patch\n",
			"line 4: expected the lines of a hunk",
		},
	} {
		if _, err := Parse(c[0]); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%q: %v, want %q", c[0], err, c[1])
		}
	}
}

func TestPathLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"internal/a.go": "internal/a.go", "**internal/a.go**": "internal/a.go", "### `a.go`:": "a.go",
		"File: a.go": "a.go", "`Makefile`": "Makefile", "**Makefile**:": "Makefile", "Makefile": "", "Done.": "",
		"see a.go": "", "and/or": "and/or", "https://x.org/a.go": "", "---": "", "...": "", "./a": "./a", "dir/": "",
		"": "", "Result:": "", "a.go:": "a.go",
	} {
		if got := pathLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
