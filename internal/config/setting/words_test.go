package setting

import (
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
