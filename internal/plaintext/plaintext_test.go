package plaintext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", ""},
		{"plain\ttext, ünïcödé, 日本, 🌳", "plain\ttext, ünïcödé, 日本, 🌳"},
		{"\x1b[1;31mred\x1b[0m", "red"},
		{"\x1b[2J\x1b[Hcleared", "cleared"},
		{"\x1b]0;title\x07text", "text"},
		{"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"\x1bP1$r0m\x1b\\dcs", "dcs"},
		{"\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\x", "x"},
		{"\u009b31mC1\u009d0;t\u009c csi", "C1 csi"},
		{"\x1b(Bcharset\x1b=keypad\x1b7save", "charsetkeypadsave"},
		{"10%\r20%\r", "10% 20% "},
		{"bell\x07 back\b nul\x00 del\x7f", "bell back nul del"},
		{"\x1b]0;never ended", "0;never ended"},
		{"\x1b]0;broken off\x1b[1m bold", "0;broken off bold"},
		{"\x1b[12;34", "12;34"},
		{"\x1b", ""},
		{"\x1b\x1b[1mx", "x"},
		{"a\u202eb\u2066c\u200f", "abc"},
		{"one\u2028two", "one two"},
		{"bad \xff byte", "bad \uFFFD byte"},
	}
	for _, tt := range tests {
		if got := Line(tt.in); got != tt.want {
			t.Errorf("Line(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{
		"":               "",
		"four":           "four",
		"five5":          "five ...",
		"äöü":            "äö ...",
		"xäöü":           "xä ...", // and not half of a letter
		"a\xffb":         "a\uFFFDb",
		"a\xff\xff\xffb": "a ...",
	} {
		if got := Cut(text, 4); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("\x1b[1;31mred\x1b[0m \x1b]0;t\x07 \u009b1m \xff\r\x00")
	f.Add("\x1b]\x1bP\x1b[\x1b(")
	f.Fuzz(func(t *testing.T, s string) {
		got := Line(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Line(%q) = %q is not UTF-8", s, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("Line(%q) = %q has %U", s, got, r)
			}
		}
		if again := Line(got); again != got {
			t.Fatalf("Line(%q) = %q, and of that %q", s, got, again)
		}
		printable := func(s string) bool {
			return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
		}
		if printable(s) && got != s {
			t.Fatalf("Line(%q) = %q", s, got)
		}
	})
}

// Adversarial lines take linear time.
func TestLineIsLinear(t *testing.T) {
	for _, unit := range []string{"\x1b]", "\u009d", "\x1b[1", "\x1bP\t", "\x1b(", "\x1b]\x1b"} {
		s := strings.Repeat(unit, 4<<20/len(unit)) // quadratic time would be hours
		Line(s)
	}
}
