package screen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestScreen(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"one\r\ntwo":                    "one\ntwo",
		"10%\r20%\r\x1b[K100%":          "100%",
		"\x1b[2;3Hthere\x1b[1;1Hhere":   "here\n  there",
		"old\x1b[2J\x1b[Hnew":           "new",
		"a\r\nb\r\nc\r\nd\r\ne":         "b\nc\nd\ne",
		"shell\x1b[?1049h\x1b[Hprogram": "program",
		"shell\x1b[?1049hx\x1b[?1049l":  "shell",
		"\x1b[2;3r\x1b[3;1Ha\nb":        "\na\n b",
		"日本\x1b[1;2Hx":                  " x本",
		"x\x1b[5b":                      "xxxxxx",
		"\x1b]0;title\x07\x1b]8;;http://x\x07link\x1b]8;;\x07": "link",
		"unfinished \x1b[":       "unfinished",
		"\x1b[c\x1b[6n\x1b[?1$p": "", // questions, which nobody answers
	} {
		s := New(4, 10)
		for _, b := range []byte(text) { // in the smallest parts
			s.Write([]byte{b})
		}
		var lines []string
		for _, line := range s.Lines() {
			lines = append(lines, strings.TrimRight(ansi.Strip(line), " "))
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%q shows %q, want %q", text, got, want)
		}
	}
}

func TestColours(t *testing.T) {
	s := New(2, 20)
	s.Write([]byte("\x1b[31mred\x1b[0m plain"))
	if got := s.Lines()[0]; !strings.Contains(got, "\x1b[31mred") || !strings.Contains(got, " plain") {
		t.Errorf("%q", got)
	}
}

// Sizes and counts that a program makes up take neither memory nor time: without bounds, this takes hours.
func TestBounds(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {-1, 5}, {65535, 65535}} {
		s := New(size[0], size[1])
		if rows, cols := s.Size(); rows < 1 || rows > MaxRows || cols < 1 || cols > MaxCols {
			t.Errorf("%v becomes %d rows and %d columns", size, rows, cols)
		}
	}
	s := New(DefaultRows, DefaultCols)
	for c := '@'; c <= '~'; c++ {
		for _, mode := range []string{"", "?", ">", "<", "="} {
			fmt.Fprintf(s, "x\x1b[%s2147483647;2147483647%c", mode, c)
		}
	}
}

// Whatever a program writes, the screen stays within its size, and goes on.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x1b[2J\x1b[3;5Hx\x1b[?1049h\x1b[1;1r\x1b[5S\x1b[c\x1b]8;;http://x\x07y\x1b[9L\x1b[4h\x1b(0q"))
	f.Add([]byte("\x1b[9I\x1b[9Z\x1b[9S\x1b[9T\x1b[9M\x1b[9X\x1b[9;9r\x1b[?69h\x1b[5;9s\x1b7\x1b8\x1bD\x1bM\x1bE\x1bc"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := New(6, 20)
		s.Write(text[:len(text)/2])
		lines := s.Lines()
		s.Write(text[len(text)/2:])
		lines = append(lines, s.Lines()...)
		if len(lines) > 12 {
			t.Errorf("%d lines", len(lines))
		}
		s.Write([]byte("\x18\x1bc\x1b[H\x1b[2Jgoes on"))
		if got := strings.Join(s.Lines(), "\n"); !strings.Contains(got, "goes on") {
			t.Errorf("%q", got)
		}
	})
}
