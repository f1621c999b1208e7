package pattern

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// ignored applies the rules to a path and the directories above it.
func ignored(all []Pattern, name string, dir bool) bool {
	for i := range len(name) {
		if name[i] == '/' {
			if excluded, _ := Decide(all, name[:i], true); excluded {
				return true
			}
		}
	}
	excluded, _ := Decide(all, name, dir)
	return excluded
}

// The patterns mean what they mean to git.
func TestLikeGit(t *testing.T) {
	exectest.Need(t, "git")
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "none"), "GIT_CONFIG_NOSYSTEM=1"}
		out, _ := cmd.Output() // fails if nothing is ignored
		return string(out)
	}
	git("", "init", "--quiet")
	var names []string
	for _, a := range []string{"a", "b", ".x", "a.o", "A", "-", "]", `\`, "!a", "#a", "a ", "ab"} {
		names = append(names, a)
		for _, b := range []string{"a", "ab", "b.o"} {
			names = append(names, "d/"+a+"/"+b, "e/"+b)
		}
	}
	for _, name := range names {
		at := filepath.Join(dir, name)
		if _, err := os.Stat(at); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compare := func(fail func(string, ...any), text string) {
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(text), 0o644); err != nil {
			fail("%v", err)
		}
		theirs := map[string]bool{}
		for name := range strings.SplitSeq(git(strings.Join(names, "\x00"), "check-ignore", "-z", "--stdin",
			"--no-index"), "\x00") {
			theirs[name] = true
		}
		all := ParseFile(text)
		for _, name := range names {
			if got := ignored(all, name, false); got != theirs[name] {
				fail("%q: %q is ignored: %v, with git %v", text, name, got, theirs[name])
			}
		}
	}
	for _, text := range []string{
		"", "# a\n", "a\n", "/a\n", "a/\n", "d/a\n", "d/a/\n", "*\n", "*\n!a\n", "**/a\n", "d/**\n", "d/**/a\n", "**\n",
		"a*\n", "[ab]\n",
		"[!a]\n", "[^a]\n", "[a-b]b\n", "[]]\n", `\!a` + "\n", `\#a` + "\n", `a\ ` +
			"\n", "a \n", "a   \n", "a\r\n", "[[:upper:]]\n", "[a\n",
		"a\\\n", "?\n", ".*\n", "!a\n", "/\n", "//\n", "d//a\n", "**/\n", "*/a\n", "d/*/a\n", "\ufeffa\n", `\\` +
			"\n", "[[:none:]]\n", "[-a]\n", "[a-]\n",
		`[\]]` + "\n", "d/**b/a\n", "e**\n", "d\n!d/a\n", "d/*\n!d/a\n", "***\n", "d/***/a\n", "[b-a]\n", "\\\n", " \n",
		"!\n", "!/\n",
	} {
		compare(t.Errorf, text)
	}
	piece := rapid.SampledFrom([]string{"a", "b", "*", "**", "/", "?", "[a-b]", "[!b]", "!", ".", "o", "d", "e", `\`,
		" ", "\n", "-", "]", "#"})
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(rt, "pieces"), "") + "\n"
		if strings.Contains(text, `\/`) {
			rt.Skip("an escaped slash")
		}
		compare(rt.Fatalf, text)
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	l, err := NewList(".github", "/docs/adr/", "*.lock", "Prüfung", "src/core", "a/**/z")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		".github": ".github", ".github/workflows/x.yml": ".github", ".GitHub/x": ".github", "sub/.github/x": ".github",
		".g\u200cithub/x": ".github", "go.lock": "*.lock", "a/B.LOCK": "*.lock", "docs/adr/1.md": "/docs/adr/",
		"docs/adr":        "/docs/adr/",
		"Pru\u0308fung/x": "Prüfung", "PRÜFUNG": "Prüfung", "src/core/deep/x": "src/core", "a/b/c/z/y": "a/**/z",
		".github-x": "", "x.github": "", "sub/docs/adr/1.md": "", "src/corex": "", "src": "", "go.locks": "",
		"x/src/core": "", ".": "",
	} {
		if got, ok := l.Match(name); got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for dir, want := range map[string]bool{".": true, "docs": true, "docs/adr": true, "src": true, "a": true,
		"b": false, "docs/other": false, "do": false} {
		if _, got := l.Below(dir); got != want {
			t.Errorf("below %q: %v, want %v", dir, got, want)
		}
	}
	for _, text := range []string{"", "# x", "!a", "/", "a//b", "../a", "a/./b", "[a", "a/[b", " ", `a\`, `a\/b`} {
		if _, err := NewList(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	for _, text := range []string{"./a", "[a]", `\[a`, "[]a]", "[[:digit:]]"} {
		if _, err := NewList(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"abc", "ABC", "aBc", "a\ufeffbc"}, {"é", "e\u0301", "É", "E\u0301"}, {"k", "K", "\u212a"}, {"s", "ſ"}, {"Å",
			"\u212b", "A\u030a"}, {"σ", "ς", "Σ"},
	} {
		for _, name := range same[1:] {
			if Fold(name) != Fold(same[0]) {
				t.Errorf("Fold(%q) = %q, Fold(%q) = %q", name, Fold(name), same[0], Fold(same[0]))
			}
		}
	}
	if Fold("a") == Fold("b") || Fold("e") == Fold("é") {
		t.Error("different names are the same")
	}
}

func TestIsGit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		".git": true, ".GIT": true, ".gi\u200dt": true, "git~1": true, "GIT~1": true, ".git ": true, ".git.": true,
		".git. .": true, ".git::$INDEX_ALLOCATION": true,
		".gitignore": false, "git": false, ".github": false, "git~2": false, ".git-x": false,
	} {
		if got := IsGit(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// Folding twice changes nothing, and a name matches itself.
func FuzzList(f *testing.F) {
	f.Add("a/b.go", "*.go")
	f.Add("A\u0308/\xff", "[a-z]/**")
	f.Fuzz(func(t *testing.T, name, text string) {
		if folded := Fold(name); Fold(folded) != folded {
			t.Fatalf("Fold(%q) = %q, and of that %q", name, folded, Fold(folded))
		}
		l, err := NewList(text)
		if err == nil {
			l.Match(path.Clean("/" + name)[1:])
			l.Below(path.Clean(name))
		}
	})
}

// Matching takes no exponential time.
func TestMatchIsBounded(t *testing.T) {
	t.Parallel()
	l, err := NewList(strings.Repeat("**/a/", 30)+"b", strings.Repeat("*a", 100)+"b")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Match(strings.Repeat("a/", 400) + strings.Repeat("a", 2000)); ok {
		t.Error("it matches")
	}
}
