package proc

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

type part struct {
	text string
	more bool
}

// feed gives the splitter a stream in reads of at most n bytes.
func feed(s *splitter, stream string, n int) (got []part) {
	emit := func(text []byte, more bool) {
		if more {
			got = append(got, part{string(text), true})
			return
		}
		for line := range strings.Lines(string(text)) {
			got = append(got, part{strings.TrimSuffix(line, "\n"), false})
		}
	}
	for len(stream) > 0 {
		space := s.space()
		k := copy(space[:min(n, len(space))], stream)
		stream = stream[k:]
		s.consume(k, emit)
	}
	s.finish(emit)
	return got
}

func TestSplitter(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	euro := strings.Repeat("x", MaxLine-1) + "€"
	tests := []struct {
		name, in string
		want     []part
	}{
		{"nothing", "", nil},
		{"lines", "a\nb\n", []part{{"a", false}, {"b", false}}},
		{"empty lines", "\n\n", []part{{"", false}, {"", false}}},
		{"CRLF", "a\r\nb\rc\r\n", []part{{"a", false}, {"b\rc", false}}},
		{"no end", "a\nb", []part{{"a", false}, {"b", false}}},
		{"just fits", long + "\nb\n", []part{{long, false}, {"b", false}}},
		{"one too long", long + "y\nb\n", []part{{long, true}, {"y", false}, {"b", false}}},
		{"three parts", long + long + "y", []part{{long, true}, {long, true}, {"y", false}}},
		{"a character on the cut", euro + "y\n", []part{{euro[:MaxLine-1], true}, {"€y", false}}},
		{"invalid", "a\xff\xfeb\n\xe2\x82", []part{{"a\uFFFDb", false}, {"\uFFFD", false}}},
		{"only continuation bytes", strings.Repeat("\x80", MaxLine+2), []part{{"\uFFFD", true}, {"\uFFFD", false}}},
	}
	for _, tt := range tests {
		for _, n := range []int{1 << 20, 4095, 7} {
			var s splitter
			if got := feed(&s, tt.in, n); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s in reads of %d: %.100v, want %.100v", tt.name, n, got, tt.want)
			}
		}
	}
}

// For any input in pieces of any size, nothing is lost, nothing is too long, and the buffer
// stays small.
func TestSplitterKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in strings.Builder
		for range rapid.IntRange(0, 5).Draw(t, "pieces") {
			piece := rapid.SampledFrom([]string{"a", "€", "\n", "🌳", "long line "}).Draw(t, "piece")
			in.WriteString(strings.Repeat(piece, rapid.IntRange(0, 40000).Draw(t, "times")))
		}
		var s splitter
		var out strings.Builder
		for _, p := range feed(&s, in.String(), rapid.SampledFrom([]int{1 << 20, 5000, 64}).Draw(t, "read")) {
			if len(p.text) > MaxLine || !utf8.ValidString(p.text) {
				t.Fatalf("part of %d bytes, %.20q", len(p.text), p.text)
			}
			out.WriteString(p.text)
			if !p.more {
				out.WriteByte('\n')
			}
		}
		want := in.String()
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if out.String() != want {
			t.Fatalf("%d bytes went in, %d came out", len(want), out.Len())
		}
	})
}

func TestSplitterShrinks(t *testing.T) {
	var s splitter
	drop := func([]byte, bool) {}
	give := func(text string) {
		for len(text) > 0 {
			n := copy(s.space(), text)
			text = text[n:]
			s.consume(n, drop)
			if cap(s.buf) > MaxLine+1 {
				t.Fatalf("buffer of %d bytes", cap(s.buf))
			}
		}
	}
	give(strings.Repeat("x", 3*MaxLine) + "\n")
	for range shrinkAfter {
		give("short\n")
	}
	if cap(s.buf) > smallBuffer {
		t.Errorf("buffer of %d bytes after short lines", cap(s.buf))
	}
}
