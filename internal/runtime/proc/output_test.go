package proc

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newPipeStream returns a stream whose writing end the test holds.
func newPipeStream(t *testing.T, out Output) (*stream, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return newStream(Stdout, r, newRecorder(out)), w
}

func pumpOf(s *stream) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		s.pump()
		close(ended)
	}()
	return ended
}

// Nothing was read before the exit, and another process has the pipe open. What is in it is the
// output of the process, and what comes soon is not lost.
func TestStreamAfterTheExit(t *testing.T) {
	out := newLines()
	s, w := newPipeStream(t, Output{Line: out.add})
	w.WriteString(strings.Repeat("line\n", 10000) + "no end")
	s.r.SetReadDeadline(time.Unix(1, 0)) // as flush does
	ended := pumpOf(s)
	wait(t, "the flush", s.flushed)
	if got := out.texts(); len(got) != 10001 || got[10000] != "no end" {
		t.Errorf("%d lines when flushed", len(got))
	}
	w.WriteString("late\n")
	w.Close()
	wait(t, "the end", ended)
	if got := out.texts(); got[len(got)-1] != "late" {
		t.Errorf("last line %q", got[len(got)-1])
	}
}

// A process that never stops writing delays nothing.
func TestStreamFloodAfterTheExit(t *testing.T) {
	var n int
	s, w := newPipeStream(t, Output{Line: func(Line) { n++ }})
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		for chunk := strings.Repeat("flood\n", 10000); ; {
			if _, err := w.WriteString(chunk); err != nil {
				return // the reader has closed the pipe
			}
		}
	}()
	ended := pumpOf(s)
	flush([]*stream{s})
	wait(t, "the flush", s.flushed)
	wait(t, "the end", ended)
	wait(t, "the end of the flood", flooded)
	if n == 0 {
		t.Error("nothing was read")
	}
	if s.split.buf != nil || s.yielder.r != nil {
		t.Error("the stream has not given back its buffer and its pipe")
	}
}

// A flood on one stream keeps the last lines of the other.
func TestTail(t *testing.T) {
	r := newRecorder(Output{Tail: 2})
	for _, l := range []Line{
		{Stream: Stderr, Text: "e1"}, {Stream: Stdout, Text: "o1"},
		{Stream: Stderr, Text: "e2"}, {Stream: Stderr, Text: "e3"},
		{Stream: Stdout, Text: "o2"}, {Stream: Stdout, Text: "o3"}, {Stream: Stdout, Text: "o4"},
	} {
		r.emit(time.Time{}, l.Stream, []byte(l.Text+"\n"), false)
	}
	if got, want := r.tail(), []string{"e2", "e3", "o3", "o4"}; !reflect.DeepEqual(got, want) {
		t.Errorf("tail = %q, want %q", got, want)
	}
	r.emit(time.Time{}, Stdout, []byte("\n"+strings.Repeat("€", maxTailLine)), true)
	if got := r.tail(); len(got[3]) > maxTailLine+len("…") || !strings.HasSuffix(got[3], "€…") {
		t.Errorf("long line of %d bytes in the tail", len(got[3]))
	}
	none := newRecorder(Output{Tail: -1})
	none.emit(time.Time{}, Stdout, []byte("x\n"), false)
	if got := none.tail(); len(got) != 0 {
		t.Errorf("tail = %q, want none", got)
	}
}

// All lines of a read are passed on together, and single lines are made only if they are wanted.
func TestLinesAtOnce(t *testing.T) {
	const n = 10000
	var text strings.Builder
	calls, single := 0, 0
	s, w := newPipeStream(t, Output{
		Lines:  func(_ Stream, b []byte) { calls++; text.Write(b) },
		Line:   func(Line) { single++ },
		Wanted: func() bool { return calls > 1 },
	})
	in := strings.Repeat("line\n", n)
	w.WriteString(in) // all of it is in the pipe before anything is read
	s.r.SetReadDeadline(time.Unix(1, 0))
	ended := pumpOf(s)
	wait(t, "the flush", s.flushed)
	if text.String() != in || calls != 1 || single > 0 {
		t.Errorf("%d bytes in %d calls and %d lines, want %d in one call", text.Len(), calls, single, len(in))
	}
	w.WriteString("one\ntwo\n")
	w.Close()
	wait(t, "the end", ended)
	if text.String() != in+"one\ntwo\n" || single != 2 {
		t.Errorf("%d bytes and %d lines, want %d and 2", text.Len(), single, len(in)+len("one\ntwo\n"))
	}
	if got := s.out.tail(); len(got) != DefaultTail || got[0] != "line" {
		t.Errorf("tail = %q", got)
	}
}

// A line without its end is passed on soon, and its last state again, but not after its end has
// come.
func TestPartialLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newLines()
		r := newRecorder(Output{Line: out.add, Partial: out.add})
		var s splitter
		write := func(text string) {
			for text != "" {
				n := copy(s.space(), text)
				text = text[n:]
				s.consume(n, func(text []byte, more bool) { r.emit(time.Now(), Stdout, text, more) })
				r.setUnfinished(Stdout, s.unfinished())
			}
		}
		var got []string
		said := func() []string {
			time.Sleep(partialTime)
			synctest.Wait()
			all := out.get()[len(got):]
			var texts []string
			for _, l := range all {
				texts = append(texts, fmt.Sprint(l.Text, " ", l.Partial))
				got = append(got, l.Text)
			}
			return texts
		}
		for _, step := range []struct {
			write []string
			want  []string
		}{
			{[]string{"1%"}, []string{"1% true"}},
			{nil, nil},
			{[]string{"\r2%", "\r3\xff"}, []string{"1%\r2%\r3\uFFFD true"}},
			{[]string{"%\n"}, []string{"1%\r2%\r3\uFFFD% false"}},
			{[]string{"a", "b\n"}, []string{"ab false"}},
			{[]string{"a\nb"}, []string{"a false", "b true"}},
			{[]string{"\n" + strings.Repeat("x", maxPartial), "\ry"}, []string{"b false", "\ry true"}},
			{[]string{"\n"}, []string{strings.Repeat("x", maxPartial) + "\ry false"}},
		} {
			for _, text := range step.write {
				write(text)
			}
			if d := cmp.Diff(step.want, said()); d != "" {
				t.Errorf("after %.40q (-want +got):\n%s", step.write, d)
			}
		}
	})
}

// The end waits for output that the machine has no time to read, and at most for a moment for output that nobody
// takes.
func TestFlush(t *testing.T) {
	for name, c := range map[string]struct {
		late, blocks time.Duration // before the pipe is read; of each line
		min, max     time.Duration
		lines        int64
	}{
		"at once":              {0, 0, 0, 0, 2},
		"a busy machine":       {time.Second, 0, time.Second, time.Second + flushTimeout, 2},
		"a machine that hangs": {time.Hour, 0, flushMax, flushMax + flushTimeout, 0},
		"nobody takes it":      {0, time.Hour, flushTimeout, 2 * flushTimeout, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var taken atomic.Int64
			s, w := newPipeStream(t, Output{Line: func(Line) {
				time.Sleep(c.blocks)
				taken.Add(1)
			}})
			if _, err := w.WriteString("one\ntwo"); err != nil {
				t.Fatal(err)
			}
			w.Close()
			began := time.Now()
			done := make(chan struct{})
			go func() {
				time.Sleep(c.late)
				s.pump()
				close(done)
			}()
			flush([]*stream{s})
			lines := taken.Load()
			if took := time.Since(began); took < c.min || took > c.max || lines != c.lines {
				t.Errorf("%s: %d lines after %v, expected %d after %v to %v", name, lines, took, c.lines, c.min, c.max)
			}
			<-done
		})
	}
}
