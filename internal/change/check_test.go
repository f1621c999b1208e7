package change

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func newRules(t *testing.T, kind Kind, protect ...string) Rules {
	t.Helper()
	r, err := NewRules(kind, protect, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// texts returns findings as "rule: text", with "review" in front if one does not refuse.
func texts(all []Finding) string {
	var b strings.Builder
	for _, f := range all {
		if f.Review {
			b.WriteString("review ")
		}
		b.WriteString(string(f.Rule) + ": " + f.String() + "\n")
	}
	return b.String()
}

func modified(name string, added, deleted int) File {
	return File{Path: name, Status: Modified, Old: Side{Mode: Regular, ID: "1"}, New: Side{Mode: Regular, ID: "2"},
		Added: added, Deleted: deleted}
}

func added(name string, mode Mode) File {
	return File{Path: name, Status: Added, New: Side{Mode: mode, ID: "2"}, Added: 1}
}

func deleted(name string, lines int, size int64) File {
	return File{Path: name, Status: Deleted, Old: Side{Mode: Regular, ID: "1", Lines: lines, Size: size},
		Deleted: lines}
}

func renamed(from, to string) File {
	return File{Path: to, OldPath: from, Status: Renamed, Old: Side{Mode: Regular, ID: "1"},
		New: Side{Mode: Regular, ID: "1"}}
}

func resized(oldLines, newLines int, oldSize, newSize int64) File {
	f := modified("a.go", 0, 0)
	f.Old.Lines, f.New.Lines, f.Old.Size, f.New.Size = oldLines, newLines, oldSize, newSize
	return f
}

func symlink(name, target string) File {
	return File{Path: name, Status: Added, New: Side{Mode: Symlink, ID: "2", Target: target}, Added: 1}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	typed := File{Path: "a", Status: TypeChanged, Old: Side{Mode: Regular, ID: "1"}, New: Side{Mode: Submodule,
		ID: "2"}}
	chmod := File{Path: "a", Status: Modified, Old: Side{Mode: Regular, ID: "1"}, New: Side{Mode: Executable, ID: "1"}}
	protectedMode := chmod
	protectedMode.Path = ".github/x"
	binary := modified("a.png", 1, 1)
	binary.New.Binary = true
	linked := symlink("a", "b")
	for name, tt := range map[string]struct {
		files                  []File
		maintenance, evolution string
	}{
		"empty": {nil, "empty: nothing was changed; allowed: a change\n",
			"empty: nothing was changed; allowed: a change\n"},
		"small":    {[]File{modified("a.go", 100, 50), modified("b.go", 0, 0)}, "", ""},
		"new file": {[]File{added("a.go", Regular)}, "", ""},
		"too many files": {[]File{modified("a", 1, 0), modified("b", 1, 0), modified("c", 1, 0)},
			"files: 3 files were changed; allowed: at most 2 files in maintenance mode\n", ""},
		"too many lines": {[]File{modified("a", 1000, 51)},
			"lines: 1,051 lines were changed (1,000 added, 51 deleted); allowed: at most 150 lines in maintenance mode\n", ""},
		"one line more": {[]File{modified("a", 100, 51)},
			"lines: 151 lines were changed (100 added, 51 deleted); allowed: at most 150 lines in maintenance mode\n",
			""},
		"test": {[]File{modified("x/a_test.go", 1, 1)},
			"test: x/a_test.go: a test was modified; allowed: no change of *_test.go\n",
			"review test: x/a_test.go: a test was modified; allowed: what a person approves\n"},
		"new test": {[]File{added("a_test.go", Regular)},
			"test: a_test.go: a test was added; allowed: no change of *_test.go\n", ""},
		"test moved away": {[]File{renamed("a_test.go", "a_check.go")},
			"test: a_test.go: a test was renamed to a_check.go; allowed: no change of *_test.go\n",
			"review test: a_test.go: a test was renamed to a_check.go; allowed: what a person approves\n"},
		"validation": {[]File{modified("Makefile", 1, 1)},
			"validation: Makefile: what decides about checks was modified; allowed: no change of Makefile\n",
			"review validation: Makefile: what decides about checks was modified; allowed: what a person approves\n"},
		"protected": {[]File{modified(".GITHUB/x", 1, 1)},
			"protected: .GITHUB/x: modified; allowed: no change of .github\n",
			"protected: .GITHUB/x: modified; allowed: no change of .github\n"},
		"protected left": {[]File{renamed(".github/x", "y")},
			"protected: .github/x: renamed to y; allowed: no change of .github\n",
			"protected: .github/x: renamed to y; allowed: no change of .github\n"},
		"protected into": {[]File{renamed("y", ".github/x")},
			"protected: .github/x: renamed from y; allowed: no change of .github\n",
			"protected: .github/x: renamed from y; allowed: no change of .github\n"},
		"protected mode": {[]File{protectedMode},
			"protected: .github/x: changed in its mode from 100644 to 100755; allowed: no change of .github\nmode: .github/x: a file became an executable; allowed: no change of the mode in maintenance mode\n", "protected: .github/x: changed in its mode from 100644 to 100755; allowed: no change of .github\n"},
		"only a prefix": {[]File{modified(".github-x", 1, 1)}, "", ""},
		"git": {[]File{added("a/.Git/x", Regular)},
			"protected: a/.Git/x: added; allowed: no change of .git\n",
			"protected: a/.Git/x: added; allowed: no change of .git\n"},
		"executable": {[]File{added("a", Executable)},
			"mode: a: an executable was added; allowed: no new executable in maintenance mode\n", ""},
		"chmod": {[]File{chmod},
			"mode: a: a file became an executable; allowed: no change of the mode in maintenance mode\n", ""},
		"link": {[]File{linked},
			"mode: a: a symbolic link was added; allowed: no new or changed symbolic link in maintenance mode\n", ""},
		"submodule": {[]File{typed},
			"mode: a: a submodule was changed from a file to a submodule; allowed: no change of a submodule\n",
			"review mode: a: a submodule was changed from a file to a submodule; allowed: what a person approves\n"},
		"binary": {[]File{binary},
			"binary: a.png: binary content was modified; allowed: text in maintenance mode\n", ""},
		"deleted": {[]File{deleted("a", 5, 50)},
			"deleted: a: a file of 5 lines was deleted; allowed: no deletion in maintenance mode\n", ""},
		"large deleted": {[]File{deleted("a", 100, 500)},
			"deleted: a: a file of 100 lines was deleted; allowed: no deletion in maintenance mode\n",
			"review deleted: a: a file of 100 lines was deleted; allowed: what a person approves\n"},
		"1000 to 50": {[]File{resized(1000, 50, 20000, 1900)},
			"truncated: a.go: 50 of 1,000 lines are left; allowed: at least 10 %\n",
			"truncated: a.go: 50 of 1,000 lines are left; allowed: at least 10 %\n"},
		"1000 to 100": {[]File{resized(1000, 100, 20000, 2000)}, "", ""},
		"1000 to 99": {[]File{resized(1000, 99, 20000, 2000)},
			"truncated: a.go: 99 of 1,000 lines are left; allowed: at least 10 %\n",
			"truncated: a.go: 99 of 1,000 lines are left; allowed: at least 10 %\n"},
		"99 to 0": {[]File{resized(99, 0, 2000, 0)}, "", ""},
		"10 KB to 1 KB": {[]File{resized(10, 10, 10240, 1023)},
			"truncated: a.go: 1,023 of 10,240 bytes are left; allowed: at least 10 %\n",
			"truncated: a.go: 1,023 of 10,240 bytes are left; allowed: at least 10 %\n"},
		"less than 10 KB": {[]File{resized(10, 10, 10239, 5)}, "", ""},
		"blank lines": {[]File{resized(1000, 1000, 20000, 1000)},
			"truncated: a.go: 1,000 of 20,000 bytes are left; allowed: at least 10 %\n",
			"truncated: a.go: 1,000 of 20,000 bytes are left; allowed: at least 10 %\n"},
		"name": {[]File{modified("docs\n\x1b[m/x_test.go", 1, 1)},
			`test: "docs\n\x1b[m/x_test.go": a test was modified; allowed: no change of *_test.go` +
				"\n", `review test: "docs\n\x1b[m/x_test.go": a test was modified; allowed: what a person approves` +
				"\n"},
	} {
		for kind, want := range map[Kind]string{Maintenance: tt.maintenance, Evolution: tt.evolution} {
			got := Check(&Change{Files: tt.files}, newRules(t, kind, ".github"))
			if d := cmp.Diff(want, texts(got)); d != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, kind, d)
			}
			if Refused(got) != (want != "" && !strings.HasPrefix(want, "review")) {
				t.Errorf("%s, %s: refused: %v", name, kind, Refused(got))
			}
		}
	}
}

func TestCheckLinks(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"b": "", "sub/../b": "", "docs": "", ".github-x": "",
		".github": ".github", "./.github/x": ".github", "sub/../.GitHub": ".github", "..": "out", "../../x": "out",
		"/etc/passwd": "out",
		".":           ".git", "": ".git", "sub/..": ".git", "chain": ".github", "chain/x": ".github", "chain/..": ".git",
		"out/x": "out", "loop": "out",
		".git/hooks": ".git", "api": "/api/internal/**", "api/internal": "/api/internal/**", "locks": "locks/a.lock",
		"link": "out",
	} {
		c := &Change{Files: []File{symlink("link", target)}, present: []string{"b", "docs/x", "locks/a.lock", "sub/x"},
			links: links{"link": target, "chain": ".github", "out": "../other", "loop": "loop2", "loop2": "loop"}}
		got := texts(Check(c, newRules(t, Evolution, ".github", "/api/internal/**", "*.lock")))
		switch {
		case want == "" && got != "",
			want == "out" && !strings.Contains(got, "leads out of the work tree or nowhere"),
			want != "" && want != "out" && !strings.Contains(got, "through which "+want+" could be changed"):
			t.Errorf("a link to %q: %q, want %q", target, got, want)
		}
	}
}

func TestCheckLarge(t *testing.T) {
	t.Parallel()
	c := &Change{TooLarge: "more than 10,000 files", Hidden: []Hidden{{"x", "a repository in the repository"}}}
	want := `hidden: x: a repository in the repository; allowed: what git can record, so that it can be reviewed
too large: the change has more than 10,000 files; allowed: 10,000 files, and 256 MiB in them
`
	if d := cmp.Diff(want, texts(Check(c, newRules(t, Evolution)))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNewRules(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		if _, err := NewRules(kind, []string{"!x"}, nil, nil); err == nil {
			t.Errorf("%s: no error", kind)
		}
	}
	if _, err := NewRules("other", nil, nil, nil); err == nil || !strings.Contains(err.Error(),
		"expected maintenance or evolution") {
		t.Errorf("another kind: %v", err)
	}
	r, err := NewRules(Maintenance, nil, []string{"checks"}, []string{"/policy"})
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(Check(&Change{Files: []File{modified("checks/a", 1, 1), modified("policy/b", 1, 1)}},
		r)); strings.Count(got, "\n") != 2 {
		t.Errorf("with patterns of the user: %s", got)
	}
}

// Of each language, tests and what decides about checks is known, and ordinary files are not.
func TestDefaults(t *testing.T) {
	t.Parallel()
	r := newRules(t, Maintenance)
	for names, is := range map[string]func(string) (string, bool){
		`a/b_test.go a/testdata/x test_a.py a_test.py tests/conftest.py src/__tests__/a.js a.test.ts a.spec.tsx a.test.mjs a.spec.js
		 x/__snapshots__/a.snap tests/it.rs spec/a_spec.rb src/test/java/ATest.java ATest.kt FooTests.cs a.bats t/a.t e2e/a.js x.golden`: r.Tests.Match,
		`.github/workflows/a.yml .gitlab-ci.yml .pre-commit-config.yaml .husky/pre-commit Makefile sub/Makefile a.mk justfile .golangci.yml
		 .golangci.toml .eslintrc.json eslint.config.mjs tsconfig.build.json jest.config.js vitest.config.ts pytest.ini tox.ini setup.cfg ruff.toml
		 clippy.toml .cargo/config.toml .gitattributes .gitignore .gitmodules coppice.toml .coppice/x Aidefile CODEOWNERS .claude/settings.json`: r.Validation.Match,
	} {
		for name := range strings.FieldsSeq(names) {
			if _, ok := is(name); !ok {
				t.Errorf("%s is not known", name)
			}
		}
	}
	for name := range strings.FieldsSeq("main.go a/latest.go contest.py src/lib.rs index.ts README.md docs/testing.md internal/spec/x.go app.js protest.c") {
		_, test := r.Tests.Match(name)
		if _, ok := r.Validation.Match(name); ok || test {
			t.Errorf("%s is taken for a test or for validation", name)
		}
	}
}

func TestCheckPlan(t *testing.T) {
	t.Parallel()
	many := make([]string, maxPlanNames+1)
	for name, tt := range map[string]struct {
		files                  []string
		steps                  []Step
		maintenance, evolution string
	}{
		"empty":          {nil, []Step{{"one", nil}}, "empty", "empty"},
		"small":          {[]string{"a.go", "./b.go"}, []Step{{"one", []string{"a.go", "b.go"}}}, "", ""},
		"case":           {[]string{"a.go", "A.go", "x/../a.go"}, nil, "", ""},
		"files":          {[]string{"a", "b", "c"}, nil, "files", ""},
		"files of steps": {nil, []Step{{"one", []string{"a", "b"}}, {"two", []string{"c"}}}, "files", ""},
		"step":           {nil, []Step{{"one", []string{"a", "b", "c"}}}, "files files", "files"},
		"protected":      {[]string{".github/x"}, nil, "protected", "protected"},
		"dot":            {[]string{"./.github/x"}, nil, "protected", "protected"},
		"parent":         {[]string{"src/../.github/x"}, nil, "protected", "protected"},
		"case of it":     {[]string{".GitHub/x"}, nil, "protected", "protected"},
		"backslash":      {[]string{`.github\x`}, nil, "protected", "protected"},
		"in a step":      {[]string{"a"}, []Step{{"one", []string{".github"}}}, "protected", "protected"},
		"named twice":    {[]string{".github/x"}, []Step{{"one", []string{".github/x"}}}, "protected", "protected"},
		"git":            {[]string{"a/.git/config"}, nil, "protected", "protected"},
		"absolute":       {[]string{"/a"}, nil, "name", "name"},
		"drive":          {[]string{`C:\a`}, nil, "name", "name"},
		"home":           {[]string{"~/a"}, nil, "name", "name"},
		"out":            {[]string{"../a", "a/../../b", ".."}, nil, "name name name", "name name name"},
		"no file":        {[]string{"", ".", "a/.."}, nil, "name name name", "name name name"},
		"hostile": {[]string{"a\nb", "\x1b[m", "\xff", " a", strings.Repeat("a", 2000)}, nil,
			"name name name name name", "name name name name name"},
		"test":              {[]string{"a_test.go"}, nil, "test", ""},
		"validation":        {[]string{"Makefile"}, nil, "validation", ""},
		"more than is read": {many, nil, "too large", "too large"},
	} {
		for kind, want := range map[Kind]string{Maintenance: tt.maintenance, Evolution: tt.evolution} {
			var got []string
			for _, f := range CheckPlan(tt.files, tt.steps, newRules(t, kind, ".github")) {
				got = append(got, string(f.Rule))
				if f.Review || strings.ContainsAny(f.String(), "\n\x1b") || !utf8.ValidString(f.String()) ||
					len(f.String()) > 500 {
					t.Errorf("%s, %s: %+v", name, kind, f)
				}
			}
			if g := strings.Join(got, " "); g != want {
				t.Errorf("%s, %s: %q, want %q", name, kind, g, want)
			}
		}
	}
}
