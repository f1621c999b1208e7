package safename

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOf(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", Max)
	for _, same := range []string{"a", "7", "fix-login", "a--b", "a-", "con1", "com", "com10", "lpt-1", long} {
		if got := Of(same); got != same {
			t.Errorf("%q: %q, expected no change", same, got)
		}
	}
	for text, base := range map[string]string{
		"":                   "x",
		".":                  "x",
		"..":                 "x",
		"---":                "x",
		"-rf":                "rf",
		"日本":                 "x",
		"Fix":                "fix",
		"FIX":                "fix",
		"fix!":               "fix",
		"../../etc/passwd":   "etc-passwd",
		"a.lock":             "a-lock",
		"a.":                 "a",
		"refs/heads/main":    "refs-heads-main",
		"a\nb\x00c":          "a-b-c",
		"con":                "con",
		"COM1":               "com1",
		"lpt0":               "lpt0",
		"x@{1}~2^:y":         "x-1-2-y",
		"\xff\xfe":           "x",
		long + "a":           strings.Repeat("a", 39),
		"a" + long + "/../b": strings.Repeat("a", 39),
	} {
		got := Of(text)
		if !regexp.MustCompile("^" + base + "-[a-z2-7]{8}$").MatchString(got) {
			t.Errorf("%q: %q, expected %s and a hash", text, got, base)
		}
		if !Valid(got) {
			t.Errorf("%q: %q is not valid", text, got)
		}
	}
	if Of("Fix") == Of("FIX") || Of("fix!") == Of("fix?") {
		t.Error("two texts have one name")
	}
}

// check fails unless the name of a text has all properties that the package promises.
func check(t interface{ Fatalf(string, ...any) }, text string) {
	name := Of(text)
	switch {
	case !regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,47}$`).MatchString(name):
		t.Fatalf("%q: the name %q has other characters", text, name)
	case regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])$`).MatchString(name):
		t.Fatalf("%q: the name %q is a device", text, name)
	case Of(name) != name:
		t.Fatalf("%q: the name of the name %q is %q", text, name, Of(name))
	case Valid(text) != (name == text):
		t.Fatalf("%q: valid %v, but its name is %q", text, Valid(text), name)
	}
}

// checkPair fails if two texts have the same name and neither is the name of the other, also in a
// file system that ignores case.
func checkPair(t interface{ Fatalf(string, ...any) }, a, b string) {
	if a != b && strings.EqualFold(Of(a), Of(b)) && a != Of(b) && b != Of(a) {
		t.Fatalf("%q and %q have the name %q", a, b, Of(a))
	}
}

func TestOfAnyText(t *testing.T) {
	t.Parallel()
	similar := rapid.StringMatching(`[aA.\-/ ]{0,6}|[aA]{45,52}|(con|COM1|nul)[.a]?`)
	text := rapid.OneOf(rapid.String(), similar, rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string {
		return string(b)
	}))
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		check(t, a)
		checkPair(t, a, b)
	})
}

func FuzzOf(f *testing.F) {
	for _, text := range []string{"", "..", "Fix", "a.lock", "-x", "con", strings.Repeat("a", 49)} {
		f.Add(text, strings.ToUpper(text))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		check(t, a)
		checkPair(t, a, b)
	})
}

// Git accepts each name as a part of a reference.
func TestOfForGit(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ".", "..", "-", "a..b", "a.lock", "@", "@{", "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", `a\b`, "a/",
		"/a", "a//b", "\x7f", "\n", "HEAD", "日本", strings.Repeat("/", 100), strings.Repeat("é", 100),
	} {
		name := Of(text)
		for _, ref := range []string{"refs/heads/" + name, "refs/heads/" + name + "/a", "refs/heads/a/" + name} {
			if out, err := exec.Command("git", "check-ref-format", ref).CombinedOutput(); err != nil {
				t.Errorf("%q: git refuses %s: %v %s", text, ref, err, out)
			}
		}
		if out, err := exec.Command("git", "check-ref-format", "--branch", Of(text)).CombinedOutput(); err != nil {
			t.Errorf("%q: git refuses the branch %s: %v %s", text, Of(text), err, out)
		}
	}
}
