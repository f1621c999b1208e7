package proc

import (
	"reflect"
	"strings"
	"syscall"
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

// Wherever a stream is cut into reads, and however often its reader rests, it gives the same text and the same lines.
func TestSplitterCutAnywhere(t *testing.T) {
	pieces := []string{
		"a", "line\n", "\n", "\r\n", "\r", "€", "🌳", "\xff", "\x80", "\xe2\x82", strings.Repeat("long", MaxLine/7),
		strings.Repeat("x", MaxLine), strings.Repeat("\xff\xfe", 2000), strings.Repeat("short\r\n", 500),
	}
	rapid.Check(t, func(t *rapid.T) {
		var in strings.Builder
		for range rapid.IntRange(0, 20).Draw(t, "pieces") {
			in.WriteString(rapid.SampledFrom(pieces).Draw(t, "piece"))
		}
		var one, cut splitter
		var wanted, got []byte
		var wantedParts, gotParts []part
		collect := func(text *[]byte, parts *[]part) func([]byte, bool) {
			return func(b []byte, more bool) {
				*text = append(*text, b...)
				for line := range strings.Lines(string(b)) {
					*parts = append(*parts, part{line, more})
				}
			}
		}
		emit := collect(&wanted, &wantedParts)
		for rest := in.String(); rest != ""; {
			n := copy(one.space(), rest)
			rest = rest[n:]
			one.consume(n, emit)
		}
		one.finish(emit)
		emit = collect(&got, &gotParts)
		for rest := in.String(); rest != ""; {
			now := rest[:rapid.IntRange(1, len(rest)).Draw(t, "read")]
			n, _ := cut.read(func(b []byte) (int, error) {
				n := copy(b, now)
				now = now[n:]
				return n, nil
			})
			rest = rest[n:]
			cut.consume(n, emit)
			if rapid.Bool().Draw(t, "rests") {
				cut.pause()
			}
		}
		cut.finish(emit)
		if string(got) != string(wanted) || !reflect.DeepEqual(gotParts, wantedParts) {
			t.Fatalf("%d bytes in %d parts, want %d in %d", len(got), len(gotParts), len(wanted), len(wantedParts))
		}
	})
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

// At rest there is no buffer, and an unfinished line is continued after it.
func TestSplitterAtRest(t *testing.T) {
	var s splitter
	var got []part
	emit := func(text []byte, more bool) { got = append(got, part{string(text), more}) }
	give := func(text string) {
		n := copy(s.space(), text)
		s.consume(n, emit)
		s.pause()
	}
	give("one\nbegin")
	if s.buf != nil || string(s.unfinished()) != "begin" || cap(s.rest) > maxRest {
		t.Errorf("at rest with a buffer: %v; unfinished %q of %d bytes", s.buf != nil, s.unfinished(), cap(s.rest))
	}
	if n, err := s.read(func([]byte) (int, error) { return -1, syscall.EAGAIN }); n > 0 || err == nil || s.buf != nil {
		t.Errorf("%d bytes and a buffer: %v, where there is nothing", n, s.buf != nil)
	}
	give(" end\n")
	if want := []part{{"one\n", false}, {"begin end\n", false}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	give(strings.Repeat("x", maxRest+1)) // kept in the buffer, since it would be copied again and again
	if s.buf == nil || len(s.unfinished()) != maxRest+1 {
		t.Errorf("a long line is at rest: %d bytes", len(s.unfinished()))
	}
	s.finish(emit)
	if s.buf != nil || len(s.unfinished()) > 0 || len(got[2].text) != maxRest+2 {
		t.Error("after the end there is something left")
	}
}
