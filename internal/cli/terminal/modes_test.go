package terminal

import (
	"io"
	"strings"
	"testing"
)

func FuzzModes(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[?25l\x1b[?1000;1006hx"))
	f.Add([]byte("\x1b[?7l\x1b\x1b[?"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var whole, parts strings.Builder
		a, b := &Modes{W: &whole}, &Modes{W: &parts}
		a.Write(in)
		for i := range in {
			b.Write(in[i : i+1])
		}
		a.Restore()
		b.Restore()
		if whole.String() != parts.String() || !strings.HasPrefix(whole.String(), string(in)) {
			t.Fatalf("%q and %q", whole.String(), parts.String())
		}
	})
}

func TestModes(t *testing.T) {
	t.Parallel()
	const rest = "\x1b[0m\x1b7\x1b[r\x1b8\x1b>\x1b(B"
	for in, want := range map[string]string{
		"":                          "",
		"x":                         rest,
		"\x1b[?1049h\x1b[?25l":      "\x1b[?25h\x1b[?1049l" + rest,
		"\x1b[?1049h\x1b[?1049l":    rest,
		"\x1b[?1000;1006h":          "\x1b[?1000l\x1b[?1006l" + rest,
		"\x1b[?7l\x1b[4h\x1b[?;;3h": "\x1b[?3l\x1b[?7h" + rest,
		"\x1b[?99999999999999999999h\x1b[?0h\x1b[?10000h":   rest,
		"\x1b[?" + strings.Repeat("1", 100) + "\x1b[?2004h": "\x1b[?2004l" + rest,
	} {
		var out strings.Builder
		m := &Modes{W: &out}
		io.WriteString(m, in)
		m.Restore()
		if got := strings.TrimPrefix(out.String(), in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
