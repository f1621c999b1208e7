package proc

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

func TestOnScreen(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", ""},
		{"plain \t text  ", "plain \t text  "},
		{"\x1b[1;31mred\x1b[0m \x1b]0;t\x07x", "red x"},
		{"progress 1%\rprogress 2%", "progress 2%"},
		{"progress 99%\rprogress 100%\r", "progress 100%"},
		{"a long one\rshort", "shortg one"},
		{"a long one\r\x1b[Kshort", "short"},
		{"a long one\rshort\x1b[0K", "short"},
		{"a long one\x1b[2K\rshort", "short"},
		{"a long one\x1b[2K\x1b[1Gshort", "short"},
		{"\x1b[2K\x1b[Gshort", "short"},
		{"downloading\r           \r", ""},
		{"|\b/\b-\b\\", "\\"},
		{"\b\bx", "x"},
		{"\r\x1b[32m█\x1b[0m░\r\x1b[32m██\x1b[0m", "██"},
		{"日本\rab", "ab本"},
		{"日本\ra", "a 本"},
		{"ab本\r日x", "日x"},
		{"abcd\rx日", "x日d"},
		{"a\tb\rX", "X       b"},
		{"é\re", "e"},
		{"ab\r\u0301x", "xb"},
		{"x\r\x1b]0;title\rnot a title", "not a title"},
		{"a\u202e\rb\xff", "b\uFFFD"},
		{"one\u2028two\r\u009b31mX", "Xne two"},
	}
	for _, tt := range tests {
		if got := OnScreen(tt.in); got != tt.want {
			t.Errorf("OnScreen(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzOnScreen(f *testing.F) {
	f.Add("progress 1%\rprogress 2%\x1b[K")
	f.Add("日本\ra\b\u0301\t\r\x1b[2K\x1b]0;\rt\x1b[1G\u009b31m\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := OnScreen(s)
		if plaintext.Line(got) != got {
			t.Fatalf("OnScreen(%q) = %q, which is not plain", s, got)
		}
		if again := OnScreen(got); again != got {
			t.Fatalf("OnScreen(%q) = %q, and of that %q", s, got, again)
		}
		if !moves().MatchString(s) && got != plaintext.Line(s) {
			t.Fatalf("OnScreen(%q) = %q, want %q", s, got, plaintext.Line(s))
		}
	})
}

// A line that is made to be slow is not.
func TestOnScreenIsLinear(t *testing.T) {
	for _, unit := range []string{"x\b", "x\r\t\t\t\t", "\x1b[2Kx", "日\b", "a\u0301", "x\r\u0301"} {
		began := time.Now()
		OnScreen(strings.Repeat("x", 1<<15) + strings.Repeat(unit, 1<<15/len(unit)) + "\r")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q: %v", unit, took)
		}
	}
}
