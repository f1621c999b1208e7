package wire

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func TestLines(t *testing.T) {
	at := time.Unix(1_700_000_000, 123)
	lines := []Line{
		{1, proc.Line{Time: at, Stream: proc.Stdout, Text: "hello"}},
		{2, proc.Line{Time: at, Stream: proc.Stderr}},
		{1<<64 - 1, proc.Line{Time: at, Stream: proc.Stdout, Text: strings.Repeat("\uFFFD", proc.MaxLine), More: true}},
		{2, proc.Line{Time: at, Stream: proc.Stderr, Text: "1%\r2%", Partial: true}},
		{3, proc.Line{Time: time.Unix(0, -1), Stream: proc.Stderr, Text: "ä\x00\n"}},
	}
	var b []byte
	for _, l := range lines {
		b = AppendLine(b, l)
	}
	r := NewLineReader(bytes.NewReader(b))
	for _, want := range lines {
		if got, err := r.Read(); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	if _, err := r.Read(); err != io.EOF {
		t.Errorf("after the last line: %v", err)
	}
	for cut := 1; cut < 30; cut++ { // somewhere in the second line
		r := NewLineReader(bytes.NewReader(b[:len(AppendLine(nil, lines[0]))+min(cut, lineHeader-1)]))
		r.Read()
		if _, err := r.Read(); err == nil || err == io.EOF {
			t.Errorf("a line that was cut off: %v", err)
		}
	}
}

func FuzzLineReader(f *testing.F) {
	f.Add(AppendLine(nil, Line{1, proc.Line{Time: time.Unix(1, 2), Stream: proc.Stderr, Text: "a", More: true}}))
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Add([]byte("{\"type\":\"ok\"}\n{\"type\":\"ended\"}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := NewLineReader(bytes.NewReader(b)).Read()
		if err != nil {
			return
		}
		if got := AppendLine(nil, l); !bytes.HasPrefix(b, got) {
			t.Errorf("%q was read from %q", got, b)
		}
	})
}
