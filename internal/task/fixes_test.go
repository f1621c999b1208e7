package task

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for command, want := range map[string][]string{
		"go test -run TestLogin ./...":     {"go", "test", "-run", "TestLogin", "./..."},
		" make\ttest ":                     {"make", "test"},
		`go test -run 'TestA|TestB$'`:      {"go", "test", "-run", "TestA|TestB$"},
		`pytest "a b.py::test[x]" c\ d ''`: {"pytest", "a b.py::test[x]", "c d", ""},
		`a "x\"y\\z\n" e'f'"g"`:            {"a", `x"y\z\n`, "efg"},
		`sh -c 'a | b && "c"'`:             {"sh", "-c", `a | b && "c"`},
		`./ä --x=1,2 A=b:c@d%e+f`:          {"./ä", "--x=1,2", "A=b:c@d%e+f"},
		"a | b":                            nil,
		"a; b":                             nil,
		"a > b":                            nil,
		"a $HOME":                          nil,
		"a \"$HOME\"":                      nil,
		"a `b`":                            nil,
		"a *.go":                           nil,
		"a 'b":                             nil,
		`a \`:                              nil,
		"a\nb":                             nil,
		"":                                 nil,
		"  ":                               nil,
		"''":                               nil,
	} {
		got, err := Words(command)
		if cmp.Diff(want, got) != "" || (err == nil) != (want != nil) {
			t.Errorf("%q: %q, %v, want %q", command, got, err, want)
		}
	}
}

// Words in single quotes are what they were.
func FuzzWords(f *testing.F) {
	f.Add("go test", "-run TestA|B $x `y`")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, text := range []string{a, b} {
			if strings.ContainsRune(text, '\'') || strings.ToValidUTF8(text, "") != text || a == "" {
				t.Skip()
			}
		}
		got, err := Words("'" + a + "' '" + b + "'")
		if err != nil || len(got) != 2 || got[0] != a || got[1] != b {
			t.Errorf("%q, %q: %q, %v", a, b, got, err)
		}
		_, _ = Words(a)
	})
}

// Only people name the check that proves a fix.
func TestFixes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.add(Draft{Title: "x", Fixes: " go test -run TestX\n"})
	if got := b.task(id).Fixes; got != "go test -run TestX" {
		t.Errorf("%q", got)
	}
	edit := func(by Actor, text string) func(*Step) error {
		return func(s *Step) error { return ignored(s.Edit(by, id, Edit{Fixes: &text})) }
	}
	create := func(by Actor, text string) func(*Step) error {
		return func(s *Step) error {
			_, _, err := s.Create(by, Draft{Title: "y", Fixes: text})
			return err
		}
	}
	for name, c := range map[string]struct {
		decide func(*Step) error
		err    error
	}{
		"an agent removes it":  {edit(coder, ""), ErrConflict},
		"an agent changes it":  {edit(coder, "true"), ErrConflict},
		"an agent names one":   {create(coder, "true"), ErrConflict},
		"a pipe":               {create(ann, "a | b"), ErrInvalid},
		"lines":                {create(ann, "a\nb"), ErrInvalid},
		"too long":             {create(ann, strings.Repeat("x", MaxFixes+1)), ErrInvalid},
		"a quotation, by edit": {edit(ann, "a 'b"), ErrInvalid},
	} {
		if _, err := b.try(c.decide); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.do(edit(coder, "go test -run TestX")) // as it is
	b.do(edit(ann, "make check"))
	if got := b.task(id).Fixes; got != "make check" {
		t.Errorf("%q", got)
	}
	b.do(edit(ann, ""))
	if got := b.task(id).Fixes; got != "" {
		t.Errorf("%q", got)
	}
}
