package health

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A nudge contains no character that is special to a shell.
func TestHarmless(t *testing.T) {
	for in, want := range map[string]string{
		silentText: silentText, stuckText: stuckText,
		"a; rm -rf /\r\n$(x) `y` | z > f & # ! * ? ~ {a} [b] 'c' \"d\" \\ \x1b[2J é": "a rm -rf x y  z  f       a b c d  2J ",
		strings.Repeat("a", 1000): strings.Repeat("a", maxNudge),
	} {
		if got := harmless(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if got := harmless(rapid.String().Draw(t, "text")); len(got) > maxNudge ||
			strings.ContainsAny(got, "\r\n\x1b;&|<>()$`\\\"'*?[]#~={}%!^/@") {
			t.Errorf("%q", got)
		}
	})
}
